#!/usr/bin/env python3
"""Compares step time, memory and compile time with PyTorch FSDP2, DDP and one process, in one run.

    compare.py [--sizes tiny,4m,25m] [--rounds 3] [--steps 12] [--no-time] [--no-compile]

Decoders (Llama-style, fp32, AdamW) on 2 ranks with 1 thread each, also without generated kernels (`off`) and with `fast`
ones, are compared with FSDP2 and DDP on the same model (gloo), with FSDP2 whose blocks are compiled by torch.compile and
whose AdamW is fused, with one process with 2 threads on the batches of both ranks, and with the step compiled for one rank,
alone on the machine: the time of the operators, a lower bound for every schedule. The contestants take turns, round by
round; a figure is the median over all steps but the first three of each round. Nothing else should run on the machine: the
load is printed.

As on a machine without AVX-512: ATEN_CPU_CAPABILITY=avx2 ONEDNN_MAX_CPU_ISA=AVX2 MKL_ENABLE_INSTRUCTIONS=AVX2.

Memory is the allocated bytes at the peak of a step, on both sides: arena and scratch of the
compiled binary, and FSDP2's live tensors by the profiler's allocation events.
"""

import argparse
import functools
import os
import pathlib
import re
import statistics
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test" / "parity"))

import harness  # noqa: E402
import oracle  # noqa: E402
from oracle import models  # noqa: E402

SIZES = {
    "tiny": models.Config("llama", dim=16, layers=3, heads=2, vocab=64, seq=8, batch=1),
    "4m": models.Config("llama", dim=256, layers=4, heads=8, vocab=1536, seq=128, batch=4),
    "25m": models.Config("llama", dim=512, layers=6, heads=8, vocab=6144, seq=128, batch=4),
}
LLAMA_8B = models.Config(
    "llama", dim=4096, layers=32, heads=32, kv_heads=8, ffn=14336, vocab=128256, seq=2048, batch=1
)
RANKS = 2
WARM_UP = 3
#: Goals for the ratio of step times to FSDP2 whose blocks are compiled by torch.compile, with the
#: fused AdamW.
COMPILED = {"4m": 0.50, "25m": 0.62}


def check_tools():
    """Ends the program if the tools are not built."""
    if not (harness.TOOLS / "fsdp-capture").is_file():
        name = pathlib.Path(sys.argv[0]).name
        sys.exit(f"{name}: error: there is no fsdp-capture in {harness.TOOLS}: run tools/setup.sh, or set FSDP_TOOLS")


class Table:
    """A table of measured figures and their goals."""

    def __init__(self):
        self.rows = []

    def add(self, what, value, goal, form="{:.3f}"):
        verdict = "ok" if value <= goal else "MISSED"
        self.rows.append((what, form.format(value), "<= " + form.format(goal), verdict))
        print("  {:<58} {:>10} {:>12}  {}".format(*self.rows[-1]), flush=True)


def binary_steps(workspace, binary, ranks, steps):
    """Milliseconds of each step of a compiled binary."""
    log = workspace.folder / "log.jsonl"
    log.unlink(missing_ok=True)
    arguments = ["--data", workspace.data, "--init", workspace.weights, "--steps", steps,
                 "--log", log, "--quiet"]  # fmt: skip
    if ranks == 1:
        harness.run([binary, "--ranks", 1, *arguments])
    else:
        arguments += ["--communicator", "shm", "--threads", 1]
        for status, output in harness.finish(harness.start_ranks(binary, ranks, arguments)):
            if status:
                raise harness.CommandFailed(output)
    return [line["step_ms"] for line in harness.read_log(log)]


def torch_steps(workspace, mode, steps, **options):
    run = workspace.oracle_run(
        ["layers.*"], RANKS, steps=steps, mode=mode, time=True,
        threads=2 if mode == "single" else 1, **options,
    )  # fmt: skip
    [(record, _)] = oracle.execute([run])
    return record["step_ms"]


def measure_steps(workspace, rounds, steps):
    """Median milliseconds per contestant, in alternation. `one rank`: the step compiled for one rank,
    which does each rank's share of the operators without sharding."""
    binaries = {
        name: (workspace.compile(ranks, more=more), ranks)
        for name, ranks, more in (
            ("fsdpc", RANKS, ""),
            ("off", RANKS, "fusion=off"),
            ("fast", RANKS, "fusion=fast"),
            ("one rank", 1, ""),
        )
    }
    contestants = {
        name: functools.partial(binary_steps, workspace, *made, steps)
        for name, made in binaries.items()
    } | {
        "FSDP2": lambda: torch_steps(workspace, "fsdp2", steps),
        "compiled FSDP2": lambda: torch_steps(
            workspace, "fsdp2", steps, compile=True, optimizer_options={"fused": True}
        ),
        "DDP": lambda: torch_steps(workspace, "ddp", steps),
        "one process": lambda: torch_steps(workspace, "single", steps),
    }
    times = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, contestant in contestants.items():
            times[name] += contestant()[WARM_UP:]
    return {name: statistics.median(values) for name, values in times.items()}


def compare_size(name, options, table):
    config = SIZES[name]
    parameters = sum(p.numel() for p in models.build(config, "meta").parameters())
    print(f"\n{name}: {parameters / 1e6:.2f}M parameters, {RANKS} ranks, batch per rank "
          f"{config.batch}x{config.seq}")  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="fsdpc-benchmark-") as folder:
        workspace = harness.Workspace(config, samples=16, folder=folder)
        workspace.capture()
        binary = workspace.compile(RANKS)
        if not options.no_time:
            compare_times(name, options, workspace, table)
        if name != "tiny":
            compare_memory(name, workspace, binary, table)


def compare_times(name, options, workspace, table):
    # Tiny steps are short and their times scatter, so many are taken.
    steps = options.steps * (20 if name == "tiny" else 1)
    median = measure_steps(workspace, options.rounds, steps)
    print("  ms per step: " + ", ".join(f"{who} {ms:.2f}" for who, ms in median.items()))
    ours = median["fsdpc"]
    if name == "tiny":
        table.add("tiny: step time / FSDP2", ours / median["FSDP2"], 0.1)
        ops = workspace.captured.read_text().count("aten.call ")
        micros = median["one rank"] * 1e3 / ops
        print(f"  {ops} captured ops, {median['one rank']:.3f} ms per step on one rank")
        table.add("tiny: microseconds of host time per captured op", micros, 0.85)
        return
    table.add(f"{name}: step time / FSDP2", ours / median["FSDP2"], 0.50)
    compiled = min(ours, median["fast"]) / median["compiled FSDP2"]
    table.add(f"{name}: the faster of exact and fast kernels / compiled FSDP2", compiled, COMPILED[name])
    for fusion, ms in (("exact", ours), ("fast", median["fast"])):
        table.add(f"{name}: with kernels ({fusion}) / without", ms / median["off"], 1.0)
    table.add(f"{name}: step time / DDP", ours / median["DDP"], 0.70)
    single = median["one process"]
    table.add(f"{name}: step time / one process, 2 threads", ours / single, 0.92)
    table.add(f"{name}: step time / one rank alone, unsharded", ours / median["one rank"], 1.05)


def compare_memory(name, workspace, binary, table):
    run = workspace.oracle_run(["layers.*"], RANKS, steps=5, memory=True)
    [(record, _)] = oracle.execute([run])
    memory = binary_memory(workspace, binary)
    peak = memory["arena"] + memory["scratch"]
    print(f"  bytes at the peak: fsdpc {peak} {memory}, FSDP2 {record['peak_bytes']}")
    table.add(f"{name}: peak memory of a rank / FSDP2", peak / record["peak_bytes"], 0.9)
    table.add(f"{name}: arena / largest sum of live bytes", memory["arena"] / memory["live"], 1.02)


def binary_memory(workspace, binary):
    """Bytes of rank 0, from the binary's description of its plan and its output after a run."""

    def figure(text, pattern):
        value, unit = re.search(pattern + r"([0-9.]+) (bytes|[KMG]iB)", text).groups()
        return round(float(value) * {"bytes": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30}[unit])

    plan = harness.run([binary, "--describe"]).stdout
    ends = harness.finish(harness.start_ranks(binary, RANKS, [
        "--data", workspace.data, "--init", workspace.weights, "--steps", 5,
        "--communicator", "shm", "--threads", 1]))  # fmt: skip
    if any(status for status, _ in ends):
        raise harness.CommandFailed("\n".join(output for _, output in ends))
    summary = ends[0][1]
    elsewhere = re.search(r"([0-9,]+) by the ordinary allocator", summary).group(1)
    if elsewhere != "0":
        print(f"  NOT COUNTED: {elsewhere} allocations of a step are outside of arena and scratch")
    return {
        "arena": figure(plan, "arena: "),
        "live": figure(plan, "largest sum of live buffers: "),
        "scratch": figure(summary, "scratch "),
    }


def compile_time(table):
    """Llama-3-8B from captured MLIR to an object file, on one core."""
    print("\nLlama-3-8B, 32 layers")
    with tempfile.TemporaryDirectory(prefix="fsdpc-benchmark-") as folder:
        folder = pathlib.Path(folder)
        model, captured = folder / "model.pt", folder / "captured.mlir"
        harness.export.export(LLAMA_8B, "script", str(model), meta=True)
        tools = harness.TOOLS
        begin = time.perf_counter()
        harness.run([tools / "fsdp-capture", model, *models.input_flags(LLAMA_8B),
                     *harness.ADAMW.flags(), "-o", captured])  # fmt: skip
        print(f"  fsdp-capture {time.perf_counter() - begin:.2f} s")
        one_core = ["taskset", "-c", str(min(os.sched_getaffinity(0)))]
        scheduled = folder / "scheduled.mlirbc"
        begin = time.perf_counter()
        harness.run([*one_core, tools / "fsdp-opt", captured, "--emit-bytecode", "-o", scheduled,
                     "--fsdp-pipeline=mesh=dp=8 up-to=scheduled"])  # fmt: skip
        middle = time.perf_counter()
        compiler = [tools / "fsdp-compile", "--object"]
        harness.run([*one_core, *compiler, scheduled, "-o", folder / "step.o"])
        end = time.perf_counter()
        ops = captured.read_text().count("aten.call ")
        print(f"  {ops} ops: fsdp-opt {middle - begin:.2f} s, fsdp-compile {end - middle:.2f} s")
        table.add("Llama-3-8B: seconds from captured step to object", end - begin, 2.0)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", default="tiny,4m,25m", help="comma-separated: tiny, 4m, 25m")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=12, help="per round; 20 times as many for the tiny model")
    parser.add_argument("--no-time", action="store_true", help="leave out the step times")
    parser.add_argument("--no-compile", action="store_true", help="leave out the compile time")
    options = parser.parse_args()
    sizes = options.sizes.split(",") if options.sizes else []
    if unknown := set(sizes) - set(SIZES):
        parser.error(f"unknown size {sorted(unknown)}, expected some of {', '.join(SIZES)}")
    if options.steps <= WARM_UP:
        parser.error(f"--steps {options.steps}: more than {WARM_UP} are needed")
    check_tools()
    print(f"load average before: {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores")
    table = Table()
    for name in sizes:
        compare_size(name, options, table)
    if not options.no_compile:
        compile_time(table)
    print("\n| figure | measured | goal | |\n|---|---|---|---|")
    for row in table.rows:
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    main()

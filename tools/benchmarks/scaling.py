#!/usr/bin/env python3
"""Measures how time grows with the length of a step, for deep decoders: capture, pipeline,
compilation, the search for a schedule without a cap and under one, and fsdp-plan for another mesh.

    scaling.py [--layers 32,126,512,1800]

The decoders have Llama-3-8B's shape except their depth, and no weights. Each tool runs on one core.
"""

import argparse
import dataclasses
import os
import pathlib
import re
import resource
import tempfile
import time

import compare
import harness  # found through compare
from oracle import models


def timed(command):
    """Seconds and peak MiB of a command on one core."""
    core = str(min(os.sched_getaffinity(0)))
    begin = time.perf_counter()
    harness.run(["taskset", "-c", core, *command])
    seconds = time.perf_counter() - begin
    # The peak of all children so far; it is the last child's, since sizes grow from run to run.
    return seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


def search(tools, captured, folder, cap):
    """Seconds to schedule for 8 H100, from text to bytecode."""
    options = f"mesh=dp=8 schedule=auto device=h100 recompute=cheap up-to=scheduled {cap}"
    seconds, _ = timed([tools / "fsdp-opt", captured, "--emit-bytecode",
                        "-o", folder / "scheduled.mlirbc", f"--fsdp-pipeline={options}"])  # fmt: skip
    return seconds


def least_cap(captured):
    """A cap of 1.05 times the least peak, which is read from the error for too small a cap."""
    refusal = harness.run([harness.TOOLS / "fsdp-opt", captured, "-o", os.devnull,
                           "--fsdp-pipeline=mesh=dp=8 schedule=auto recompute=cheap memory-cap=1"],
                          check=False)  # fmt: skip
    least = int(re.search(r"at least (\d+) bytes are live", refusal.stderr)[1])
    return f"memory-cap={least + least // 20}"


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--layers", default="32,126,512,1800", help="comma-separated depths")
    text = parser.parse_args().layers
    if not re.fullmatch(r"[1-9]\d*(,[1-9]\d*)*", text):
        parser.error(f"--layers {text}: expected numbers of at least 1 between commas")
    depths = [int(depth) for depth in text.split(",")]
    compare.check_tools()
    tools = harness.TOOLS
    print("| layers | ops | capture s | pipeline s | µs per op | compile s | largest MiB "
          "| search s | capped s | fsdp-plan s |")  # fmt: skip
    print("|---|---|---|---|---|---|---|---|---|---|")
    for layers in sorted(depths):
        config = dataclasses.replace(compare.LLAMA_8B, layers=layers)
        with tempfile.TemporaryDirectory(prefix="fsdpc-scaling-") as folder:
            folder = pathlib.Path(folder)
            model, captured = folder / "model.pt", folder / "captured.mlir"
            planned = folder / "planned.mlirbc"
            harness.export.export(config, "script", str(model), meta=True)
            capture, _ = timed([tools / "fsdp-capture", model, *models.input_flags(config),
                                *harness.ADAMW.flags(), "-o", captured])  # fmt: skip
            pipeline, _ = timed([tools / "fsdp-opt", captured, "--emit-bytecode", "-o", planned,
                                 "--fsdp-pipeline=mesh=dp=8"])  # fmt: skip
            compiling, peak = timed([tools / "fsdp-compile", "--object", planned,
                                     "-o", folder / "step.o"])  # fmt: skip
            ops = captured.read_text().count("aten.call ")
            searches = [search(tools, captured, folder, cap) for cap in ("", least_cap(captured))]
            plan, _ = timed([tools / "fsdp-plan", captured, "--mesh", "dp=64", "--device", "h100",
                             "--memory-cap", "1TiB", "--budget", 300])  # fmt: skip
        print(f"| {layers} | {ops} | {capture:.2f} | {pipeline:.2f} | {pipeline / ops * 1e6:.1f} "
              f"| {compiling:.2f} | {peak:.0f} | {searches[0]:.2f} | {searches[1]:.2f} "
              f"| {plan:.2f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()

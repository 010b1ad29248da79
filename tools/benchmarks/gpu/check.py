#!/usr/bin/env python3
"""Runs the checks of tools/gpu-check.sh, and prints each claim's figure and whether it holds.

    check.py --cases DIR --build BUILD --out DIR [--device cuda] [--seconds 420] [--only PART,...]
    check.py ... --link        # links the cases and lets each print its description, without a device

The parts belong to three stages, contact, numbers and baselines; --only takes the names of stages, too. A
later call uses the measurements of earlier calls in the same folder.

Writes figures.json into the report's folder after each part, and prints a table at the end. A part
that fails or takes too long keeps its measurements and leaves the other parts their time. Exit
status 0: every claim holds.
"""

import argparse
import dataclasses
import json
import pathlib
import subprocess
import sys
import time

import torch

import claims
import curve
import ladder
import operators
import optimizers
import overlap
import runs

#: Many steps on a GPU, since at its power limit its clock changes from step to step.
CUDA_STEPS, CPU_STEPS = 30, 4
#: Limit for a single run on a GPU.
LONGEST_S = 75
#: Warm-up steps in which caches, clocks and the captured graph settle.
WARM_UP = 4


def bytes_of(text):
    """The number of bytes in "0 bytes" or "1.5 MiB"."""
    number, unit = text.split()
    return float(number.replace(",", "")) * 1024 ** ["bytes", "KiB", "MiB", "GiB"].index(unit)


class Checks:
    """The parts of the check. Each part fills the figures that it is given, and the claims."""

    def __init__(self, options, table):
        self.options, self.table = options, table
        self.cuda = options.device == "cuda"
        self.runner = runs.Runner(options.cases, options.build / "lib", options.out / "work",
                                  options.device, options.out / "logs")  # fmt: skip
        self.runner.longest_s = LONGEST_S if self.cuda else 600
        self.steps = CUDA_STEPS if self.cuda else CPU_STEPS
        self.skip = WARM_UP if self.cuda else 1
        self.ours, self.fsdp2 = {}, {}
        # Measurements of these cases by earlier calls.
        self.known = options.out / "measured.json"
        self.cases = (options.cases / "manifest.json").read_text()
        try:
            known = json.loads(self.known.read_text())
        except (OSError, json.JSONDecodeError):
            return
        if known["cases"] == self.cases and known["device"] == options.device:
            self.ours, self.fsdp2 = known["ours"], known["fsdp2"]

    def remember(self):
        self.known.write_text(json.dumps({"cases": self.cases, "device": self.options.device,
                                          "ours": self.ours, "fsdp2": self.fsdp2}) + "\n")  # fmt: skip

    def ladder(self, figures):
        self.table.measured("ladder", len(ladder.climb(self.runner, figures)))

    def curve(self, figures):
        curves = curve.torch_curves(self.runner, "curve")
        for name in curve.CASES:
            own = figures[name] = curve.check_curve(self.runner, name, curves)
            self.table.measured(f"first {name}", own["first_steps"])
            self.table.measured(f"curve {name}", own["of_spread"])

    def operators(self, figures):
        """Differences between this device's operators and the plans, all in one file."""
        failures = 0
        for name in ("dropout-8", "curve", "large-short"):
            path = self.options.out / f"{name}.operators.jsonl"
            path.unlink(missing_ok=True)
            try:
                self.runner.run(name, 3, "--operator-report", path)
            except runs.Failed:
                if not path.exists():
                    raise
            lines = [json.loads(line) for line in path.read_text().splitlines()]
            figures[name] = lines
            failures += sum(line["kind"] == "failure" for line in lines)
        self.table.measured("operators", failures)

    def optimizers(self, figures):
        for name, difference in optimizers.check(self.runner, figures).items():
            self.table.measured(f"optimizer {name}", difference)

    def replay(self, figures):
        for name in ("dropout", "dropout-8"):
            replay = figures[name] = curve.check_replay(self.runner, name)
            different = replay["different_steps"] + replay.get("different_weights", [])
            self.table.measured(f"replay {name}", len(different))
            self.note_graph(name, replay["graph auto"])

    def fast(self, figures):
        for name in (*claims.OFF, *claims.FUSED, "large-short", "large-tight"):
            run = self.runner.run(name, self.steps, watch=self.cuda)
            issue = sorted(line["issue_ms"] for line in run.log[self.skip :])
            ours = self.ours[name] = figures[name] = {
                "step_ms": run.step_ms(self.skip), "step_ms_of_all": [r["step_ms"] for r in run.log],
                "issue_ms": issue[len(issue) // 2], "device_bytes": run.device_bytes,
                "last_loss": run.log[-1]["loss"],
                "graph": run.figure(r"CUDA graph (.*)"),
                "copied": run.figure(r"ordinary allocator, (.*?) copied"),
                "elsewhere": run.figure(r"([0-9,]+) by the ordinary allocator"),
                "predicted_ms": operators.predicted_ms(self.predicted(name)),
            }  # fmt: skip
            ours["of_predicted"] = ours["step_ms"] / ours["predicted_ms"]
            self.table.measured(f"predicted {name}", abs(ours["of_predicted"] - 1))
            self.note_graph(name, ours["graph"])
            self.compare()
            if name == "large-auto":
                self.table.measured("copies", bytes_of(ours["copied"]))
        if self.cuda:
            # The device memory of a process beside its arena, measured on a small model.
            small = self.runner.run("dropout-8", 4, watch=True)
            arena = bytes_of(small.figure(r"arena (\S+ \w+) per rank"))
            self.ours["context"] = figures["context_bytes"] = small.device_bytes - arena
            self.compare()

    def run_fsdp2(self, measure, name, compiled="none"):
        """Runs fsdp2.py; returns its output."""
        arguments = ["--cases", self.options.cases, "--case", name, "--measure", measure,
                     "--device", self.options.device, "--steps", self.steps, "--skip", self.skip,
                     "--compile", compiled]  # fmt: skip
        if self.cuda:
            arguments += ["--timer", self.options.build / "lib" / "libfsdp_timer.so"]
        what = f"FSDP2 {measure}" + (f" compile {compiled}" if compiled != "none" else "")
        return json.loads(self.runner.script("fsdp2.py", *arguments, what=what).splitlines()[-1])

    def reference(self, figures):
        """FSDP2's figures."""
        for measure, name in (("step", "large-fsdp2"), ("host", "large-short")):
            figures[measure] = self.fsdp2[measure] = self.run_fsdp2(measure, name)
            self.compare()

    def compiled(self, figures):
        """Figures of FSDP2 with torch.compile; if one way fails, the other is still measured."""
        if not self.cuda:
            figures["skipped"] = "torch.compile on a CPU is another compiler"
            return
        for compiled in claims.COMPILED:
            try:
                figures[compiled] = self.run_fsdp2("step", "large-fsdp2", compiled)
            except runs.Failed as error:
                figures[compiled] = {"error": str(error)}
                for row in claims.beside_compiled(compiled):
                    self.table.failed(row, str(error))
                continue
            self.compare_memory(f"memory {claims.SMALL} {compiled}", claims.SMALL, figures[compiled])
        # Ours is measured again afterwards, when the device is as warm.
        figures["again"] = {name: self.runner.run(name, self.steps).step_ms(self.skip)
                            for name in claims.FUSED if name in self.ours}  # fmt: skip
        for name, again in figures["again"].items():
            mean = (self.ours[name]["step_ms"] + again) / 2
            for compiled in claims.COMPILED:
                if "step_ms" in figures[compiled]:
                    self.table.measured(f"step {name} {compiled}", mean / figures[compiled]["step_ms"])

    def compare(self):
        """Checks the claims on our figures relative to FSDP2's, as far as both are known."""
        step, host = self.fsdp2.get("step"), self.fsdp2.get("host")
        for name in (*claims.OFF, *claims.FUSED, "large-tight"):
            if step and name in self.ours:
                self.table.measured(f"step {name}", self.ours[name]["step_ms"] / step["step_ms"])
                self.compare_memory(f"memory {name}", name, step)
        if host and "large-short" in self.ours:
            self.table.measured("host", self.ours["large-short"]["issue_ms"] / host["host_ms"])

    def compare_memory(self, key, name, peer):
        ours = self.ours.get(name, {}).get("device_bytes")
        if ours and self.ours.get("context"):
            self.table.measured(key, (ours - self.ours["context"]) / peer["peak_allocated_bytes"])

    def note_graph(self, name, note):
        if self.cuda and not (note or "").startswith("on"):
            self.table.failed(f"graph {name}", note or "the run does not say")
        elif self.cuda:
            self.table.measured(f"graph {name}", 1)

    def bare(self, figures):
        """The same kernels in one graph: with collectives as fast as their copies, and as one rank,
        which updates all parameters instead of an eighth."""
        for key, name, fake in (("ours", "large-auto", "delay"), ("copies", "large-auto", "copy"),
                                ("alone", "large-alone", "delay")):  # fmt: skip
            figures[key] = self.runner.run(name, self.steps, fake=fake).step_ms(self.skip)
        self.table.measured("bare", figures["ours"] / min(figures["copies"], figures["alone"]))

    def overlapped(self, figures):
        for name in (*claims.OFF, "large-fused"):
            trace = self.options.out / f"{name}.trace.json"
            self.runner.run(name, 6, "--trace", trace, "--trace-step", 5 if self.cuda else 4)
            figures[name] = overlap.compare(self.predicted(name), trace)
            self.table.measured(f"overlap {name}", figures[name]["hidden_of_hideable"])
            try:
                figures[name]["operators"] = operators.compare(self.predicted(name), trace)
            except overlap.Mismatch as error:
                figures[name]["operators"] = str(error)

    def predicted(self, name):
        """The predicted timeline of a case."""
        return self.runner.folder / self.runner.case(name)["predicted_trace"]

    def bandwidth(self, figures):
        if not self.cuda:
            figures["skipped"] = "the kernels run on CUDA devices only"
            return
        program = self.options.build / "bin" / "kernel-bandwidth"
        figures.update(json.loads(self.runner.call([program], "kernel bandwidth")))
        worst = min(figures["kernels"], key=lambda kernel: kernel["of_copy"])
        figures["slowest"] = worst["kernel"]
        self.table.measured("bandwidth", worst["of_copy"])


#: Parts in order of importance, with the seconds that each may need on a GPU.
PARTS = {"ladder": 50, "operators": 20, "curve": 30, "optimizers": 20, "replay": 15, "fast": 85, "reference": 45, "overlapped": 15,
         "bandwidth": 10, "compiled": 85, "bare": 40}  # fmt: skip
#: Parts of a call, if the time limit of a call is too short for all parts.
STAGES = {"contact": ("ladder", "operators"), "numbers": ("curve", "optimizers", "replay", "fast", "bandwidth"),
          "baselines": ("reference", "overlapped", "compiled", "bare")}  # fmt: skip


def link(runner):
    for case in runner.manifest["cases"]:
        binary = runner.link(case["name"])
        text = runner.call([binary, "--describe"], f"describe {case['name']}")
        arena = next(line.strip() for line in text.splitlines() if "arena: " in line)
        print(f"{case['name']:<17} {case['ranks']} ranks, {case['calls']} calls, {arena}")


def machine():
    """Names and versions of the device and its driver."""
    fields = "name,driver_version,memory.total,power.limit,clocks.max.sm,clocks.sm,temperature.gpu"
    command = ["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader", "--id=0"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return (answer.stdout or answer.stderr).strip()


def run_parts(options, checks, table, parts):
    figures = {"device": machine() if checks.cuda else "CPU", "torch": torch.__version__,
               "seconds": {}}  # fmt: skip
    end = time.monotonic() + options.seconds
    for i, part in enumerate(parts):
        begin = time.monotonic()
        # A part may use its own time and the time that later parts do not need.
        spare = end - begin - sum(PARTS[later] for later in parts[i:])
        limit = min(PARTS[part] + max(spare, 0), end - begin) if checks.cuda else 600
        checks.runner.deadline = begin + limit
        figures[part] = {}
        reason = "one of its sides was not measured"
        try:
            if limit < 5:
                raise runs.Failed("no time is left")
            getattr(checks, part)(figures[part])
        except Exception as error:  # whatever the error, the other parts go on
            reason = str(error).splitlines()[0] if str(error) else repr(error)
            figures[part]["error"] = reason
            print(f"{part}: {reason}", file=sys.stderr)
        checks.remember()
        table.end_part(part, reason)
        figures["seconds"][part] = round(time.monotonic() - begin, 1)
        figures["without_graph"] = checks.runner.without_graph
        figures["without_nccl"] = checks.runner.without_nccl
        figures["claims"] = [dataclasses.asdict(row) for row in table.rows.values()]
        text = json.dumps(figures, indent=1)
        (options.report / "figures.json").write_text(text + "\n")
        print(f"{part}: {figures['seconds'][part]} s", flush=True)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="build folder of the runtime")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--report", type=pathlib.Path, help="folder of figures.json; default: --out")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--seconds", type=float, default=420, help="time limit for all parts together")
    parser.add_argument("--link", action="store_true", help="link the cases, and end")
    parser.add_argument("--only", help="parts or stages, separated by commas: " + ", ".join([*PARTS, *STAGES]))
    options = parser.parse_args()
    options.report = options.report or options.out
    for name in ("cases", "build", "out", "report"):  # runs happen elsewhere
        setattr(options, name, getattr(options, name).resolve())
    asked = options.only.split(",") if options.only else list(PARTS)
    if unknown := [part for part in asked if part not in [*PARTS, *STAGES]]:
        parser.error(f"--only {unknown[0]}: expected some of {', '.join([*PARTS, *STAGES])}")
    parts = [part for part in PARTS if any(part in STAGES.get(name, (name,)) for name in asked)]
    if options.device == "cpu":
        torch.set_num_threads(1)
    for path in (options.out, options.report):
        path.mkdir(parents=True, exist_ok=True)
    table = claims.Table(parts, options.device)
    try:
        checks = Checks(options, table)
        if options.link:
            link(checks.runner)
            return
    except (OSError, json.JSONDecodeError, runs.Failed) as error:
        sys.exit(f"check.py: error: {error}")
    run_parts(options, checks, table, parts)
    table.print()
    print(f"figures in {options.report / 'figures.json'}")
    sys.exit(0 if table.holds() else 1)


if __name__ == "__main__":
    main()

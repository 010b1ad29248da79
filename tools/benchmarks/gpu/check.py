#!/usr/bin/env python3
"""Runs the checks of tools/gpu-check.sh and says for each claim what was measured and whether it holds.

    check.py --cases DIR --build BUILD --out DIR [--device cuda] [--seconds 300] [--only PART,...]
    check.py ... --link        # links the cases and lets each say what it holds, without a device

Writes figures.json into the output folder and prints a table. Parts that no longer fit into the
seconds are left out, and count as failed. Exit status 0: every claim holds.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import time

import torch

import curve
import overlap
import runs

HERE = pathlib.Path(__file__).resolve().parent
CUDA_STEPS, CPU_STEPS = 14, 4
#: Steps before which caches, clocks and the captured graph settle.
WARM_UP = 4


class Claims:
    """What was measured beside what it should be."""

    def __init__(self):
        self.rows, self.figures = [], {}

    def add(self, claim, value, goal, at_least=False):
        holds = value >= goal if at_least else value <= goal
        self.rows.append({"claim": claim, "value": value, "goal": goal,
                          "sense": ">=" if at_least else "<=", "holds": holds})  # fmt: skip

    def miss(self, claim, reason):
        self.rows.append({"claim": claim, "value": None, "goal": None, "sense": "", "holds": False,
                          "reason": reason})  # fmt: skip

    def print_table(self):
        print(f"\n{'claim':<58} {'measured':>10} {'goal':>10}")
        for row in self.rows:
            if row["value"] is None:
                print(f"{row['claim']:<58} {'-':>10} {'':>10}  FAILED: {row['reason']}")
                continue
            goal = f"{row['sense']} {row['goal']:.4g}"
            verdict = "ok" if row["holds"] else "MISSED"
            print(f"{row['claim']:<58} {row['value']:>10.4g} {goal:>10}  {verdict}")


class Checks:
    def __init__(self, options, claims):
        self.options, self.claims = options, claims
        self.cuda = options.device == "cuda"
        self.runner = runs.Runner(options.cases, options.build / "lib", options.out / "work",
                                  options.device)  # fmt: skip
        self.steps = CUDA_STEPS if self.cuda else CPU_STEPS
        self.skip = WARM_UP if self.cuda else 1
        self.fsdp2 = None

    def large(self, name, *flags, **how):
        return self.runner.run(name, self.steps, *flags, watch=self.cuda, **how)

    def python(self, script, *arguments):
        command = [sys.executable, HERE / script, *arguments]
        return json.loads(self.runner.call(command).splitlines()[-1])

    # Each part returns its figures and adds its claims.

    def right(self):
        figures = {"curve": curve.check_curve(self.runner), "replay": {}}
        self.claims.add("loss curve beside torch eager, largest relative difference",
                        figures["curve"]["largest_relative_difference"], curve.BOUND)  # fmt: skip
        replay = figures["replay"] = curve.check_replay(self.runner)
        for name in ("dropout", "dropout-8"):
            different = replay[name]["different_steps"] + replay[name].get("different_weights", [])
            self.claims.add(f"{name}: steps and weights that differ, graph or eager",
                            len(different), 0)  # fmt: skip
            if self.cuda and not replay[f"{name} graph auto"].startswith("on"):
                self.claims.miss(f"{name}: a step is one graph", replay[f"{name} graph auto"])
        return figures

    def reference(self):
        arguments = ["--cases", self.options.cases, "--case", "large-fsdp2", "--short",
                     "large-short", "--device", self.options.device, "--steps", self.steps,
                     "--skip", self.skip]  # fmt: skip
        if self.cuda:
            arguments += ["--delay", self.options.build / "lib" / "libfsdp_delay.so"]
        self.fsdp2 = self.python("fsdp2.py", *arguments)
        return self.fsdp2

    def fast(self):
        if self.fsdp2 is None:
            raise runs.Failed("FSDP2's figures are missing")
        ours = {name: self.large(name) for name in ("large-fsdp2", "large-auto")}
        figures = {name: {"step_ms": run.step_ms(self.skip), "device_bytes": run.device_bytes,
                          "graph": run.figure(r"CUDA graph (.*)")}
                   for name, run in ours.items()}  # fmt: skip
        for name, figure in figures.items():
            self.claims.add(f"{name}: step time / FSDP2's",
                            figure["step_ms"] / self.fsdp2["step_ms"], 0.9)  # fmt: skip
        short = self.large("large-short")
        figures["issue_ms"] = sorted(line["issue_ms"] for line in short.log[self.skip :])[
            (len(short.log) - self.skip) // 2
        ]
        self.claims.add("host time per step / FSDP2's",
                        figures["issue_ms"] / self.fsdp2["host_ms"], 0.05)  # fmt: skip
        figures["copied"] = ours["large-auto"].figure(r"ordinary allocator, (.*?) copied")
        self.claims.add("bytes copied between FSDP's buffers per step",
                        0 if figures["copied"] == "0 bytes" else 1, 0)  # fmt: skip
        figures["elsewhere"] = ours["large-auto"].figure(r"([0-9,]+) by the ordinary allocator")
        if self.cuda:
            # What a process holds on the device before it trains anything large.
            context = self.large("dropout", watch=True).device_bytes
            peak = max(figure["device_bytes"] for figure in list(figures.values())[:2])
            figures["context_bytes"] = context
            self.claims.add("peak device memory / FSDP2's largest allocated",
                            (peak - context) / self.fsdp2["peak_allocated_bytes"], 0.9)  # fmt: skip
        return figures

    def bare(self):
        """The same kernels in one graph: with collectives that take no time, and as one rank, which
        updates all parameters instead of an eighth."""
        figures = {
            "ours": self.large("large-auto").step_ms(self.skip),
            "free": self.large("large-auto", fake="free").step_ms(self.skip),
            "alone": self.large("large-alone").step_ms(self.skip),
        }
        self.claims.add("step time / without communication, one graph",
                        figures["ours"] / min(figures["free"], figures["alone"]), 1.03)  # fmt: skip
        return figures

    def overlapped(self):
        figures = {}
        for name in ("large-auto", "large-fsdp2"):
            trace = self.options.out / f"{name}.trace.json"
            self.large(name, "--trace", trace, "--trace-step", self.steps - 1)
            predicted = self.runner.folder / self.runner.case(name)["predicted_trace"]
            figures[name] = overlap.compare(predicted, trace)
            self.claims.add(f"{name}: hidden of what the schedule hides",
                            figures[name]["hidden_of_hideable"], 0.95, at_least=True)  # fmt: skip
        return figures

    def bandwidth(self):
        if not self.cuda:
            return {"skipped": "the kernels run on CUDA devices only"}
        figures = json.loads(self.runner.call([self.options.build / "bin" / "kernel-bandwidth"]))
        worst = min(figures["kernels"], key=lambda kernel: kernel["of_copy"])
        self.claims.add(f"slowest kernel / copy ({worst['kernel']})", worst["of_copy"], 0.9,
                        at_least=True)  # fmt: skip
        return figures


def link(runner):
    for case in runner.manifest["cases"]:
        text = runner.call([runner.link(case["name"]), "--describe"])
        arena = next(line.strip() for line in text.splitlines() if "arena: " in line)
        print(f"{case['name']:<12} {case['ranks']} ranks, {case['calls']} calls, {arena}")


#: Parts in order of worth, with the seconds that each may need on a GPU.
PARTS = {"right": 80, "reference": 60, "fast": 90, "overlapped": 50, "bandwidth": 30, "bare": 60}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", type=pathlib.Path, required=True)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="the runtime's build")
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--seconds", type=float, default=370, help="for all parts together")
    parser.add_argument("--link", action="store_true", help="link the cases, and end")
    parser.add_argument("--only", help="parts, separated by commas: " + ", ".join(PARTS))
    options = parser.parse_args()
    for name in ("cases", "build", "out"):  # runs happen elsewhere
        setattr(options, name, getattr(options, name).resolve())
    parts = options.only.split(",") if options.only else list(PARTS)
    if unknown := [part for part in parts if part not in PARTS]:
        parser.error(f"--only {unknown[0]}: expected some of {', '.join(PARTS)}")
    if options.device == "cpu":
        torch.set_num_threads(1)
    options.out.mkdir(parents=True, exist_ok=True)
    claims = Claims()
    try:
        checks = Checks(options, claims)
    except (OSError, json.JSONDecodeError, runs.Failed) as error:
        sys.exit(f"check.py: error: {error}")
    if options.link:
        link(checks.runner)
        return
    device = torch.cuda.get_device_name(0) if options.device == "cuda" else "CPU"
    claims.figures = {"device": device, "torch": torch.__version__, "seconds": {}}
    began = time.monotonic()
    for part in parts:
        begin = time.monotonic()
        left = options.seconds - (begin - began)
        try:
            if options.device == "cuda" and left < PARTS[part]:
                raise runs.Failed(f"{left:.0f} s are left, it may need {PARTS[part]}")
            claims.figures[part] = getattr(checks, part)()
        except (runs.Failed, overlap.Mismatch, subprocess.TimeoutExpired, OSError, KeyError) as error:
            claims.miss(part, str(error).splitlines()[0] if str(error) else repr(error))
        claims.figures["seconds"][part] = round(time.monotonic() - begin, 1)
        print(f"{part}: {time.monotonic() - begin:.1f} s", flush=True)
    claims.figures["claims"] = claims.rows
    (options.out / "figures.json").write_text(json.dumps(claims.figures, indent=1) + "\n")
    claims.print_table()
    print(f"figures in {options.out / 'figures.json'}")
    sys.exit(0 if all(row["holds"] for row in claims.rows) else 1)


if __name__ == "__main__":
    main()

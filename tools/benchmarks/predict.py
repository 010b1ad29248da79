#!/usr/bin/env python3
"""Compares predicted and measured step times, in FSDP2's order and in the searched one.

    predict.py [--size 4m|25m] [--rounds 6] [--steps 12]

Profiles the operators and the collectives of a decoder on this machine, predicts its step on 2 ranks
with 1 thread each, and runs it; in each round the two orders take turns, and the order that begins
alternates. Step times are medians over all steps but the first three of each round. Nothing else should
run on the machine: the load is printed.
"""

import argparse
import json
import os
import statistics
import tempfile

import compare
import harness  # found through compare

SCHEDULES = {"fsdp2": "schedule=fsdp2", "auto": "schedule=auto"}


def profile(workspace, captured):
    """Profiles this machine; returns the options that name the profiles."""
    operators, network = workspace.folder / "profile.json", workspace.folder / "network.json"
    tool = harness.TOOLS / "fsdp-profile"
    harness.run([tool, captured, "--threads", 1, "--ranks", compare.RANKS, "-o", operators])
    harness.run([tool, "--collectives", "--ranks", compare.RANKS, "-o", network])
    return f"profile={operators} network={network}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--size", choices=["4m", "25m"], default="4m")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--steps", type=int, default=12)
    options = parser.parse_args()
    if options.steps <= compare.WARM_UP:
        parser.error(f"--steps {options.steps}: more than {compare.WARM_UP} are needed")
    compare.check_tools()
    print(f"load average before: {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores")

    with tempfile.TemporaryDirectory(prefix="fsdpc-benchmark-") as folder:
        workspace = harness.Workspace(compare.SIZES[options.size], samples=16, folder=folder)
        workspace.capture()
        costs = profile(workspace, workspace.captured)
        binaries, predicted = {}, {}
        for name, schedule in SCHEDULES.items():
            binaries[name] = workspace.folder / name
            planned, report = (workspace.folder / f"{name}.{end}" for end in ("mlir", "json"))
            pipeline = f"mesh=dp={compare.RANKS} {schedule} {costs} report={report}"
            harness.run([harness.TOOLS / "fsdp-opt", workspace.captured,
                         f"--fsdp-pipeline={pipeline}", "-o", planned])  # fmt: skip
            harness.run([harness.TOOLS / "fsdp-compile", planned, "-o", binaries[name]])
            predicted[name] = json.loads(report.read_text())["prediction"]
        measured = {name: [] for name in SCHEDULES}
        ratios = []  # by round
        for round_number in range(options.rounds):
            medians = {}
            for name in list(SCHEDULES)[:: 1 if round_number % 2 == 0 else -1]:
                steps = compare.binary_steps(workspace, binaries[name], compare.RANKS, options.steps)
                medians[name] = statistics.median(steps[compare.WARM_UP :])
                measured[name] += steps[compare.WARM_UP :]
            ratios.append(medians["auto"] / medians["fsdp2"])

    print("\n| order | predicted ms | measured ms | predicted / measured | predicted / bound |")
    print("|---|---|---|---|---|")
    median = {name: statistics.median(steps) for name, steps in measured.items()}
    for name, steps in median.items():
        ms = predicted[name]["step_ns"] / 1e6
        print(f"| {name} | {ms:.2f} | {steps:.2f} | {ms / steps:.3f} "
              f"| {predicted[name]['ratio']:.4f} |")  # fmt: skip
    print(f"\nsearched order / FSDP2's, measured: {statistics.median(ratios):.3f}, the median of "
          f"{len(ratios)} rounds from {min(ratios):.3f} to {max(ratios):.3f}")  # fmt: skip


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Compares the losses of steps with other optimizers than AdamW with torch eager's.

    optimizers.py --cases DIR --weights FILE --data FILE [--device cuda]

prints, as JSON, torch eager's losses of each optimizer.

The model is small and computes in fp32, so that both sides differ by the last bits of operators and updates. Noise of one
fp32 rounding in each parameter and step changes the losses by 2e-7. BOUND is far above that. Weight decay that is 10 %
off changes them by 4e-4 and more, scalars that stay those of the third step, which is captured as a graph, by 0.08 (nadam,
radam).
"""

import argparse
import json
import pathlib

import cases
import curve
from cases import models

import safetensors_io  # found through cases

NAMES = tuple(name for name in cases.OPTIMIZERS if name != "adamw")
STEPS, BOUND = 10, 2**-14  # radam's update changes at step 6


def check(runner, figures):
    """Fills {name: figures}; returns the largest difference of each optimizer's losses."""
    first = NAMES[0]  # all have the same model
    answer = runner.script("optimizers.py", "--cases", runner.folder, "--weights", runner.weights(first), "--data",
                           runner.data(first, curve.SAMPLES), "--device", runner.device, what="torch's optimizers")  # fmt: skip
    for name, eager in json.loads(answer.splitlines()[-1]).items():
        losses = [line["loss"] for line in runner.run(name, STEPS, samples=curve.SAMPLES).log]
        figures[name] = {"ours": losses, "eager": eager,
                         "largest_difference": max(curve.relative_differences(losses, eager))}  # fmt: skip
    return {name: own["largest_difference"] for name, own in figures.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("cases", "weights", "data"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    options = parser.parse_args()
    values, data = safetensors_io.load(options.weights), safetensors_io.load(options.data)
    losses = {}
    for options.case in NAMES:
        _, case = cases.read(parser, options)
        losses[options.case] = curve.eager_losses(models.Config(**case["model"]), values, data, options.device, STEPS,
                                                  optimizer=case["optimizer"])  # fmt: skip
    print(json.dumps(losses))


if __name__ == "__main__":
    main()

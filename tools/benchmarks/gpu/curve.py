#!/usr/bin/env python3
"""Compares the loss curve of a compiled step with torch eager's, and graph replay with eager issue.

    curve.py --cases DIR --case curve --weights FILE --data FILE [--steps 50] [--device cuda]

prints, as JSON, the losses of torch eager, and those of its runs from perturbed parameters.

The model of the case "curve" computes in bf16 under fp32 parameters, with gradients and updates in
fp32: the arithmetic of FSDP2's MixedPrecisionPolicy(param_dtype=bf16, reduce_dtype=fp32). Both sides
run the same operators on the same values; they differ in where they round, in the order in which
kernels add (algorithms of matrix products, atomic additions) and in the last bits of the update.

The difference of two losses is relative to max(loss, 1). There are two bounds, see judge():

FIRST_BOUND, for the first steps, where training has amplified nothing yet. The loss is a mean over
the batch's tokens of log-sum-exp minus a logit, whose slope in each logit is at most 1; logits are of
the size of the loss, and rounding one to bf16 errs by at most 2^-9 of it, in either direction. If all
tokens had the same rounding errors, the mean would err by up to 2^-9. They do not: the mean over
thousands of tokens stays well below half of it (2e-4 on an H100), and a learning rate that is 10 %
off exceeds half of it.

SPREAD, for all steps. Training amplifies rounding errors: if each parameter is perturbed by up to
half a bf16 rounding, torch's own losses differ by 5 % after 50 steps. So a curve is right if its
distance from torch eager's (root mean square over the steps) is at most SPREAD times the mean
distance of perturbed runs. SPREAD is above 1, since one more such run must pass: nine runs on a CPU
were between 0.8 and 1.4 times their mean. The bound is not the largest distance, since with MOVED = 4
a fifth of such curves would exceed that. A dropped gradient of a matrix of a block's MLP or of
attention's values is at 7 to 28 times the mean; dropped gradients of a norm, of queries and of keys
matter too little in 50 steps to be seen.
"""

import argparse
import json
import math
import pathlib
import statistics

import torch

import cases
from cases import models

import safetensors_io  # found through cases

CASES = ("curve", "curve-fused")
STEPS = 50
MOVED = 4  # runs of torch from perturbed parameters
FIRST_STEPS, FIRST_BOUND = 5, 2**-10
SPREAD = 1.5
SAMPLES = 64  # of the data, whatever the batch


def eager_losses(config, values, data, device, steps, moved=None, optimizer="adamw"):
    """Losses of torch eager: forward, backward, an optimizer of cases.py on fp32 parameters. `moved`: a
    generator that moves each parameter by up to half a bf16 rounding."""
    model = models.build(config, device)
    model.load_state_dict(values)
    if moved is not None:
        with torch.no_grad():
            for parameter in model.parameters():
                noise = torch.rand(parameter.shape, generator=moved) * 2 - 1
                parameter.mul_(1 + noise.to(parameter.device) * 2**-9)
    name, options = cases.OPTIMIZERS[optimizer]
    optimizer = getattr(torch.optim, name)(model.parameters(), foreach=False, **options)
    inputs = [tensor.to(device) for tensor in data.values()]
    batch, losses = config.batch, []
    for step in range(steps):
        rows = [(step * batch + i) % len(inputs[0]) for i in range(batch)]
        optimizer.zero_grad(set_to_none=True)
        loss = model(*(tensor[rows] for tensor in inputs))
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [loss.item() for loss in losses]


def relative_differences(curve, eager):
    return [abs(a - b) / max(b, 1.0) for a, b in zip(curve, eager, strict=True)]


def torch_curves(runner, name, steps=STEPS):
    """What this script prints for a case."""
    answer = runner.script("curve.py", "--cases", runner.folder, "--case", name, "--weights",
                           runner.weights(name), "--data", runner.data(name, SAMPLES), "--steps", steps,
                           "--device", runner.device, what="torch eager")  # fmt: skip
    return json.loads(answer.splitlines()[-1])


def judge(ours, curves):
    """Figures of a loss curve beside torch's; see above."""
    eager = curves["eager"]

    def distance(curve):
        differences = relative_differences(curve, eager)
        return math.sqrt(statistics.fmean(difference**2 for difference in differences))

    for step, loss in enumerate(ours, 1):
        if not math.isfinite(loss):
            raise ValueError(f"the loss of step {step} is {loss}")
    moved = [distance(curve) for curve in curves["moved"]]
    differences = relative_differences(ours, eager)
    return {
        "steps": len(eager), "first_loss": eager[0], "last_loss": eager[-1],
        "first_steps": max(differences[:FIRST_STEPS]),
        "largest_difference": max(differences),
        "distance": distance(ours), "moved_distances": moved,
        "of_spread": distance(ours) / statistics.fmean(moved),
        "ours": ours, **curves,
    }  # fmt: skip


def check_curve(runner, name, curves):
    """judge() of a case."""
    steps = len(curves["eager"])
    return judge([line["loss"] for line in runner.run(name, steps, samples=SAMPLES).log], curves)


def bits(tensor):
    return tensor.reshape(-1).view(torch.uint8)


def different_steps(left, right):
    """Steps whose losses or gradient norms differ in a bit."""
    return [a["step"] for a, b in zip(left, right, strict=True)
            if (a["loss_hex"], a["grad_norm"]) != (b["loss_hex"], b["grad_norm"])]  # fmt: skip


def check_replay(runner, name, steps=10):
    """Graph replay beside eager issue of the same plan, with dropout: losses and gradient norms of
    all steps, and the saved weights where the run is no fake one."""
    figures, logs, saved = {"steps": steps}, [], []
    for graph in ("auto", "off"):
        flags = ["--seed", 7]
        if runner.device == "cuda":
            flags += ["--cuda-graph", graph]
        if runner.case(name)["ranks"] == 1 and not runner.without_nccl:
            saved.append(runner.work / f"{name}.{graph}.safetensors")
            flags += ["--save", saved[-1]]
        result = runner.run(name, steps, *flags, fake="copy")
        logs.append(result.log)
        figures[f"graph {graph}"] = result.figure(r"CUDA graph (.*)") or "no graph"
    figures["different_steps"] = different_steps(*logs)
    if len(saved) == 2 and not runner.without_nccl:
        left, right = map(safetensors_io.load, saved)
        figures["different_weights"] = [
            key for key in left if not torch.equal(bits(left[key]), bits(right[key]))
        ]
    return figures


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("cases", "weights", "data"):
        parser.add_argument(f"--{name}", type=pathlib.Path, required=True)
    parser.add_argument("--case", required=True)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    options = parser.parse_args()
    if options.device == "cpu":
        torch.set_num_threads(1)
    _, case = cases.read(parser, options)
    config = models.Config(**case["model"])
    values = safetensors_io.load(options.weights)
    data = safetensors_io.load(options.data)
    arguments = config, values, data, options.device, options.steps
    print(json.dumps({
        "eager": eager_losses(*arguments),
        "moved": [eager_losses(*arguments, moved=torch.Generator().manual_seed(seed))
                  for seed in range(1, MOVED + 1)],
    }))  # fmt: skip


if __name__ == "__main__":
    main()

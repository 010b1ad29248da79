#!/usr/bin/env python3
"""The loss curve of a compiled step beside torch eager's, and graph replay beside eager issue.

    curve.py --cases DIR --case curve --weights FILE --data FILE [--steps 50] [--device cuda]

prints torch eager's losses, and those from moved parameters, as JSON.

The model of the case "curve" computes in bf16 under fp32 parameters, with gradients and updates in
fp32: the arithmetic of FSDP2's MixedPrecisionPolicy(param_dtype=bf16, reduce_dtype=fp32). Both sides
run the same operators in the same dtypes on the same values; they differ in the order in which
kernels add (algorithms of matrix products, atomic additions) and in the last bits of the update.

Bound, per step: |difference| <= 2^-8 * max(loss, 1), twice the unit roundoff of bf16. The loss is a mean
over the batch's tokens of log-sum-exp minus a logit, whose slope in each logit is at most 1. A bf16
logit is off by at most 2^-9 of its size, on each of the two sides, and logits are of the size of the
loss. So the bound is reached where every token errs by a whole rounding in the same direction;
independent roundings of thousands of tokens stay far below it, and what is left is for what AdamW
makes of them in 50 steps. How much that is, torch shows against itself: from parameters that are
moved by up to half a bf16 rounding each. It is reported beside the verdict.
"""

import argparse
import json
import math
import pathlib

import torch

import cases
from cases import models

import safetensors_io  # found through cases

STEPS = 50
BOUND = 2**-8
SAMPLES = 64  # of the data, whatever the batch


def eager_losses(config, values, data, device, steps, moved=None):
    """Losses of torch eager: forward, backward, AdamW on fp32 parameters. `moved`: a generator that
    moves each parameter by up to half a bf16 rounding."""
    model = models.build(config, device)
    model.load_state_dict(values)
    if moved is not None:
        with torch.no_grad():
            for parameter in model.parameters():
                noise = torch.rand(parameter.shape, generator=moved) * 2 - 1
                parameter.mul_(1 + noise.to(parameter.device) * 2**-9)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False, **cases.ADAMW)
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


def torch_curves(runner, name, steps=STEPS):
    """What this script prints for a case."""
    answer = runner.script("curve.py", "--cases", runner.folder, "--case", name, "--weights",
                           runner.weights(name), "--data", runner.data(name, SAMPLES), "--steps", steps,
                           "--device", runner.device, what="torch eager")  # fmt: skip
    return json.loads(answer.splitlines()[-1])


def check_curve(runner, name, curves):
    """Figures of the loss curve of a case beside torch's; see above."""
    eager = curves["eager"]
    steps = len(eager)
    ours = [line["loss"] for line in runner.run(name, steps, samples=SAMPLES).log]

    for step, loss in enumerate(ours, 1):
        if not math.isfinite(loss):
            raise ValueError(f"the loss of step {step} is {loss}")

    def largest(curve):
        return max(abs(a - b) / max(b, 1.0) for a, b in zip(curve, eager, strict=True))

    return {
        "steps": steps,
        "first_loss": eager[0], "last_loss": eager[-1],
        "largest_relative_difference": largest(ours),
        "torch_against_itself": largest(curves["moved"]),
        "bound": BOUND, "ours": ours, "eager": eager,
    }  # fmt: skip


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
        "moved": eager_losses(*arguments, moved=torch.Generator().manual_seed(1)),
    }))  # fmt: skip


if __name__ == "__main__":
    main()

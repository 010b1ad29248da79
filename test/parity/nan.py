#!/usr/bin/env python3
"""--find-nan names where NaN or Inf begins: the operator with its module and phase, or what the step began
with, and the rank. What holds Inf without spoiling the step is no fault."""

import math
import unittest

import torch
from torch import nn

import harness
from oracle import safetensors_io

RANKS, STEPS, BATCH, DIM = 2, 4, 3, 8


class Block(nn.Module):
    def __init__(self, kind):
        super().__init__()
        self.lin = nn.Linear(DIM, DIM)
        self.kind = kind

    def forward(self, x):
        y = self.lin(x)
        if self.kind == "masked":  # Inf on the way, forward and backward
            scores = y.unsqueeze(1) * y.unsqueeze(2)
            mask = torch.ones(DIM, DIM, dtype=torch.bool).triu(1)
            y = torch.softmax(scores.masked_fill(mask, -math.inf), -1).sum(-1) + torch.sqrt(y.relu())
        if self.kind == "log":
            y = torch.log(y.relu())
        if self.kind == "sqrt":  # 0 / 0 in backward
            y = torch.sqrt(y * 0.0)
        return x + y


class Net(nn.Module):
    def __init__(self, kinds):
        super().__init__()
        self.layers = nn.ModuleList([Block(kind) for kind in kinds])

    def forward(self, x, y):
        for layer in self.layers:
            x = layer(x)
        return (x - y).square().mean()


class Nan(harness.Case):
    def setUp(self):
        torch.manual_seed(0)
        self.workspace = harness.Workspace(harness.oracle.models.Config("mlp"))
        self.addCleanup(self.workspace.remove)
        samples = RANKS * STEPS * BATCH
        self.data = {"x": torch.randn(samples, DIM), "y": torch.randn(samples, DIM)}

    def compile(self, *kinds, flags=()):
        torch.manual_seed(1)
        model, binary = self.workspace.folder / "model.pt2", self.workspace.folder / "train"
        batch = tuple(tensor[:BATCH] for tensor in self.data.values())
        torch.export.save(torch.export.export(Net(kinds), batch), model)
        harness.run([harness.TOOLS / "fsdpc", model, "--optimizer", "sgd", "--lr", "0.1",
                     "--mesh", f"dp={RANKS}", "--weights", self.workspace.weights, *flags,
                     "-o", binary])  # fmt: skip
        return binary

    def train(self, binary, *flags, communicator="local"):
        safetensors_io.save(self.workspace.data, self.data)
        return harness.train(self.workspace, binary, RANKS, STEPS, communicator, flags)

    def names(self, text, binary, *flags, **options):
        self.assert_fails(text, self.train, binary, "--find-nan", *flags, **options)

    def test_nothing_is_wrong(self):
        """Neither with the bits."""
        binary = self.compile("masked", "", flags=["--clip-grad-norm", "1"])
        plain, final = self.train(binary)
        log, same = self.train(binary, "--find-nan")
        self.assertEqual([line["loss_hex"] for line in log], [line["loss_hex"] for line in plain])
        self.assertIsNone(harness.bitwise_difference(final, same))

    def test_forward(self):
        binary = self.compile("masked", "log", "")
        for communicator in ("local", "shm"):
            self.names('step 1, rank 0: aten::log in module "layers.1"', binary,
                       communicator=communicator)  # fmt: skip
        self.names("in forward: 0 NaN and", binary)
        self.names("of finite operands", binary)

    def test_backward(self):
        binary = self.compile("", "sqrt", flags=["--layout", "per-param"])
        self.names('in module "layers.1"', binary)
        self.names("in backward: ", binary)

    def test_what_the_step_begins_with(self):
        """By rank and step; the first step is no other."""
        binary = self.compile("", "masked")
        self.data["x"][(2 * RANKS + 1) * BATCH + 1, 3] = math.nan
        self.names(f"step 3, rank 1: input 'x': 1 NaN and 0 Inf among {BATCH * DIM} numbers", binary)
        self.data["x"][0, 0] = math.inf
        self.names("step 1, rank 0: input 'x': 0 NaN and 1 Inf", binary)
        self.names("NaN begins with ", binary)
        self.data["x"] = torch.zeros_like(self.data["x"])
        weights = safetensors_io.load(self.workspace.weights)
        weights["layers.1.lin.weight"][DIM - 1, 0] = math.nan
        safetensors_io.save(self.workspace.weights, weights)
        self.names("step 1, rank 1: parameter 'layers.1.lin.weight' before the step", binary)

    def test_updates(self):
        binary = self.compile("", "")
        self.names('of group "layers.', binary, "--lr", 3e38)
        self.names("update of group", binary, "--lr", 3e38)

    def test_a_step_that_failed_runs_again(self):
        """From the checkpoint before, by one flag more."""
        binary = self.compile("", "")
        self.data["y"][3 * RANKS * BATCH, 0] = math.nan
        folder = ["--checkpoint-dir", self.workspace.folder / "run", "--save-every", 2]
        self.assert_fails("step 4: the loss is nan", self.train, binary, *folder,
                          "--stop-outliers", 9)  # fmt: skip
        process = harness.run([binary, "--ranks", RANKS, "--data", self.workspace.data, *folder,
                               "--resume", "--find-nan"], check=False)  # fmt: skip
        self.assertIn("step 2 from ", process.stdout, process.stderr)
        self.assertIn("error: step 4, rank 0: input 'y': 1 NaN", process.stderr)

    def test_flags(self):
        binary = self.compile("")
        self.names("without --loss-lag", binary, "--loss-lag", 1)
        self.names("--trace", binary, "--trace", self.workspace.folder / "trace.json")


if __name__ == "__main__":
    unittest.main()

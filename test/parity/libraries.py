#!/usr/bin/env python3
"""Operators of a library of its own, by --load-library: captured with the library's autograd formula, and
run by its kernels. Losses and parameters are eager torch's, bit for bit."""

import os
import pathlib
import unittest

import torch
from torch import nn

import harness
from oracle import safetensors_io

LIBRARY = pathlib.Path(os.environ["FSDP_TEST_OPERATORS"])
RANKS, STEPS, BATCH = 2, 4, 3
ADAMW = {"lr": 1e-2, "weight_decay": 0.1}

torch.ops.load_library(LIBRARY)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(8, 16)
        self.down = nn.Linear(16, 8)

    def forward(self, x, y):
        x = torch.ops.fsdp_test.scaled_relu(self.up(x), 1.5)
        return (self.down(x) - y).square().mean()


class WithoutFormula(Model):
    def forward(self, x, y):
        x = torch.ops.fsdp_test.doubled(self.up(x))
        return (self.down(x) - y).square().mean()


class Libraries(harness.Case):
    def setUp(self):
        torch.set_num_threads(1)
        self.workspace = harness.Workspace(harness.oracle.models.Config("mlp"))
        self.addCleanup(self.workspace.remove)
        self.folder = self.workspace.folder
        torch.manual_seed(0)
        samples = RANKS * STEPS * BATCH
        self.data = {"x": torch.randn(samples, 8), "y": torch.randn(samples, 8)}
        safetensors_io.save(self.workspace.data, self.data)

    def save(self, model, form):
        path = self.folder / ("model.pt2" if form == "pt2" else "model.pt")
        if form == "script":
            torch.jit.script(model).save(path)
        else:
            batch = tuple(tensor[:BATCH] for tensor in self.data.values())
            torch.export.save(torch.export.export(model, batch), path)
        return path

    def compile(self, model, form, library=LIBRARY, flags=()):
        inputs = [f"--input={name}:f32[{BATCH},8]" for name in self.data] if form == "script" else []
        loads = ["--load-library", library] if library else []
        harness.run([harness.TOOLS / "fsdpc", self.save(model, form), *inputs, *loads,
                     *harness.Optimizer("adamw", ADAMW).flags(), "--mesh", f"dp={RANKS}",
                     "--weights", self.workspace.weights, *flags, "-o", self.folder / "train"])  # fmt: skip
        return self.folder / "train"

    def eager(self, model):
        optimizer = torch.optim.AdamW(model.parameters(), foreach=False, **ADAMW)
        losses = []
        for step in range(STEPS):
            batches = []
            for rank in range(RANKS):
                first = (step * RANKS + rank) * BATCH
                batches.append([tensor[first : first + BATCH] for tensor in self.data.values()])
            losses.append(harness.train_eagerly(model, optimizer, batches))
        return losses, dict(model.state_dict())

    def test_equal_to_eager(self):
        for form, communicator in (("script", "local"), ("pt2", "local"), ("pt2", "shm")):
            with self.subTest(form=form, communicator=communicator):
                torch.manual_seed(1)
                model = Model()
                binary = self.compile(model, form)
                lines, weights = harness.train(self.workspace, binary, RANKS, STEPS, communicator,
                                               ["--load-library", LIBRARY])  # fmt: skip
                losses, expected = self.eager(model)
                got = [[float.fromhex(text) for text in line["loss_hex"]] for line in lines]
                self.assertEqual(got, losses)
                self.assertIsNone(harness.bitwise_difference(expected, weights))

    def test_without_the_library(self):
        self.assert_fails("torch does not have it: name the library that does by --load-library",
                          self.compile, Model(), "pt2", None)  # fmt: skip
        self.assert_fails("fsdp_test::scaled_relu", self.compile, Model(), "script", None)
        binary = self.compile(Model(), "pt2")
        self.assert_fails('torch does not have operator fsdp_test::scaled_relu in module ""',
                          harness.train, self.workspace, binary, RANKS, STEPS)  # fmt: skip

    def test_profile(self):
        """A step with such operators is measured with the library."""
        self.compile(Model(), "pt2", flags=["--save-temps", self.folder / "temps"])
        profile = [harness.TOOLS / "fsdp-profile", self.folder / "temps" / "captured.mlir", "--ranks", "2",
                   "--samples", "1", "-o", self.folder / "profile.json"]  # fmt: skip
        self.assert_fails("name the library that does by --load-library", harness.run, profile)
        harness.run([*profile, "--load-library", LIBRARY])
        self.assertIn("fsdp_test::scaled_relu", (self.folder / "profile.json").read_text())

    def test_what_is_no_library(self):
        text = self.folder / "text.so"
        text.write_text("no library")
        self.assert_fails(f"--load-library {text}: ", self.compile, Model(), "script", text)
        binary = self.compile(Model(), "script")
        train = lambda path: harness.train(self.workspace, binary, RANKS, STEPS, "local",
                                           ["--load-library", path])  # fmt: skip
        self.assert_fails(f"--load-library {text}: ", train, text)
        self.assert_fails("File does not exist: missing.so", train, "missing.so")

    def test_without_an_autograd_formula(self):
        """torch would leave out the gradients of what is before the operator."""
        for form in ("script", "pt2"):
            self.assert_fails("derivative for fsdp_test::doubled is not implemented",
                              self.compile, WithoutFormula(), form)  # fmt: skip


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Operators of a library of its own, by --load-library: captured with the library's autograd formula, and
run by its kernels. Losses and parameters are eager torch's, bit for bit."""

import json
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


class WithOtherMeta(Model):
    """What the meta kernels say of the targets' operators is not what the kernels do."""

    def forward(self, x, y):
        above, below = torch.ops.fsdp_test.compared(y)
        y = torch.ops.fsdp_test.turned(y) * above - y * below
        return (self.down(self.up(x)) - y).square().mean()


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
        self.fsdpc = harness.run([harness.TOOLS / "fsdpc", self.save(model, form), *inputs, *loads,
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

    def test_operator_facts(self):
        """What a machine's kernels do is found by a run, and right in the next compilation."""
        report, facts = self.folder / "report.jsonl", self.folder / "facts.jsonl"
        for form in ("script", "pt2"):
            torch.manual_seed(1)
            model = WithOtherMeta()
            loads = ["--load-library", LIBRARY]
            train = lambda binary, *flags: harness.train(
                self.workspace, binary, RANKS, STEPS, "local",
                [*loads, "--operator-report", report, *flags])  # fmt: skip
            self.assert_fails("fsdp_test::compared", train, self.compile(model, form))
            found = self.read(report)
            self.assertEqual(
                [(line["dtype"], line["strides"]) for line in found if line["kind"] == "result"],
                [("bool", [8, 1]), ("bool", [8, 1]), ("float32", [1, BATCH])],
            )
            self.assertTrue(any(line["kind"] == "strides" for line in found))
            report.rename(facts)
            wrong = {**next(line for line in found if line["kind"] == "result"), "result": 7}
            facts.write_text("".join(json.dumps(line) + "\n" for line in [*found, wrong]))

            binary = self.compile(model, form, flags=["--operator-facts", facts])
            self.assertIn(f"1 of 4 results are none of this step, among them result 7 of {wrong['call']}",
                          self.fsdpc.stderr)  # fmt: skip
            lines, weights = train(binary)
            self.assertEqual([line["kind"] for line in self.read(report)], ["graph"])
            losses, expected = self.eager(model)
            got = [[float.fromhex(text) for text in line["loss_hex"]] for line in lines]
            self.assertEqual(got, losses)
            self.assertIsNone(harness.bitwise_difference(expected, weights))

    def read(self, report):
        return [json.loads(line) for line in report.read_text().splitlines()]

    def test_facts_that_are_none(self):
        facts = self.folder / "facts.jsonl"
        for text, problem in (
            ("what", "no JSON object with a 'kind', as --operator-report writes"),
            ('{"kind": "graph"}\n{"kind": "result", "call": "aten::mm.default()"}', "missing 'result'"),
            (self.fact(dtype="f32"), "'dtype' is \"f32\", expected one of torch, as \"float32\""),
            (self.fact(strides=[1]), "'sizes' is [2,3] and 'strides' is [1], expected lists of equal"),
            (self.fact(sizes=[1 << 40, 1 << 40]), "no memory holds 'sizes' [1099511627776,1099511627776]"),
            (self.fact(strides=[-1, 1]), "'sizes' is [2,3] and 'strides' is [-1,1], expected lists of equal length of numbers"),
        ):
            facts.write_text(text)
            line = text.count("\n") + 1
            self.assert_fails(f"--operator-facts {facts}: line {line}: {problem}", self.compile,
                              Model(), "pt2", flags=["--operator-facts", facts])  # fmt: skip
        # Of another step, and results that a call of this one does not have.
        facts.write_text(self.fact() + "\n" + self.fact(result=7))
        self.compile(Model(), "pt2", flags=["--operator-facts", facts])
        self.assertIn("2 of 2 results are none of this step, among them result 0 of aten::what.default()",
                      self.fsdpc.stderr)  # fmt: skip

    def fact(self, **changed):
        fact = {"kind": "result", "call": "aten::what.default()", "result": 0, "dtype": "float32",
                "sizes": [2, 3], "strides": [3, 1]}  # fmt: skip
        return json.dumps(fact | changed)

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

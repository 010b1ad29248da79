#!/usr/bin/env python3
"""--find-nan names where NaN or Inf begins: the operator with its module and phase, or what the step began
with, and the rank. What holds Inf without spoiling the step is no fault."""

import math
import unittest

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

import harness
from oracle import safetensors_io

RANKS, STEPS, BATCH, DIM = 2, 4, 3, 8
#: Of a tensor of a batch, and where the call of an operator, or the calls of a kernel, are said to be.
NUMBERS = BATCH * DIM
LINE, LINES = (rf" \((?:[\w/]+/)?nan\.py:{lines}\)" for lines in (r"\d+", r"\d+,\d+"))


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
            y = y * 0.0
            y = torch.sqrt(y)
        return x + y


class Net(nn.Module):
    def __init__(self, kinds):
        super().__init__()
        self.layers = nn.ModuleList([Block(kind) for kind in kinds])

    def forward(self, x, y):
        for layer in self.layers:
            x = layer(x)
        return (x - y).square().mean()


class FindsInf(TorchDispatchMode):
    """`found`: whether an operator computed Inf."""

    found = False

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        result = function(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.is_floating_point():
            self.found = self.found or bool(result.isinf().any())
        return result


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

    def finds(self, pattern, binary, *flags, **options):
        """--find-nan ends the run with one error, which `pattern` describes from its first word to its last."""
        with self.assertRaises(harness.CommandFailed) as raised:
            self.train(binary, "--find-nan", *flags, **options)
        self.assertEqual(raised.exception.status, 1, raised.exception)
        errors = [line for line in str(raised.exception).splitlines() if "error" in line]
        self.assertEqual(len(errors), 1, errors)
        self.assertRegex(errors[0], rf"\Aerror: {pattern}\Z")

    def test_nothing_is_wrong(self):
        """Inf that a mask or a comparison takes away is no fault, in forward and backward; no bit changes."""
        torch.manual_seed(1)
        with FindsInf() as forward:
            loss = Net(["masked", ""])(*(tensor[:BATCH] for tensor in self.data.values()))
        with FindsInf() as backward:
            loss.backward()
        self.assertTrue(forward.found and backward.found)
        binary = self.compile("masked", "", flags=["--clip-grad-norm", "1"])
        plain, final = self.train(binary)
        log, same = self.train(binary, "--find-nan")
        self.assertEqual([line["loss_hex"] for line in log], [line["loss_hex"] for line in plain])
        self.assertIsNone(harness.bitwise_difference(final, same))

    def test_forward(self):
        binary = self.compile("masked", "log", "")
        for communicator in ("local", "shm"):
            self.finds(rf'step 1, rank 0: aten::log in module "layers\.1"{LINE} in forward: 0 NaN and '
                       rf"[1-9]\d* Inf among {NUMBERS} numbers, of finite operands; NaN begins with "
                       rf'aten::addmm in module "layers\.2\.lin"{LINE} in forward', binary,
                       communicator=communicator)  # fmt: skip

    def test_backward(self):
        flags = ["--layout", "per-param"]
        self.finds(rf'step 1, rank 0: kernel \w+ of mul, div in module "layers\.1"{LINES} in backward: {NUMBERS} NaN '
                   rf"and 0 Inf among {NUMBERS} numbers, of finite operands; a step of --fusion off has the kernel's "
                   "operators one by one", self.compile("", "sqrt", flags=flags))  # fmt: skip
        binary = self.compile("", "sqrt", flags=[*flags, "--fusion", "off"])
        self.finds(rf'step 1, rank 0: aten::div\.Tensor in module "layers\.1"{LINE} in backward: 0 NaN and '
                   rf"{NUMBERS} Inf among {NUMBERS} numbers, of finite operands; NaN begins with "
                   rf'aten::mul\.Tensor in module "layers\.1"{LINE} in backward', binary)  # fmt: skip

    def test_what_the_step_begins_with(self):
        """Inputs and parameters are named by rank and step, the first step or a later one."""
        binary = self.compile("", "masked")
        self.data["x"][(2 * RANKS + 1) * BATCH + 1, 3] = math.nan
        self.finds(f"step 3, rank 1: input 'x': 1 NaN and 0 Inf among {NUMBERS} numbers", binary)
        self.data["x"][0, 0] = math.inf
        self.finds(f"step 1, rank 0: input 'x': 0 NaN and 1 Inf among {NUMBERS} numbers; NaN begins with "
                   rf'aten::addmm in module "layers\.1\.lin"{LINE} in forward', binary)  # fmt: skip
        self.data["x"] = torch.zeros_like(self.data["x"])
        weights = safetensors_io.load(self.workspace.weights)
        weights["layers.1.lin.weight"][DIM - 1, 0] = math.nan
        safetensors_io.save(self.workspace.weights, weights)
        self.finds(r"step 1, rank 1: parameter 'layers\.1\.lin\.weight' before the step: 1 NaN and 0 Inf "
                   r"among \d+ numbers", binary)  # fmt: skip

    def test_updates(self):
        binary = self.compile("", "")
        self.finds(r'step 1, rank [01]: update of group "layers\.[01]": (?!0 NaN and 0 Inf)\d+ NaN and \d+ Inf '
                   r"among \d+ numbers, of finite operands", binary, "--lr", 3e38)  # fmt: skip

    def test_a_step_that_failed_runs_again(self):
        """From the checkpoint before, by one flag more."""
        binary = self.compile("", "")
        self.data["y"][3 * RANKS * BATCH, 0] = math.nan
        folder = ["--checkpoint-dir", self.workspace.folder / "run", "--save-every", 2]
        self.assert_fails("step 4: the loss is nan", self.train, binary, *folder,
                          "--stop-outliers", 9)  # fmt: skip
        process = harness.run([binary, "--ranks", RANKS, "--data", self.workspace.data, *folder,
                               "--resume", "--find-nan"], check=False)  # fmt: skip
        self.assertEqual(process.returncode, 1, process.stderr)
        self.assertIn("step 2 from ", process.stdout, process.stderr)
        self.assertIn("error: step 4, rank 0: input 'y': 1 NaN", process.stderr)

    def test_flags(self):
        binary = self.compile("")
        trace = self.workspace.folder / "trace.json"
        self.finds("--find-nan is for --device cpu without --loss-lag: .*", binary, "--loss-lag", 1)
        self.finds(f"--find-nan takes far longer than the step: --trace {trace} would .*", binary, "--trace", trace)


if __name__ == "__main__":
    unittest.main()

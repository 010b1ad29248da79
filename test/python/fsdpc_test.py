#!/usr/bin/env python3
"""tools/python/fsdpc: exported modules are captured, and what cannot be exported is refused."""

import contextlib
import io
import os
import pathlib
import re
import subprocess
import sys
import unittest

import torch
import torch.nn as nn
import torch.nn.functional as F

import exported
import fsdpc  # exported says where it is
import safetensors_io


class Tied(nn.Module):
    """A table that is also the head, a transient buffer, a persistent one."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(16, 8)
        self.head = nn.Linear(8, 16, bias=False)
        self.head.weight = self.table.weight
        self.register_buffer("scale", torch.linspace(0.5, 1.0, 8), persistent=False)
        self.register_buffer("shift", torch.ones(8))

    def forward(self, tokens, labels=None):
        logits = self.head(self.table(tokens) * self.scale + self.shift)
        return {"logits": logits} if labels is None else {
            "loss": F.cross_entropy(logits.flatten(0, 1), labels.flatten()), "logits": logits
        }  # fmt: skip


class WithLinear(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)


class Counting(nn.Module):
    """Writes an attribute that is no buffer; has methods beside its forward."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.calls = torch.zeros(4)

    def forward(self, x):
        self.calls.add_(1)
        return self.score(x) + self.calls.sum()

    def score(self, x, scale=2.0):
        return (self.linear(x) * scale).sum()


class Scoring(nn.Module):
    """Has parameters as Counting has."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x).sum()


class Groups(nn.Module):
    def __init__(self, dtype):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2, 30, 8, dtype=dtype))

    def forward(self, x, ends):
        return torch._grouped_mm(x, self.weight.transpose(1, 2), ends).float().sum()


class Flattening(nn.Module):
    """Views the results of attention as they lie on CPUs; on GPUs heads are inner dimensions."""

    def __init__(self, writes=False):
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.writes = writes

    def forward(self, x):
        q = self.linear(x)
        lines = (nn.functional.scaled_dot_product_attention(q, q, q) * 2).view(2, -1)
        if self.writes:
            lines.mul_(2)
        return (lines * lines).sum()


class Package(exported.Exported):
    def tokens(self):
        return torch.randint(0, 16, (2, 4))

    def test_labels(self):
        """The loss is the output's; a tensor given twice is two inputs; ties and roles are kept."""
        model, tokens = Tied(), self.tokens()
        before = dict(model.__dict__)
        written = fsdpc.export(model, {"tokens": tokens, "labels": tokens}, self.path)
        self.assertEqual(model.__dict__.keys(), before.keys())
        self.assertEqual(written, [self.path, self.folder / "model.safetensors"])
        step = self.capture()
        self.assertIn('fsdp.param @table.weight : tensor<16x8xf32> aliases ["head.weight"]', step)
        for name in ("tokens", "labels"):
            self.assertIn(f'fsdp.input "{name}" : tensor<2x4xi64>', step)
        self.assertIn("fsdp.buffer @shift", step)
        self.assertNotIn("@scale", step)
        saved = safetensors_io.load(written[1])
        self.assertEqual(saved.keys(), {"table.weight", "shift"})
        self.assertTrue(torch.equal(saved["table.weight"], model.table.weight))

    def test_written_constant(self):
        fsdpc.export(Counting(), (torch.randn(2, 4),), self.path)
        self.assertIn("'calls' is written by the forward, but it is a constant: make it a buffer, "
                      "by register_buffer(..., persistent=False)", self.refused_capture())  # fmt: skip

    def test_views_of_one_memory(self):
        """Tensors of equal sizes whose memory is one are told apart, also in a file of torch.export.save."""

        class Triangle(nn.Module):
            def __init__(self, writes=False):
                super().__init__()
                self.weight, self.writes = nn.Parameter(torch.ones(6)), writes
                for name, indices in zip(("rows", "columns"), torch.triu_indices(4, 4, 1)):
                    self.register_buffer(name, indices, persistent=False)
                self.register_buffer("table", torch.arange(4).view(2, 2), persistent=False)
                self.register_buffer("turned", self.table.t(), persistent=False)

            def forward(self, x):
                if self.writes:
                    self.rows.add_(0)
                matrix = torch.zeros(4, 4)
                matrix[self.rows, self.columns] = self.weight
                return (matrix * x).sum() + (self.table * self.turned).sum() * self.weight.sum()

        def save(model):
            torch.export.save(torch.export.export(model, (torch.randn(4, 4),), strict=False), self.path)

        for write in (lambda: fsdpc.export(Triangle(), (torch.randn(4, 4),), self.path), lambda: save(Triangle())):
            write()
            step = self.capture()
            for values in ("[0, 0, 0, 1, 1, 2]", "[1, 2, 3, 2, 3, 3]", "[[0, 1], [2, 3]]", "[[0, 2], [1, 3]]"):
                self.assertIn(f"dense<{values}>", step)
        halves = WithLinear()
        halves.linear.weight, halves.linear.bias = map(nn.Parameter, torch.ones(20).split((16, 4)))
        halves.linear.weight = nn.Parameter(halves.linear.weight.view(4, 4))
        halves.forward = lambda x: halves.linear(x).sum()
        save(halves)
        self.assertIn("shares a part of its memory with another tensor", self.refused_capture())
        save(Triangle(writes=True))
        self.assertIn("buffer 'rows' is written by the forward, but shares a part of its memory", self.refused_capture())

    def test_views_of_other_strides(self):
        """What is a view where the model was exported is a copy where the target's strides are others."""
        x = torch.randn(2, 2, 4, 8)
        fsdpc.export(Flattening(), (x,), self.path)
        copied = r'"clone.default"\(%mul.*fwd.*\n.*"_unsafe_view.default"'
        self.assertNotRegex(self.capture(), copied)
        self.assertRegex(self.capture("--target", "cuda"), copied)
        fsdpc.export(Flattening(writes=True), (x,), self.path)
        self.capture()
        self.assertIn("writes to a view that does not exist on the target", self.refused_capture("--target", "cuda"))

    def test_methods(self):
        """Another method takes the batch, or a function that calls the model's."""
        x = torch.randn(2, 4)
        fsdpc.export(Counting(), {"x": x}, self.path, method="score")
        self.assertIn('fwd in "linear"', self.capture())
        fsdpc.export(Counting(), (x,), self.path, method=lambda model, x: model.score(x, 3.0))
        self.assertIn("3.000000e+00", self.capture())
        fsdpc.export(Scoring(), (x,), self.path, method=lambda model, x: model(x) * 5.0)
        self.assertIn("5.000000e+00", self.capture())
        for message, options in (
            ("the model has no method 'train_it'", {"method": "train_it"}),
            ("score takes no labels; only a loss= could use them", {"method": "score"}),
            ("the batch has 3 values, but score takes 2: x, scale", {"method": "score"}),
            ("'layers.*' matches no module", {"forward_methods": {"layers.*": "score"}}),
            ("module 'linear' has no method 'score'", {"forward_methods": {"linear": "score"}}),
            ('"" is the model itself', {"forward_methods": {"": ["score"]}}),
        ):
            batch = {"x": x, "labels": x} if "labels" in message else (x,) * (3 if "3" in message else 1)
            with self.subTest(message), self.assertRaises(fsdpc.ExportError) as raised:
                fsdpc.export(Counting(), batch, self.path, **options)
            self.assertIn(message, str(raised.exception))

    def test_methods_with_hooks(self):
        """FSDP2 does not run a module's hooks for a method of its own."""
        model = Tied()
        model.table.register_forward_hook(lambda *arguments: None)
        with self.assertRaisesRegex(fsdpc.ExportError, "module 'table' has hooks of its forward"):
            fsdpc.export(model, (self.tokens(), self.tokens()), self.path,
                         forward_methods={"table": "reset_parameters"})  # fmt: skip

    def test_products_of_groups(self):
        """In every dtype; rows begin at multiples of 16 bytes."""
        ends = torch.tensor([2, 5], dtype=torch.int32)
        for dtype, name in ((torch.float32, "f32"), (torch.bfloat16, "bf16")):
            fsdpc.export(Groups(dtype), (torch.randn(5, 8, dtype=dtype), ends), self.path)
            self.assertRegex(self.capture(), r'"_grouped_mm.default".*-> tensor<5x30x' + name +
                             r", #aten.strides<\[32, 1\]>>")  # fmt: skip

    def test_loss_function(self):
        """What forward does not take is the loss's alone."""
        model = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
        batch = {"input": torch.randn(2, 4), "target": torch.tensor([0, 2])}
        fsdpc.export(model, batch, self.path, lambda out, batch: F.cross_entropy(out, batch["target"]))
        step = self.capture()
        self.assertIn('fsdp.input "target" : tensor<2xi64>', step)
        self.assertIn("fsdp.param @2.weight", step.replace('"', ""))
        with self.assertRaisesRegex(fsdpc.ExportError, "forward takes no target"):
            fsdpc.export(model, batch, self.path)
        with self.assertRaisesRegex(fsdpc.ExportError, r"returns \[2, 3\], no scalar loss"):
            fsdpc.export(model, (batch["input"],), self.path)

    def test_meta(self):
        """Parameters without values, buffers with: the same step, no weights file."""
        batch = {"tokens": self.tokens(), "labels": self.tokens()}
        fsdpc.export(Tied(), batch, self.path)
        real = self.capture()
        with fsdpc.meta_parameters():
            model = Tied()
        self.assertTrue(model.table.weight.is_meta)
        self.assertFalse(model.scale.is_meta)
        self.assertEqual(fsdpc.export(model, batch, self.path), [self.path])
        self.assertEqual(self.capture(), real)
        with torch.device("meta"):
            model = Tied()
        with self.assertRaisesRegex(fsdpc.ExportError, "'scale' .* has no values"):
            fsdpc.export(model, batch, self.path)

    def test_shards(self):
        model = nn.Sequential(*(nn.Linear(16, 16) for _ in range(4)))
        written = fsdpc.export(model, (torch.randn(2, 16),), self.path,
                               lambda out, batch: out.sum(), shard_bytes=2500)  # fmt: skip
        names = [path.name for path in written[1:]]
        self.assertEqual(names[0], "model-00001-of-00002.safetensors")
        self.assertEqual(names[-1], "model.safetensors.index.json")
        tensors = {}
        for path in written[1:-1]:
            tensors |= safetensors_io.load(path)
        self.assertEqual(tensors.keys(), model.state_dict().keys())

    def test_names_of_inputs(self):
        """torch.export writes names in small letters."""
        class Capitals(WithLinear):
            def forward(self, X, x, Offset):
                return (self.linear(X) * x + Offset).sum()

        fsdpc.export(Capitals(), {"X": torch.ones(2, 4), "x": torch.ones(2, 4), "Offset": torch.ones(2, 1)}, self.path)
        step = self.capture()
        self.assertEqual(re.findall(r'fsdp.input "(\w+)" : tensor', step), ["X", "x", "Offset"])

    def test_converted_modules(self):
        """A forward may convert a module to what it is."""
        class Converting(WithLinear):
            def forward(self, x):
                return self.linear.to(x.dtype).float()(x).sum()

        fsdpc.export(Converting(), (torch.randn(2, 4),), self.path)
        self.assertNotIn("_to_copy", self.capture())

    def test_complex_numbers(self):
        class Phase(WithLinear):
            def forward(self, x):
                return ((0.5 + 2j) * torch.exp(1j * self.linear(x))).abs().square().sum()

        fsdpc.export(Phase(), (torch.randn(2, 4),), self.path)
        self.assertIn("complex<f32>", self.capture())
        # Beside wider tensors a number keeps its digits.
        fsdpc.export(Phase().double(), (torch.randn(2, 4, dtype=torch.float64),), self.path)
        self.assertNotIn("f32", self.capture().split("bwd")[0].split("func.func")[1])

    def batch(self):
        return {"tokens": self.tokens(), "labels": self.tokens()}

    def test_optimizer(self):
        """Values and groups of torch's optimizer are the step's; flags win, another kind takes none."""
        model = Tied()
        groups = [
            {"params": [model.table.weight], "weight_decay": 0.0, "betas": (0.8, 0.9)},
            {"params": []},
        ]
        optimizer = torch.optim.Adam(groups, lr=0.25, eps=0.125, amsgrad=True,
                                     decoupled_weight_decay=True, weight_decay=0.5)  # fmt: skip
        fsdpc.export(model, self.batch(), self.path, optimizer=optimizer)
        step = self.capture()
        self.assertRegex(step, r"fsdp.optimizer adamw lr = 2.5\d*e-01 weight_decay = 5.0\d*e-01 betas "
                               r"= \[9.0\d*e-01, 9.99\d*e-01\] eps = 1.25\d*e-01 amsgrad ")  # fmt: skip
        self.assertRegex(step, r"fsdp.optimizer_group \[@table.weight\] weight_decay = 0.0\d*e\+00 betas"
                               r" = \[8.0\d*e-01, 9.0\d*e-01\] ")  # fmt: skip
        step = self.capture("--lr", "1", "--optimizer", "adamw")
        self.assertRegex(step, r"adamw lr = 1.0\d*e\+00 weight_decay = 5.0.* amsgrad")
        self.assertIn("fsdp.optimizer_group", step)
        step = self.capture("--optimizer", "sgd")
        self.assertIn("fsdp.optimizer sgd", step)
        self.assertNotIn("fsdp.optimizer_group", step)

    def test_other_optimizers(self):
        """The other kinds, each with its options; what torch computes the initial state from is its default."""
        number = r"\d\.\d+e[+-]\d+"
        for make, text in (
            (lambda own: torch.optim.RMSprop(own, lr=0.5, alpha=0.75, momentum=0.25, centered=True),
             r"rmsprop lr = 5.0\d*e-01 .* momentum = 2.5\d*e-01 alpha = 7.5\d*e-01 eps = 1.0\d*e-08 centered loc"),
            (lambda own: torch.optim.Adagrad(own, lr_decay=0.5, initial_accumulator_value=0.25, maximize=True),
             r"adagrad lr = 1.0\d*e-02 .* eps = 1.0\d*e-10 lr_decay = 5.0\d*e-01 initial_accumulator_value = "
             r"2.5\d*e-01 maximize loc"),
            (lambda own: torch.optim.Adamax(own), rf"adamax lr = 2.0\d*e-03 weight_decay = {number} betas"),
            (lambda own: torch.optim.NAdam(own, momentum_decay=0.5, decoupled_weight_decay=True),
             r"nadam lr = 2.0\d*e-03 .* momentum_decay = 5.0\d*e-01 decoupled_weight_decay loc"),
            (lambda own: torch.optim.RAdam(own, weight_decay=0.5), r"radam lr = 1.0\d*e-03 weight_decay = 5.0\d*e-01"),
            (lambda own: torch.optim.Adadelta([{"params": own, "rho": 0.5, "eps": 0.25}]),
             r"adadelta lr = 1.0\d*e\+00 .* rho = 5.0\d*e-01 eps = 2.5\d*e-01 loc"),
        ):  # fmt: skip
            model = Tied()
            optimizer = make(list(model.parameters()))
            with self.subTest(optimizer=type(optimizer).__name__):
                with contextlib.redirect_stderr(io.StringIO()) as notes:
                    fsdpc.export(model, self.batch(), self.path, optimizer=optimizer)
                self.assertNotIn("state is not exported", notes.getvalue())
                step = self.capture()
                self.assertRegex(step, "fsdp.optimizer " + text)
                self.assertNotIn("fsdp.optimizer_group", step)
        model = Tied()
        groups = [{"params": [model.table.weight], "rho": 0.5}, {"params": []}]
        fsdpc.export(model, self.batch(), self.path, optimizer=torch.optim.Adadelta(groups))
        self.assertRegex(self.capture(), r"fsdp.optimizer_group \[@table.weight\] rho = 5.0\d*e-01 loc")

    def test_rates_before_schedulers(self):
        """What all groups have is the optimizer's, for flags to replace; of a rate that which a
        scheduler of torch began with, not its first step's."""
        model = Tied()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.25)
        torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: step / 10)
        self.assertEqual(optimizer.param_groups[0]["lr"], 0)
        fsdpc.export(model, self.batch(), self.path, optimizer=optimizer)
        step = self.capture()
        self.assertRegex(step, r"fsdp.optimizer sgd lr = 2.5\d*e-01")
        self.assertNotIn("fsdp.optimizer_group", step)

    def test_optimizers_refused(self):
        model, other = Tied(), nn.Linear(2, 2)

        def expect(text, optimizer):
            with self.assertRaisesRegex(fsdpc.ExportError, text):
                fsdpc.export(model, self.batch(), self.path, optimizer=optimizer)

        own, adam = list(model.parameters()), torch.optim.Adam
        expect("is Rprop, expected one of .* SGD, Adam, .* Adadelta", torch.optim.Rprop(own))
        expect(r"group 1 .* of shape \[2, 2\]", adam([{"params": own}, {"params": other.weight}]))
        expect("differentiable .* not supported", adam(own, differentiable=True))
        model.extra = nn.Parameter(torch.ones(1))
        expect("'extra' requires a gradient", adam(own))
        groups = [{"params": own}, {"params": [model.extra], "momentum": 0.5}]
        expect("momentum of group 1 .* 0.5, but 0.9", torch.optim.SGD(groups, momentum=0.9))
        for kind in (torch.optim.NAdam, adam):
            groups = [{"params": own}, {"params": [model.extra], "decoupled_weight_decay": True}]
            expect("decoupled_weight_decay of group 1 .* True, but False", kind(groups))

    def test_mixed_precision(self):
        """Casts of parameters, arguments and results are operators; the model is left as it was."""
        P, bf16 = torch.distributed.fsdp.MixedPrecisionPolicy, torch.bfloat16
        model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Linear(4, 4))
        norm = P(param_dtype=torch.float32, output_dtype=bf16)
        policies = {"1": norm, "": P(param_dtype=bf16, reduce_dtype=torch.float32)}
        before = {name: id(parameter) for name, parameter in model.named_parameters()}
        loss = lambda out, batch: out.sum()
        fsdpc.export(model, torch.randn(2, 4), self.path, loss, mixed_precision=policies)
        after = {name: id(parameter) for name, parameter in model.named_parameters()}
        self.assertEqual(before, after)
        self.assertFalse(any(module._forward_pre_hooks for module in model.modules()))
        step = self.capture()
        self.assertIn('fsdp.mixed_precision ["1"] param_dtype f32 loc', step)
        self.assertIn('fsdp.mixed_precision [""] param_dtype bf16 reduce_dtype f32 loc', step)
        self.assertRegex(step, r"native_layer_norm.*tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>")
        self.assertRegex(step, r"addmm.*tensor<4xbf16>, tensor<2x4xbf16>, tensor<4x4xbf16,")
        for policies, text in (
            ({"x": norm}, "'x' matches no module"),
            ({("0", "y"): norm}, "has no module 'y'"),
            ({"0": norm, "*": norm}, "module '0' has two policies: by '0' and by '\\*'"),
            ({"0": bf16}, "'0' has a dtype, expected .*MixedPrecisionPolicy"),
            ({"0": P(param_dtype=torch.float8_e4m3fn)}, "param_dtype of '0' is torch.float8_e4m3fn"),
            ({("", "0"): norm}, "holds the model itself"),
        ):
            with self.assertRaisesRegex(fsdpc.ExportError, text):
                fsdpc.export(model, torch.randn(2, 4), self.path, loss, mixed_precision=policies)

    def test_compile(self):
        """A binary that finds its weights, and trains."""
        model = Tied()
        fsdpc.export(model, {"tokens": self.tokens(), "labels": self.tokens()}, self.path)
        binary = self.folder / "train"
        printed = fsdpc.compile(self.path, binary, mesh={"dp": 2}, optimizer="sgd", lr=0.5)
        self.assertIn("capture", printed)
        data = {name: torch.randint(0, 16, (8, 4)) for name in ("tokens", "labels")}
        safetensors_io.save(self.folder / "data.safetensors", data)
        save = self.folder / "end.safetensors"
        subprocess.run([binary, "--ranks", "2", "--data", self.folder / "data.safetensors",
                        "--steps", "2", "--save", save], check=True, capture_output=True)  # fmt: skip
        # A strict load: every name of the state_dict but the alias, none beside.
        saved = safetensors_io.load(save)
        saved.setdefault("head.weight", saved["table.weight"])
        model.load_state_dict(saved, strict=True)
        with self.assertRaisesRegex(fsdpc.ToolError, "no-such-flag"):
            fsdpc.compile(self.path, binary, no_such_flag=True)

    def test_weights_of_an_earlier_model(self):
        """They stay, also if the next model's are written where the link to them was."""
        fsdpc.export(Counting(), (torch.randn(2, 4),), self.path, method="score")
        earlier, binary = self.folder / "model.safetensors", self.folder / "train"
        before = earlier.read_bytes()
        fsdpc.compile(self.path, binary)
        link = self.folder / "train.safetensors"
        self.assertTrue(link.is_symlink())
        other = self.folder / "other.pt2"
        fsdpc.export(Scoring(), (torch.randn(2, 4),), other)
        with self.assertRaises(fsdpc.ToolError):
            fsdpc.compile(other, binary, no_such_flag=True)
        self.assertEqual(link.resolve(), earlier.resolve())
        torch.jit.script(Scoring()).save(str(self.folder / "b.pt"))
        fsdpc.compile(self.folder / "b.pt", binary, input="x:f32[2,4]")
        self.assertFalse(link.is_symlink())
        self.assertEqual(safetensors_io.load(link).keys(), {"linear.weight", "linear.bias"})
        self.assertEqual(earlier.read_bytes(), before)
        # Nothing was there: after a failure nothing is.
        link.unlink()
        with self.assertRaises(fsdpc.ToolError):
            fsdpc.compile(self.path, binary, no_such_flag=True)
        self.assertFalse(os.path.lexists(link))

    def test_damaged_checkpoint(self):
        """fsdp-checkpoint convert compares checksums."""
        fsdpc.export(Counting(), {"x": torch.randn(2, 4)}, self.path, method="score")
        binary, run = self.folder / "train", self.folder / "run"
        fsdpc.compile(self.path, binary)
        safetensors_io.save(self.folder / "data.safetensors", {"x": torch.randn(4, 4)})
        subprocess.run([binary, "--ranks", "1", "--data", self.folder / "data.safetensors", "--steps", "1",
                        "--checkpoint-dir", run, "--save-every", "1"], check=True, capture_output=True)  # fmt: skip
        (checkpoint,) = run.iterdir()
        file = next(checkpoint.glob("*.safetensors"))
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        file.write_bytes(data)
        tool = pathlib.Path(os.environ["FSDPC_BIN"]) / "fsdp-checkpoint"
        process = subprocess.run([tool, "convert", checkpoint, self.folder / "theirs", "--python", sys.executable],
                                 capture_output=True, text=True)  # fmt: skip
        self.assertEqual(process.returncode, 1)
        self.assertRegex(process.stderr, rf"^error: '{file}'.*CRC-32C")
        self.assertFalse((self.folder / "theirs").exists())


if __name__ == "__main__":
    unittest.main()

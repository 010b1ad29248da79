#!/usr/bin/env python3
"""tools/python/fsdpc: complex parameters, for which pairs of reals stand in the step and in the file of weights."""

import contextlib
import io
import unittest

import exported
import torch
from safetensors.torch import load_file
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy

import fsdpc


class Phases(nn.Module):
    def __init__(self, dtype=torch.complex64):
        super().__init__()
        make = lambda: nn.Parameter(torch.randn(4, dtype=dtype))  # noqa: E731
        self.weight, self.frozen = make(), make().requires_grad_(False)
        self.listed, self.named = nn.ParameterList([make(), make()]), nn.ParameterDict({"own": make(), "shared": self.weight})
        self.conjugate = nn.Parameter(make().detach().conj())
        self.offset = nn.Parameter(torch.randn(4, dtype=make().real.dtype))

    def forward(self, x):
        with torch.no_grad():
            scale = self.weight.abs().sum()
        y = x * self.weight / scale + self.frozen * self.offset
        for factor in self.listed:
            y = y * factor
        return y + 0.5j + self.named["own"] * self.named["shared"].conj() - self.conjugate


class Model(nn.Module):
    def __init__(self, dtype=torch.complex64):
        super().__init__()
        self.phases = Phases(dtype)

    def forward(self, x):
        return self.phases(x).abs().square().mean()


class ComplexParameters(exported.Exported):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)
        self.model, self.x = Model(), torch.randn(3, 4)

    def export(self, model=None, **options):
        self.said = io.StringIO()
        with contextlib.redirect_stderr(self.said):
            fsdpc.export(model or self.model, {"x": self.x}, self.path, **options)

    def load(self):
        """The exported program with its weights, and these."""
        step = torch.export.load(self.path).module(check_guards=False)
        weights = load_file(self.path.with_suffix(".safetensors"))
        weights["phases.named.shared"] = weights["phases.weight"]
        step.load_state_dict(weights, assign=True)
        return step, weights

    def test_pairs(self):
        """The program computes losses and gradients of the model, which is left as it was."""
        for dtype, pair in ((torch.complex64, torch.float32), (torch.complex128, torch.float64)):
            with self.subTest(dtype=dtype):
                model, self.x = Model(dtype), self.x.to(pair)
                before = dict(model.named_parameters())
                self.export(model)
                self.capture()
                self.assertEqual({name: id(tensor) for name, tensor in model.named_parameters()},
                                 {name: id(tensor) for name, tensor in before.items()})  # fmt: skip
                step, weights = self.load()
                for name, tensor in before.items():
                    expected = torch.view_as_real(tensor.detach().resolve_conj()) if tensor.is_complex() else tensor.detach()
                    self.assertEqual(weights[name].dtype, pair)
                    self.assertTrue(torch.equal(weights[name], expected), name)
                loss, eager = step(x=self.x), model(self.x)
                self.assertTrue(torch.equal(loss, eager))
                loss.backward()
                eager.backward()
                gradients = {name: tensor.grad for name, tensor in step.named_parameters() if tensor.grad is not None}
                if "phases.named.shared" in gradients:  # torch's module has it twice
                    gradients["phases.weight"] = gradients.pop("phases.named.shared") + gradients.get("phases.weight", 0)
                for name, tensor in before.items():
                    self.assertEqual(name in gradients, name != "phases.frozen")
                    if tensor.is_complex() and name in gradients:
                        torch.testing.assert_close(torch.view_as_complex(gradients[name]), tensor.grad)

    def test_step(self):
        """Numbers belong to the module that uses them; shared ones are one parameter, frozen ones stay frozen."""
        self.export()
        self.assertRegex(self.said.getvalue(), "complex parameters are pairs of reals .*: phases.weight, phases.frozen, ")
        step = self.capture()
        self.assertIn('fsdp.param @phases.weight : tensor<4x2xf32> aliases ["phases.named.shared"]', step)
        self.assertIn("fsdp.param @phases.frozen : tensor<4x2xf32> frozen", step)
        # Without gradients, and with them.
        self.assertEqual(step.count('"view_as_complex.default"(%phases.weight) fwd in "phases"'), 2)
        self.assertNotIn('"view_as_complex.default"(%phases.weight) fwd in ""', step)

    def test_meta(self):
        with fsdpc.meta_parameters():
            model = Model()
        self.export(model)
        self.assertIn("tensor<4x2xf32>", self.capture())
        self.assertTrue(model.phases.weight.is_meta and model.phases.weight.is_complex())

    def test_optimizer(self):
        own = self.model.phases.weight
        rest = [tensor for tensor in self.model.parameters() if tensor is not own]
        self.export(optimizer=torch.optim.AdamW([{"params": [own], "weight_decay": 0.25}, {"params": rest}]))
        self.assertIn("fsdp.optimizer_group [@phases.weight] weight_decay = 2.5", self.capture())

    def test_derivatives(self):
        class Forces(Model):
            def forward(self, x):
                (slope,) = torch.autograd.grad(super().forward(x), self.phases.weight, create_graph=True)
                return slope.abs().square().sum()

        self.export(Forces())
        self.capture()

    def test_transforms(self):
        """The number that a transform reads is not that of the forward."""

        class Rows(Model):
            def forward(self, x):
                slope = torch.func.grad(lambda row: (row * self.phases.weight).abs().sum())
                return (torch.vmap(lambda row: slope(row) * self.phases.weight)(x) * self.phases.weight).abs().sum()

        model = Rows()
        self.export(model)
        self.capture()
        self.assertTrue(torch.equal(self.load()[0](x=self.x), model(self.x)))

    def test_policies(self):
        """FSDP2 would cast to real dtypes."""
        for policy in (MixedPrecisionPolicy(param_dtype=torch.bfloat16), MixedPrecisionPolicy(reduce_dtype=torch.float32)):
            with self.assertRaisesRegex(fsdpc.ExportError, "parameter 'phases.weight' is torch.complex64, of which "
                                        "(param|reduce)_dtype=torch.* keeps the real part alone"):  # fmt: skip
                self.export(mixed_precision=policy)
        self.export(mixed_precision={"phases": MixedPrecisionPolicy(), "": MixedPrecisionPolicy(param_dtype=torch.bfloat16)})
        self.assertTrue(self.model.phases.weight.is_complex())

    def test_hooks(self):
        self.model.phases.weight.register_hook(lambda gradient: gradient)
        with self.assertRaisesRegex(fsdpc.ExportError, "parameter 'phases.weight' has hooks of its gradient"):
            self.export()


if __name__ == "__main__":
    unittest.main()

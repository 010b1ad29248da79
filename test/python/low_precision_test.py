#!/usr/bin/env python3
"""Parameters of 8 bits, parameters that are tensor subclasses, and operators that torch.library composes in Python, in modules
that are exported. Their numbers: the entries nn/Float8*, nn/Quantized* of python.models."""

import sys
import unittest

import exported  # adds the folder of fsdpc
import safetensors_io
import torch
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy

import fsdpc

sys.path.insert(0, str(exported.ROOT / "tools"))
from modelzoo.of_low_precision import Quantized  # noqa: E402

BF16 = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)


class Wrapper(torch.Tensor):
    """A tensor of plain tensors; F.linear is `multiply`."""

    names = ()

    @staticmethod
    def __new__(cls, parts):
        first = parts[0]
        return torch.Tensor._make_wrapper_subclass(cls, first.shape, dtype=torch.float32)

    def __init__(self, parts):
        for name, part in zip(self.names, parts):
            setattr(self, name, part)

    def __tensor_flatten__(self):
        return list(self.names), None

    @classmethod
    def __tensor_unflatten__(cls, parts, context, size, stride):
        return cls([parts[name] for name in cls.names])

    @classmethod
    def __torch_function__(cls, function, types, arguments=(), options=None):
        if function is nn.functional.linear:
            return cls.multiply(*arguments)
        with torch._C.DisableTorchFunctionSubclass():
            return function(*arguments, **(options or {}))

    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), options=None):
        if function is torch.ops.aten.detach.default:
            return cls([getattr(arguments[0], name) for name in cls.names])
        raise NotImplementedError(str(function))


class Plain(Wrapper):
    names = ("inner",)

    @staticmethod
    def multiply(x, weight, bias=None):
        return nn.functional.linear(x, weight.inner)


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight.inner)
        return x @ weight.inner.t()

    @staticmethod
    def backward(ctx, gradient):
        x, inner = ctx.saved_tensors
        return gradient @ inner, 2 * gradient.t() @ x


class Wrapping(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return Plain([x])

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class WrappingBackward(Wrapping):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return Plain([gradient])


class Hooked(Plain):
    """FSDP2 gathers the tensor inside."""

    @staticmethod
    def multiply(x, weight, bias=None):
        return Doubled.apply(x, weight)

    def fsdp_pre_all_gather(self, mesh, outer_size, outer_stride, module, mp_policy):
        return (self.inner.to(mp_policy.param_dtype),), None

    def fsdp_post_all_gather(self, outputs, metadata, param_dtype, *, out=None):
        return Hooked(outputs), outputs


class Rounded(Hooked):
    def fsdp_pre_all_gather(self, mesh, outer_size, outer_stride, module, mp_policy):
        return (self.inner.round(),), None


class Uncast(Hooked):
    def fsdp_pre_all_gather(self, mesh):
        return (self.inner,), None


class Model(nn.Module):
    def __init__(self, weight, trained=False):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.second = nn.Linear(4, 4, bias=False)
        self.second.weight = nn.Parameter(weight, requires_grad=trained)

    def forward(self, x):
        return self.second(self.first(x)).sum()


class Scaled(Model):
    def forward(self, x):
        return (self.first(x) @ self.second.weight.to(x.dtype)).sum()


_library = torch.library.Library("fsdpc_composite", "DEF")
_library.define("halved(Tensor x) -> Tensor")
_library.impl("halved", lambda x: x * 0.5, "CompositeImplicitAutograd")


class WeightWithDynamicFloat8CastTensor(Rounded):
    """Has the name of torchao's class."""


class Calling(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.linear, self.function = nn.Linear(4, 4), function

    def forward(self, x):
        return self.function(self.linear(x)).sum()


class Float8Product(torch.autograd.Function):
    """With one scale for each matrix, or one for each row and column."""

    @staticmethod
    def forward(ctx, x, weight, by_rows):
        ctx.save_for_backward(x, weight)
        scales = [torch.ones(16, 1), torch.ones(1, 32)] if by_rows else [torch.ones(()), torch.ones(())]
        left, right = x.to(torch.float8_e4m3fn), weight.to(torch.float8_e4m3fn).t()
        return torch._scaled_mm(left, right, scale_a=scales[0], scale_b=scales[1], out_dtype=torch.bfloat16)

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        return gradient.float() @ weight, gradient.float().t() @ x, None


class Scaling(nn.Module):
    def __init__(self, by_rows):
        super().__init__()
        self.weight, self.by_rows = nn.Parameter(torch.randn(32, 16)), by_rows

    def forward(self, x):
        return Float8Product.apply(x, self.weight, self.by_rows).float().sum()


def quantized():
    return Quantized(torch.randint(-127, 127, (4, 4), dtype=torch.int8), torch.rand(4, 1))


class LowPrecision(exported.Exported):
    def export(self, model, **options):
        fsdpc.export(model, (torch.randn(2, 4),), self.path, **options)
        return self.capture()

    def refused(self, model, **options):
        with self.assertRaises(fsdpc.ExportError) as raised:
            self.export(model, **options)
        return str(raised.exception)

    def test_tensors_inside_are_parameters(self):
        model = Model(quantized())
        weight = model.second.weight
        step = self.export(model)
        self.assertIn("fsdp.param @second.weight.bits : tensor<4x4xi8> frozen", step)
        self.assertIn("fsdp.param @second.weight.scale : tensor<4x1xf32> frozen", step)
        saved = safetensors_io.load(self.path.with_suffix(".safetensors"))
        self.assertTrue(torch.equal(saved["second.weight.bits"], weight.bits))
        # The model is as before.
        self.assertIs(model.second.weight, weight)
        self.assertEqual([name for name, _ in model.named_parameters()], ["first.weight", "first.bias", "second.weight"])

    def test_beside_parameters_on_meta(self):
        with fsdpc.meta_parameters():
            model = Model(quantized())
        self.assertTrue(model.first.weight.is_meta)
        self.assertIn("fsdp.param @second.weight.bits : tensor<4x4xi8> frozen", self.export(model))

    def test_policies_leave_frozen_parts_alone(self):
        step = self.export(Model(quantized()), mixed_precision=BF16)
        self.assertIn('"_to_copy.default"(%first.weight, bf16', step)
        self.assertNotIn('"_to_copy.default"(%second.weight.scale', step)
        self.compile("--mesh", "dp=2", "-o", self.folder / "train")

    def test_trained(self):
        step = self.export(Model(Hooked([torch.randn(4, 4)]), trained=True))
        self.assertRegex(step, r"fsdp.param @second.weight.inner : tensor<4x4xf32> loc")
        self.assertRegex(step, r'"mul\.Tensor"\(.*, 2\) bwd in "second"')  # of Doubled
        self.assertIn("fsdp.grad @second.weight.inner", step)
        cast = self.export(Model(Hooked([torch.randn(4, 4)]), trained=True), mixed_precision=BF16)
        self.assertRegex(cast, r'_to_copy.*bf16.*fwd.*tensor<4x4xf32>')

    def test_optimizer_of_a_trained_wrapper(self):
        model = Model(Hooked([torch.randn(4, 4)]), trained=True)
        groups = [{"params": [model.second.weight], "lr": 0.5}, {"params": model.first.parameters()}]
        self.assertRegex(self.export(model, optimizer=torch.optim.SGD(groups, lr=0.1)),
                         r"fsdp.optimizer_group \[@second.weight.inner\] lr = 5")  # fmt: skip

    def test_refused_wrappers(self):
        self.assertIn("'second.weight' is trained, and is a Quantized of bits, scale",
                      self.refused(Model(quantized(), trained=True)))  # fmt: skip
        self.assertIn("'second.weight' is a Plain, which has no fsdp_pre_all_gather",
                      self.refused(Model(Plain([torch.randn(4, 4)]), trained=True)))  # fmt: skip
        self.assertIn("'second.weight' is a Rounded, whose fsdp_pre_all_gather hands over other tensors:",
                      self.refused(Model(Rounded([torch.randn(4, 4)]))))  # fmt: skip
        self.assertIn("a Rounded, whose fsdp_pre_all_gather",
                      self.refused(Model(Rounded([torch.empty(4, 4, device="meta")]), trained=True)))  # fmt: skip
        self.assertIn("compile it with mixed_precision: {gather_dtype: float8_e4m3fn}",
                      self.refused(Model(WeightWithDynamicFloat8CastTensor([torch.randn(4, 4)]), trained=True)))  # fmt: skip
        self.export(Model(Uncast([torch.randn(4, 4)]), trained=True))
        self.assertIn("hands over other tensors with param_dtype=torch.bfloat16:",
                      self.refused(Model(Uncast([torch.randn(4, 4)]), trained=True), mixed_precision=BF16))  # fmt: skip

    def test_functions_that_return_wrappers(self):
        self.assertIn("Wrapping' has a forward that returns a Plain, a tensor subclass", self.refused(Calling(Wrapping.apply)))
        self.assertIn("has a backward that returns a Plain, a tensor subclass", self.refused(Calling(WrappingBackward.apply)))

    def test_operators_composed_in_python(self):
        step = self.export(Calling(torch.ops.fsdpc_composite.halved))
        self.assertNotIn("fsdpc_composite", step)
        self.assertRegex(step, r'"mul\.Tensor"\(.*, 5\.0+e-01\) fwd')

    def test_scaled_products(self):
        """torch's kernel for CPUs takes one scale for a matrix, those for GPUs also scales of rows."""
        for by_rows in (False, True):
            fsdpc.export(Scaling(by_rows), (torch.randn(16, 16),), self.path)
            self.assertRegex(self.capture("--target", "cuda"),
                             r'"_scaled_mm\.default".* \(tensor<16x16xf8E4M3FN>, .*-> tensor<16x32xbf16>')  # fmt: skip
            if by_rows:
                self.assertIn("only supports per-tensor scaling for CPU", self.refused_capture())
            else:
                self.assertIn('"_scaled_mm.default"', self.capture())

    def test_parameters_of_8_bits(self):
        for dtype, name in ((torch.float8_e4m3fn, "f8E4M3FN"), (torch.float8_e5m2, "f8E5M2"), (torch.int8, "i8")):
            step = self.export(Scaled(torch.ones(4, 4).to(dtype)))
            self.assertIn(f"fsdp.param @second.weight : tensor<4x4x{name}> frozen", step)
        fsdpc.export(Scaled(torch.ones(4, 4).to(torch.float8_e4m3fn), trained=True), (torch.randn(2, 4),), self.path)
        self.assertIn("parameter 'second.weight' is trained in Float8_e4m3fn, which no optimizer does: freeze it",
                      self.refused_capture())  # fmt: skip


if __name__ == "__main__":
    unittest.main()

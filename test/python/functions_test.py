#!/usr/bin/env python3
"""torch.autograd.Functions, and operators that are defined in Python, in modules that are exported: parity.functions
has their numbers."""

import re
import unittest

import exported  # adds the folder of fsdpc
import torch
from torch import nn

import fsdpc


class Doubled(torch.autograd.Function):
    """The backward is not the forward's derivative."""

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 3


bound_early = Doubled.apply


class Written(Doubled):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)


class Short(Doubled):
    @staticmethod
    def forward(ctx, x, other=None):
        return x * 2


class Unknown(Doubled):
    table = torch.ones(4)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * Unknown.table


class Optional(Doubled):
    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(False)
        return x * 2, x * 3


class Branching(Doubled):
    @staticmethod
    def backward(ctx, gradient):
        return gradient if gradient.sum() > 0 else -gradient


class Cast(torch.autograd.Function):
    """Under the forward's autocast, which the backward enters again."""

    @staticmethod
    @torch.amp.custom_fwd(device_type="cpu")
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x @ weight

    @staticmethod
    @torch.amp.custom_bwd(device_type="cpu")
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        return gradient @ weight.t(), x.t() @ gradient


class Uncast(Cast):
    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        return gradient @ weight.t().to(gradient.dtype), x.t() @ gradient.float()


@torch.library.custom_op("fsdpc_test::unlike", mutates_args=())
def unlike(x: torch.Tensor, factor: float = 2.0) -> torch.Tensor:
    return x * factor


@unlike.register_autograd
def _(ctx, gradient):
    return gradient * ctx.needs_input_grad[0] * 3, None


@torch.library.custom_op("fsdpc_test::forward_only", mutates_args=())
def forward_only(x: torch.Tensor) -> torch.Tensor:
    return x * 5


@torch.library.custom_op("fsdpc_test::written", mutates_args={"x"})
def written(x: torch.Tensor) -> None:
    x.mul_(2)


@written.register_fake
def _(x):
    pass


class Calling(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.function = function

    def forward(self, x):
        result = self.function(self.linear(x))
        return (result[0] if isinstance(result, tuple) else result).sum()


class UnderAutocast(Calling):
    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            return self.function(x, self.linear.weight).float().sum()


class Functions(exported.Exported):
    def export(self, function, make=Calling):
        fsdpc.export(make(function), (torch.randn(2, 4),), self.path)
        return self.capture()

    def test_backward(self):
        for function in (Doubled.apply, bound_early, lambda x: Doubled.apply(x)):
            step = self.export(function)
            self.assertEqual(re.findall(r'"mul\.Tensor"\(.*, ([23])\) (\w+) in ""', step), [("2", "fwd"), ("3", "bwd")])
        # The patch is gone.
        self.assertEqual(Doubled.apply(torch.ones(1)).item(), 2)

    def test_place(self):
        """A function belongs to the module that calls it."""
        self.path.parent.mkdir(exist_ok=True)
        fsdpc.export(nn.Sequential(Calling(Doubled.apply)), (torch.randn(2, 4),), self.path)
        self.assertEqual(re.findall(r'"mul\.Tensor".* in "(\w*)"', self.capture()), ["0", "0"])

    def test_autocast(self):
        step = self.export(Cast.apply, UnderAutocast)
        self.assertEqual(re.findall(r'"mm\.default".*-> tensor<\w+x(\w+)>', step), ["bf16", "bf16"])
        step = self.export(Uncast.apply, UnderAutocast)
        self.assertEqual(re.findall(r'"mm\.default".*-> tensor<\w+x(\w+)>', step), ["bf16", "f32"])

    def test_operators(self):
        """Of Python, which the training binary does not have."""
        for operator in unlike, torch.ops.fsdpc_test.unlike, torch.ops.fsdpc_test.unlike.default:
            factors = re.findall(r'"mul\.[A-Z]\w+"\(.*, (\S+)\) (\w+) in ""', self.export(operator))
            self.assertEqual(factors, [("2.000000e+00", "fwd"), ("true", "bwd"), ("3", "bwd")])
        self.export(lambda x: unlike(x.detach()) + forward_only(x.detach()) * x)
        with self.assertRaisesRegex(fsdpc.ExportError, "'fsdpc_test::forward_only', which is defined in Python, has a "
                                    "backward that cannot be traced: it has none: give it one"):  # fmt: skip
            self.export(forward_only)
        with self.assertRaisesRegex(fsdpc.ExportError, "'fsdpc_test.written.default' is defined in Python"):
            self.export(lambda x: (written(x), x)[1])

    def test_refused(self):
        for function, reason in (
            (Written, "writes to an argument .mark_dirty.: return a new tensor"),
            (Unknown, "reads a tensor that is none of its arguments: pass it to apply"),
            (Optional, "has several outputs and set_materialize_grads.False."),
            (Branching, "has a backward that cannot be traced: Could not guard on data-dependent"),
        ):
            with self.assertRaisesRegex(fsdpc.ExportError, f"Function '.*{function.__name__}' {reason}"):
                self.export(function.apply)
        with self.assertRaisesRegex(fsdpc.ExportError, "Short' has a backward that returns 1 gradients, expected 2"):
            self.export(lambda x: Short.apply(x, 1))


if __name__ == "__main__":
    unittest.main()

"""Entries of low precision that need only torch: autocast, parameters of 8 bits, float8 products, fake quantization."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from .registry import BF16, entry
from .of_torch import _encoder_layer, _tagger


class Autocast(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = _encoder_layer()()

    def forward(self, x):
        with torch.autocast("cpu", torch.bfloat16):
            return self.layer(x).float()


class Float8Weight(nn.Module):
    """A frozen weight of float8 with a scale of each row, and an adapter."""

    def __init__(self, dtype=torch.float8_e4m3fn):
        super().__init__()
        weight = torch.randn(48, 32)
        scale = weight.abs().amax(1, keepdim=True) / torch.finfo(dtype).max
        self.weight = nn.Parameter((weight / scale).to(dtype), requires_grad=False)
        self.scale = nn.Parameter(scale, requires_grad=False)
        self.a, self.b = nn.Linear(32, 4, bias=False), nn.Linear(4, 48, bias=False)

    def forward(self, x):
        weight = self.weight.to(x.dtype) * self.scale.to(x.dtype)
        return (F.linear(x, weight) + self.b(self.a(x)))[..., :32]


class Quantized(torch.Tensor):
    """A frozen weight of int8 with a scale of each row. FSDP2 cannot cut it, and each rank holds it whole."""

    @staticmethod
    def __new__(cls, bits, scale):
        return torch.Tensor._make_wrapper_subclass(cls, bits.shape, dtype=scale.dtype)

    def __init__(self, bits, scale):
        self.bits, self.scale = bits, scale

    def __tensor_flatten__(self):
        return ["bits", "scale"], None

    @classmethod
    def __tensor_unflatten__(cls, parts, context, size, stride):
        return cls(parts["bits"], parts["scale"])

    @classmethod
    def __torch_function__(cls, function, types, arguments=(), options=None):
        if function is F.linear:
            x, weight, bias = arguments
            product = _QuantizedProduct.apply(x, weight)
            return product if bias is None else product + bias
        with torch._C.DisableTorchFunctionSubclass():
            return function(*arguments, **(options or {}))

    @classmethod
    def __torch_dispatch__(cls, function, types, arguments=(), options=None):
        if function is torch.ops.aten.detach.default:
            return cls(arguments[0].bits, arguments[0].scale)
        raise NotImplementedError(str(function))


class _QuantizedProduct(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(weight)
        return x @ (weight.bits * weight.scale).to(x.dtype).t()

    @staticmethod
    def backward(ctx, gradient):
        (weight,) = ctx.saved_tensors
        return gradient @ (weight.bits * weight.scale).to(gradient.dtype), None


class QuantizedWeight(nn.Module):
    def __init__(self):
        super().__init__()
        self.base, self.adapter = nn.Linear(32, 32), nn.Linear(32, 32, bias=False)
        weight = Quantized(torch.randint(-127, 128, (32, 32), dtype=torch.int8), torch.rand(32, 1) / 500)
        self.base.weight = nn.Parameter(weight, requires_grad=False)

    def forward(self, x):
        return self.base(x) + self.adapter(x)


class _Float8Product(torch.autograd.Function):
    """x [m, k] times weight [n, k], in float8 with one scale for each matrix, forward and backward."""

    @staticmethod
    def cast(x, dtype):
        scale = torch.finfo(dtype).max / x.abs().max().float().clamp(min=1e-12)
        return (x.float() * scale).to(dtype), scale.reciprocal()

    @staticmethod
    def product(left, right, out):
        (a, a_scale), (b, b_scale) = left, right
        return torch._scaled_mm(a, b, scale_a=a_scale, scale_b=b_scale, out_dtype=out)

    @classmethod
    def forward(cls, ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return cls.product(cls.cast(x, torch.float8_e4m3fn), cls.cast(weight.t(), torch.float8_e4m3fn), x.dtype)

    @classmethod
    def backward(cls, ctx, gradient):
        x, weight = ctx.saved_tensors
        by_rows = cls.cast(gradient, torch.float8_e5m2)
        to_x = cls.product(by_rows, cls.cast(weight.t().contiguous().t(), torch.float8_e4m3fn), x.dtype)
        by_columns = cls.cast(gradient.t().contiguous(), torch.float8_e5m2)
        to_weight = cls.product(by_columns, cls.cast(x.t().contiguous().t(), torch.float8_e4m3fn), x.dtype)
        return to_x, to_weight


class Float8Product(nn.Linear):
    def forward(self, x):
        return _Float8Product.apply(x.flatten(0, 1), self.weight).unflatten(0, x.shape[:2]) + self.bias


class FakeQuantized(nn.Module):
    """torch.ao's fake quantization of activations, whose range is a moving average, and of weights."""

    def __init__(self):
        from torch.ao.quantization import FusedMovingAvgObsFakeQuantize, default_fused_wt_fake_quant

        super().__init__()
        self.up, self.down = nn.Linear(32, 64), nn.Linear(64, 32)
        self.activation = FusedMovingAvgObsFakeQuantize()
        self.of_up, self.of_down = default_fused_wt_fake_quant(), default_fused_wt_fake_quant()

    def forward(self, x):
        hidden = F.linear(self.activation(x), self.of_up(self.up.weight), self.up.bias).relu()
        return F.linear(self.activation(hidden), self.of_down(self.down.weight), self.down.bias)


entry("nn/Autocast", "torch")(_tagger(Autocast))
entry("nn/Float8Weight", "torch")(_tagger(Float8Weight))
entry("nn/Float8Weight-bf16", "torch", mixed_precision=BF16)(_tagger(Float8Weight))
entry("nn/QuantizedWeight", "torch", traced=False)(_tagger(QuantizedWeight))
entry("nn/QuantizedWeight-bf16", "torch", mixed_precision=BF16)(_tagger(QuantizedWeight))
entry("nn/Float8Product", "torch", traced=False)(_tagger(lambda: Float8Product(32, 32)))
entry("nn/Float8Product-bf16", "torch", mixed_precision=BF16)(_tagger(lambda: Float8Product(32, 32)))
entry("nn/FakeQuantized", "torch")(_tagger(FakeQuantized))

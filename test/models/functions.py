"""A model whose layers are torch.autograd.Functions, each written in another of the ways that models have, and an
operator that is defined in Python."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from config import Config
from torch import Tensor


class Rounded(torch.autograd.Function):
    """Straight-through: nothing is saved, and the gradient is not the forward's. A number is an argument."""

    @staticmethod
    def forward(ctx, x, levels):
        return torch.round(x * levels) / levels

    @staticmethod
    def backward(ctx, gradient):
        return gradient.clamp(-0.5, 0.5), None


class Reversed(torch.autograd.Function):
    """The result is the argument; a number is kept on ctx."""

    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x

    @staticmethod
    def backward(ctx, gradient):
        return -ctx.factor * gradient, None


class Linear(torch.autograd.Function):
    """Parameters are arguments, one of which may be None, and what is computed depends on what needs a gradient."""

    @staticmethod
    def forward(ctx, x, weight, bias=None):
        ctx.save_for_backward(x, weight, bias)
        product = x @ weight.t()
        return product if bias is None else product + bias

    @staticmethod
    def backward(ctx, gradient):
        x, weight, bias = ctx.saved_tensors
        of_x = gradient @ weight if ctx.needs_input_grad[0] else None
        of_weight = gradient.t() @ x if ctx.needs_input_grad[1] else None
        return of_x, of_weight, None if bias is None else gradient.sum(0)


class Gate(torch.autograd.Function):
    """setup_context apart, an argument, a result and a tensor on ctx for the backward, keywords and two results,
    of which one has no gradient."""

    @staticmethod
    def forward(x, gate, bias=0.5):
        mask = x > gate * bias
        return x * torch.sigmoid(gate), mask

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, gate, bias = inputs
        ctx.mark_non_differentiable(output[1])
        ctx.save_for_backward(gate, output[0])
        ctx.x, ctx.scale = x, torch.tensor(2.0)

    @staticmethod
    def backward(ctx, gradient, of_mask):
        gate, result = ctx.saved_tensors
        sigmoid = torch.sigmoid(gate)
        of_gate = gradient * (result - result * sigmoid) * ctx.scale / 2
        return gradient * sigmoid, of_gate + 0 * ctx.x, None


class Recomputed(torch.autograd.Function):
    """Forgets what the forward computed, and asks autograd for the gradient in its backward; calls a Function."""

    @staticmethod
    def forward(ctx, function, x, scales):
        ctx.function = function
        ctx.save_for_backward(x, scales[0])
        return function(x, scales[0])

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        x, scale = ctx.saved_tensors
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            result = ctx.function(x, scale)
        return None, torch.autograd.grad(result, x, gradient)[0], None


class Pair(torch.autograd.Function):
    """Two results, of which the model may use one, and a write to a tensor of its own."""

    @staticmethod
    def forward(ctx, x):
        ctx.set_materialize_grads(True)
        halves = x.clone()
        halves[:, ::2] *= 0.5
        return halves, x.tanh()

    @staticmethod
    def backward(ctx, of_halves, of_tanh):
        gradient = of_halves.clone()
        gradient[:, ::2] *= 0.5
        return gradient + of_tanh


@torch.library.custom_op("fsdpc_models::bent", mutates_args=())
def bent(x: Tensor, slope: float = 0.75, *, power: int = 2) -> Tensor:
    return torch.where(x > 0, x, slope * x.abs() ** power)


@bent.register_fake
def _(x, slope=0.75, *, power=2):
    return torch.empty_like(x)


def setup_bent(ctx, inputs, keyword_only_inputs, output):
    x, ctx.slope = inputs
    ctx.power = keyword_only_inputs["power"]
    ctx.save_for_backward(x)


def differentiate_bent(ctx, gradient):
    (x,) = ctx.saved_tensors
    slope = ctx.slope * ctx.power * x.abs() ** (ctx.power - 1) * x.sign()
    return gradient * torch.where(x > 0, 1.0, slope), None


bent.register_autograd(differentiate_bent, setup_context=setup_bent)
linear = Linear.apply


class FunctionBlock(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(dim, dim) / dim**0.5)
        self.bias = nn.Parameter(torch.zeros(dim))
        self.gate = nn.Linear(dim, dim)
        self.register_buffer("scale", torch.linspace(0.5, 1.5, dim))

    def scaled(self, x: Tensor, scale: Tensor) -> Tensor:
        return Rounded.apply((x * scale.to(x.dtype)).sin(), 64)

    def forward(self, x: Tensor) -> Tensor:
        hidden = linear(Rounded.apply(x, 16), self.weight, self.bias)
        gated, mask = Gate.apply(bent(hidden, power=3), self.gate(x))
        hidden = Recomputed.apply(self.scaled, gated, [self.scale])
        halves, _ = Pair.apply(Reversed.apply(hidden, 0.5))
        with torch.no_grad():
            shift = Rounded.apply(hidden, 2)
        return x + linear(torch.where(mask, halves, shift), self.weight)


class Functions(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.layers = nn.ModuleList([FunctionBlock(config.dim) for _ in range(config.layers)])
        self.head = nn.Linear(config.dim, config.classes)

    def forward(self, x: Tensor, targets: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(self.head(x), targets)

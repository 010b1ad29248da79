"""Small models for the tests of the capture: some must be refused, some show one behaviour each."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor
from typing import List, Tuple


class Weighted(nn.Module):
    """One weight of four numbers; the models below use it."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.tensor([1.0, 2.0, 3.0, 4.0]))


class Item(Weighted):
    def forward(self, x: Tensor) -> Tensor:
        z = (self.w * x).sum()
        return z / z.item()


class MixedProduct(nn.Module):
    """A product of two dtypes, which only meta tensors have."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(4, 4))

    def forward(self, x: Tensor) -> Tensor:
        return torch.mm(x, self.w.to(torch.bfloat16)).sum()


class MixedNorm(nn.Module):
    """A batch norm in bf16 whose running statistics are in fp32, as casts of parameters leave them."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.norm.weight.data = self.norm.weight.data.bfloat16()
        self.norm.bias.data = self.norm.bias.data.bfloat16()

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x.to(torch.bfloat16)).float().square().sum()


class Branch(Weighted):
    def forward(self, x: Tensor) -> Tensor:
        z = (self.w * x).sum()
        if z > 0.0:
            z = z * 2.0
        return z


class Inner(Weighted):
    def forward(self, x: Tensor) -> Tensor:
        return (self.w * x)[x > 0.0].sum()


class BooleanMask(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Inner()])

    def forward(self, x: Tensor) -> Tensor:
        for block in self.blocks:
            x = block(x)
        return x


class ListConstant(Weighted):
    def __init__(self):
        super().__init__()
        self.factors: List[Tensor] = [torch.ones(4), torch.ones(4)]

    def forward(self, x: Tensor) -> Tensor:
        return (self.w * x * self.factors[0]).sum()


class Sparse(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(8, 4, sparse=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.embedding(x.long()).sum()


class Complex(Weighted):
    def forward(self, x: Tensor) -> Tensor:
        return (self.w * x).to(torch.complex32).abs().sum()


class Vector(Weighted):
    def forward(self, x: Tensor) -> Tensor:
        return self.w * x


class Pair(Weighted):
    def forward(self, x: Tensor) -> Tuple[Tensor, Tensor]:
        return self.w.sum(), x.sum()


class NoGradient(Weighted):
    def forward(self, x: Tensor) -> Tensor:
        return x.sum()


class Detached(Weighted):
    def forward(self, x: Tensor) -> Tensor:
        return (self.w.detach() * x).sum()


class Unused(Weighted):
    def __init__(self):
        super().__init__()
        self.head = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return (self.w * x).sum()


class Frozen(Weighted):
    def __init__(self):
        super().__init__()
        self.table = nn.Parameter(torch.ones(4), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        return (self.w * x * self.table).sum()


class WritesParameter(Weighted):
    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.w.mul_(0.5)
        return (self.w * x).sum()


class NotContiguous(nn.Module):
    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(3, 4).t())

    def forward(self, x: Tensor) -> Tensor:
        return (x @ self.w).sum()


class NotTensor(Weighted):
    def forward(self, x: Tensor, factor: float) -> Tensor:
        return (self.w * x).sum() * factor


class NamedStep(Weighted):
    def forward(self, step: Tensor) -> Tensor:
        return (self.w * step).sum()


# ---------------------------------------------------------------- models that work


class Literals(nn.Module):
    """Literals, a buffer that is counted up, and a random draw whose result is not used."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(3))
        self.register_buffer("count", torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        self.count.add_(1.0)
        unused = torch.rand_like(x)
        scale = torch.tensor([1.0, 2.0, 3.0], device=x.device)
        return (self.w * scale * x + self.count).sum() * torch.tensor(2.0)


class Two(nn.Module):
    """Two lists of equal blocks in one module: their paths differ by the list's name alone."""

    def __init__(self):
        super().__init__()
        self.left = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])
        self.right = nn.ModuleList([nn.Linear(4, 4) for _ in range(2)])

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.left:
            x = layer(x).relu()
        for layer in self.right:
            x = layer(x).sin()
        return x.sum()


class Random(Weighted):
    def forward(self, x: Tensor) -> Tensor:
        x = F.dropout(self.w * x, 0.5)
        x = x * torch.bernoulli(torch.full_like(x, 0.5))
        return (x * torch.rand_like(x) + torch.randn(4, device=x.device)).sum()


class Extra(nn.Module):
    """Operators that need shapes of this project's own."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 8, 3, padding=1)
        self.norm = nn.GroupNorm(2, 8)
        self.w = nn.Parameter(torch.randn(8, 8))
        self.length = nn.Parameter(torch.rand(8, 1) + 0.5)

    def forward(self, x: Tensor) -> Tensor:
        h = F.relu6(F.mish(self.norm(self.conv(x))))
        h = h + F.hardswish(h).flip(3).roll([1], [2])
        turned = h.clone().transpose(1, 3).masked_fill_(h.transpose(1, 3) > 0.5, 0.1)
        h = h + F.logsigmoid(turned).sin().transpose(1, 3)
        h = F.adaptive_avg_pool2d(h, [2, 2])
        pooled = h.mean([2, 3])
        y = F.logsigmoid(torch.where(pooled > 0.0, pooled, pooled * 0.5) @ self.w)
        short, length = self.w.to(torch.bfloat16), self.length.to(torch.bfloat16)
        y = y * torch._weight_norm(short, length, 0).float().mean()  # norms in fp32
        y = y / (1.0 + y.std(dim=1, keepdim=True)) + y.var(dim=0)
        z = y.index_select(1, torch.arange(4, device=x.device))
        smooth = F.huber_loss(z, torch.ones_like(z)) + F.mse_loss(z, torch.zeros_like(z))
        smooth = smooth + F.smooth_l1_loss(z.abs(), torch.nan_to_num(z))
        return smooth + F.binary_cross_entropy(torch.sigmoid(y), torch.ones_like(y)) + y.max()


class Masked(Weighted):
    """Attention with a boolean mask and with a width that flash attention takes."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.register_buffer("mask", torch.ones(6, 6, dtype=torch.bool).tril())

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).view(2, 6, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask)
        b = F.scaled_dot_product_attention(q, k, v, dropout_p=0.25)
        return (a + b).sum() * self.w.sum()


class NormedAttention(nn.Module):
    """An RMS norm and attention, with a mask and without, of a width that all kernels of a GPU take."""

    def __init__(self):
        super().__init__()
        self.norm = nn.RMSNorm(16)
        self.qkv = nn.Linear(16, 48)
        self.register_buffer("mask", torch.ones(6, 6, dtype=torch.bool).tril())

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(self.norm(x)).view(2, 6, 3, 2, 8).permute(2, 0, 3, 1, 4).unbind(0)
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask)
        b = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return (a + b).float().sum()


class NarrowHeads(nn.Module):
    """Attention whose heads have 6 dimensions: no kernel of a GPU takes so many in half precision."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(12, 36)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).view(2, 6, 3, 2, 6).permute(2, 0, 3, 1, 4).unbind(0)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).float().sum()


class MasksOfOthers(nn.Module):
    """Masks that cuDNN's attention does not take: one that is learned, and rows that end within a tile; and one in
    fp32, of which it would read other numbers."""

    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(16, 48)
        self.learned = nn.Parameter(torch.zeros(16, 16))
        self.register_buffer("short", torch.ones(64, 64, dtype=torch.bool).tril())
        self.register_buffer("wide", torch.zeros(16, 16))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).view(2, 64, 3, 2, 8).permute(2, 0, 3, 1, 4).unbind(0)
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=self.short)
        q, k, v = q[:, :, :16], k[:, :, :16], v[:, :, :16]
        b = F.scaled_dot_product_attention(q, k, v, attn_mask=self.learned)
        c = F.scaled_dot_product_attention(q, k, v, attn_mask=self.wide.float())
        return a.float().sum() + (b + c).float().sum()


TABLE = torch.linspace(0.0, 1.0, 2048)


class Table(nn.Module):
    """Traced, it holds a large literal."""

    def __init__(self):
        super().__init__()
        self.literal0 = nn.Parameter(torch.ones(2048))

    def forward(self, x: Tensor) -> Tensor:
        return (self.literal0 * x * TABLE).sum()


class Regions(nn.Module):
    """Exported, it holds graphs in higher-order operators: no_grad, autocast and what it excludes,
    a compiled region that is called twice; and constants, a transient buffer, an -inf."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("scale", torch.linspace(0.5, 1.0, 4), persistent=False)
        self.register_buffer("seen", torch.zeros(4), persistent=False)
        self.offsets = torch.arange(4.0)

    def forward(self, x: Tensor) -> Tensor:
        with torch.no_grad():
            factor = (x * self.scale).cos()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.linear(x) @ x.t()
            with torch.autocast("cpu", enabled=False):
                z = y.float().exp()
            y = self.linear(x) + self.linear(x)
            values = torch.linalg.svdvals(y)  # in fp32: there is no other kernel
        again = torch.compiler.nested_compile_region(lambda a: self.linear(a).relu())
        self.seen.add_(x.detach().mean(0))
        mask = torch.full((4, 4), float("-inf")).triu(1)
        probabilities = (mask + again(again(x * factor)) + self.offsets).softmax(-1)
        loss = (probabilities * z).sum() + y.float().sum() + values.sum()
        return loss + torch.tensor(2.0) * 1e-4


class Conditional(Weighted):
    def forward(self, x: Tensor) -> Tensor:
        return torch.cond(
            x.sum() > 0, lambda a: (self.w * a).sum(), lambda a: (self.w - a).sum(), (x,)
        )


class Autocast(Weighted):
    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = torch.outer(self.w, x) @ x
        return y.float().sum()


class UnusedInput(Weighted):
    """`mask` is for nothing."""

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        return (self.w * x).sum()


class Numbers(Weighted):
    """Traced, the numbers are constants; eager, they decide no dtype."""

    def forward(self, x: Tensor) -> Tensor:
        total = (self.w * x).sum()
        return 1e-4 * total + total / 3 - 2 * total


INDEX = torch.tensor([0, 2, 2])


class Expanded(Weighted):
    """A literal that takes the shape of others, as the scale of torch.distributions.Normal(mean, 2.0) does."""

    def forward(self, x: Tensor) -> Tensor:
        mean, scale = torch.broadcast_tensors([self.w, torch.tensor(2.0)])
        squares = (x - mean) ** 2 / (2 * scale**2)
        return torch.where(x > 0, squares, squares * torch.stack([scale, scale]).sum(0)).sum()


class Draws(Weighted):
    """Numbers of other distributions, one of which has gradients; operators in place that torch cannot trace on meta."""

    def forward(self, x: Tensor) -> Tensor:
        rates = self.w.exp() + (x * 2.0).abs_()
        drawn = torch._standard_gamma(rates) + torch._sample_dirichlet(rates.detach()) + torch.poisson(rates.detach())
        picked = torch.multinomial(rates, 4, True) + torch.randperm(4)
        return (drawn * picked.to(torch.float32)).nan_to_num_().sum()


class Factors(Weighted):
    """Products of factors with and without a zero, whose derivatives are different formulas; a
    factorization of a positive definite matrix, which zeros are not."""

    def forward(self, x: Tensor) -> Tensor:
        scale = torch.cholesky(torch.diag(self.w) + 0.1)
        return (torch.cumprod(self.w * x, 0) + torch.cumprod(self.w * (x > 0.0), 0)).sum() + scale.sum()


class Indexed(Weighted):
    """Traced, the index is a constant of the file."""

    def forward(self, x: Tensor) -> Tensor:
        return (self.w[INDEX] * x[torch.tensor([1, 1, 0])]).sum()


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.key = nn.Linear(4, 4)
        self.value = nn.Linear(4, 4)

    def forward(self, x: Tensor, memory: Tensor) -> Tensor:
        return x + self.key(memory) * self.value(memory)


class Readers(nn.Module):
    """Two readers of one memory, each of which uses it twice."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(4, 4)
        self.first = Reader()
        self.second = Reader()

    def forward(self, x: Tensor) -> Tensor:
        memory = self.encoder(x)
        return self.second(self.first(x, memory), memory).sum()


REFUSED = [
    Item, MixedProduct, MixedNorm, Branch, BooleanMask, ListConstant, Sparse, Complex, Vector, Pair, NoGradient,
    Detached, Unused, Frozen, WritesParameter, NotContiguous, NotTensor, NamedStep, Autocast,
]  # fmt: skip
WORKING = [Literals, Two, Random, Extra, Masked, NormedAttention, NarrowHeads, MasksOfOthers, UnusedInput, Readers,
           Expanded, Factors, Draws]  # fmt: skip

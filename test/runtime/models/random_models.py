"""Small models at random: modules that are used twice, views, tied weights, row operators.

A model is decided by its number alone, so that a failure can be repeated.
"""

import random

import torch
import torch.nn.functional as F
from torch import nn

BATCH, LENGTH, WIDTH, HEADS, WORDS = 2, 8, 32, 2, 40


class Norm(nn.Module):
    """Written out: a chain of row operators."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(1 + 0.1 * torch.randn(WIDTH))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


class Gate(nn.Module):
    """A weight for every place: its gradient is one operator's result, not a sum of rows."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Parameter(torch.randn(BATCH, LENGTH, WIDTH))

    def forward(self, x):
        return x * self.gate + x


class Scale(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(1 + 0.1 * torch.randn(WIDTH))
        self.shift = nn.Parameter(0.1 * torch.randn(WIDTH))

    def forward(self, x):
        return x * self.scale + self.shift


class Gated(nn.Module):
    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, 2 * WIDTH, bias=False)
        self.down = nn.Linear(2 * WIDTH, WIDTH, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Mixer(nn.Module):
    """Views: over the length instead of the width, and halves put together."""

    def __init__(self):
        super().__init__()
        self.over_length = nn.Linear(LENGTH, LENGTH)

    def forward(self, x):
        mixed = self.over_length(x.transpose(1, 2)).transpose(1, 2)
        first, second = mixed.chunk(2, dim=-1)
        return torch.cat([-second, first], dim=-1)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        q, k, v = (
            part.view(BATCH, LENGTH, HEADS, WIDTH // HEADS).transpose(1, 2)
            for part in self.qkv(x).chunk(3, dim=-1)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(BATCH, LENGTH, WIDTH))


class Block(nn.Module):
    """A norm and what follows it, twice where `twice`: of one norm."""

    def __init__(self, choose):
        super().__init__()
        self.norm = choose.choice([Norm, lambda: nn.LayerNorm(WIDTH)])()
        self.inner = choose.choice([Gated, Attention, Mixer, lambda: nn.Linear(WIDTH, WIDTH)])()
        self.twice = choose.random() < 0.5

    def forward(self, x):
        x = x + self.inner(self.norm(x))
        return self.norm(x) if self.twice else x


class RandomModel(nn.Module):
    """A few modules, at least one of which is used again; a loss of targets or of tokens."""

    def __init__(self, number):
        super().__init__()
        choose = random.Random(number)
        torch.manual_seed(number)
        kinds = [Norm, lambda: nn.LayerNorm(WIDTH), Gate, Scale, Gated, Mixer, Attention,
                 lambda: Block(choose), lambda: Block(choose)]  # fmt: skip
        self.layers = nn.ModuleList(choose.choice(kinds)() for _ in range(choose.randint(1, 4)))
        order = list(range(len(self.layers)))
        self.order = order + choose.choices(order, k=choose.randint(1, 3))
        choose.shuffle(self.order)
        self.residual = [choose.random() < 0.6 for _ in self.order]
        self.tokens = choose.random() < 0.5
        if self.tokens:
            self.words = nn.Embedding(WORDS, WIDTH)
            self.head = nn.Linear(WIDTH, WORDS, bias=False)
            if choose.random() < 0.5:
                self.head.weight = self.words.weight
        elif len(self.layers) > 1 and isinstance(self.layers[0], type(self.layers[-1])):
            pairs = zip(self.layers[0].named_parameters(), self.layers[-1].named_parameters())
            if all(a.shape == b.shape for (_, a), (_, b) in pairs) and choose.random() < 0.5:
                self.layers[-1] = self.layers[0]

    def forward(self, x, t):
        h = self.words(x) if self.tokens else x
        for index, residual in zip(self.order, self.residual):
            h = h + self.layers[index](h) if residual else self.layers[index](h)
        if self.tokens:
            return F.cross_entropy(self.head(h).view(-1, WORDS), t.view(-1))
        return ((h - t) ** 2).mean()

    def describe(self):
        names = [type(layer).__name__ for layer in self.layers]
        return f"{names} in order {self.order}, tokens {self.tokens}"

    def samples(self, count):
        if self.tokens:
            draw = lambda: torch.randint(0, WORDS, (count, LENGTH))
        else:
            draw = lambda: torch.randn(count, LENGTH, WIDTH)
        return {"x": draw(), "t": draw()}

    def input_flags(self):
        shape = f"i64[{BATCH},{LENGTH}]" if self.tokens else f"f32[{BATCH},{LENGTH},{WIDTH}]"
        return ["--input", f"x:{shape}", "--input", f"t:{shape}"]

"""Models for tests, demo and benchmarks. Each forward takes the batch and returns the scalar loss.

    config = Config("llama", dim=64, layers=2)
    model = build(config)                    # deterministic in config.seed
    batch = example_inputs(config, seed=7)   # {"tokens": ..., "targets": ...}, in forward's order
    flags = input_flags(config)              # ["--input", "tokens:i64[4,16]", ...]

All models but `functions` and those of collectives.py can be scripted and traced, all can be exported (`acoustic`,
`derivatives`, `spectral` and those of collectives.py by the package fsdpc alone) and built on the meta device.
"""

import dataclasses
import fnmatch
from typing import Dict, List, Optional

import torch
import torch.nn as nn
import torch.nn.functional as F
from acoustic import Acoustic
from collectives import Centered, Contrastive, Covariance, Statistics, Tokens
from config import DTYPES, Config
from decoders import GPT2, Llama, MoE
from derivatives import Derivatives
from functions import Functions
from spectral import PairedSpectral, Spectral
from torch import Tensor

# ---------------------------------------------------------------- MLP with in-place ops on views


class MLPBlock(nn.Module):
    def __init__(self, dim: int, ffn: int):
        super().__init__()
        self.up = nn.Linear(dim, ffn)
        self.down = nn.Linear(ffn, dim)
        self.half = ffn // 2

    def forward(self, x: Tensor) -> Tensor:
        h = self.up(x) + 0.5
        h[:, : self.half].mul_(2.0)
        F.relu_(h[:, self.half :])
        return x + self.down(h)


class MLP(nn.Module):
    """No layer below the blocks: the first block's input needs no gradient."""

    def __init__(self, config: Config):
        super().__init__()
        ffn = config.ffn or 4 * config.dim
        self.layers = nn.ModuleList([MLPBlock(config.dim, ffn) for _ in range(config.layers)])
        self.norm = nn.RMSNorm(config.dim) if config.norm == "rms" else nn.LayerNorm(config.dim)
        self.head = nn.Linear(config.dim, config.classes)

    def forward(self, x: Tensor, targets: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(self.head(self.norm(x)), targets)


class Shared(nn.Module):
    """A block that is called several times in a row, and a module that is never called."""

    def __init__(self, config: Config):
        super().__init__()
        ffn = config.ffn or 4 * config.dim
        self.embed = nn.Linear(config.dim, config.dim)
        self.layers = nn.ModuleList([MLPBlock(config.dim, ffn) for _ in range(3)])
        self.unused = nn.Linear(config.dim, config.dim)
        self.head = nn.Linear(config.dim, config.classes)

    def forward(self, x: Tensor, targets: Tensor) -> Tensor:
        x = self.layers[0](self.embed(x))
        x = self.layers[1](self.layers[1](x))
        x = self.layers[1](self.layers[2](x))
        return F.cross_entropy(self.head(x), targets)


class Renamed(nn.Module):
    """Blocks that the model holds under further names and calls by these; one stands in a list twice."""

    def __init__(self, config: Config):
        super().__init__()
        ffn = config.ffn or 4 * config.dim
        self.embed = nn.Linear(config.dim, config.dim)
        first, second = (MLPBlock(config.dim, ffn) for _ in range(2))
        self.layers = nn.ModuleList([first, second, first])
        self.last = second
        self.head = nn.Linear(config.dim, config.classes)

    def forward(self, x: Tensor, targets: Tensor) -> Tensor:
        x = self.embed(x)
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(self.head(self.last(x)), targets)


class Stage(nn.Module):
    """Two blocks, and if `is_mixing` parameters and statistics of its own around them."""

    def __init__(self, dim: int, ffn: int, is_mixing: bool):
        super().__init__()
        self.mix = nn.Linear(dim, dim) if is_mixing else nn.Identity()
        self.blocks = nn.ModuleList([MLPBlock(dim, ffn) for _ in range(2)])
        self.norm = nn.BatchNorm1d(dim) if is_mixing else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        x = self.mix(x)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


class Staged(nn.Module):
    """config.layers stages, one after another, and a loss without parameters."""

    def __init__(self, config: Config):
        super().__init__()
        ffn = config.ffn or 4 * config.dim
        self.stages = nn.ModuleList(
            [Stage(config.dim, ffn, is_mixing=i % 2 == 0) for i in range(config.layers)]
        )

    def loss(self, x: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(x, targets)

    def forward(self, x: Tensor, targets: Tensor) -> Tensor:
        for stage in self.stages:
            x = stage(x)
        return self.loss(x, targets)


# ---------------------------------------------------------------- ViT


class ViTBlock(nn.Module):
    def __init__(self, dim: int, ffn: int, heads: int, dropout: float):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.norm2 = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, ffn)
        self.fc2 = nn.Linear(ffn, dim)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        b, t, d = x.size(0), x.size(1), x.size(2)
        qkv = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, d // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        a = F.scaled_dot_product_attention(q, k, v)
        x = x + self.drop(self.proj(a.transpose(1, 2).reshape(b, t, d)))
        return x + self.drop(self.fc2(F.gelu(self.fc1(self.norm2(x)))))


class ViT(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        ffn = config.ffn or 4 * config.dim
        patches = (config.image // config.patch) ** 2
        self.patch = nn.Conv2d(config.channels, config.dim, config.patch, stride=config.patch)
        self.cls = nn.Parameter(torch.zeros(1, 1, config.dim))
        self.pos = nn.Parameter(torch.zeros(1, patches + 1, config.dim))
        self.blocks = nn.ModuleList(
            [ViTBlock(config.dim, ffn, config.heads, config.dropout) for _ in range(config.layers)]
        )
        self.norm = nn.LayerNorm(config.dim)
        self.head = nn.Linear(config.dim, config.classes)

    def forward(self, images: Tensor, targets: Tensor) -> Tensor:
        x = self.patch(images).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(x.size(0), -1, -1), x], dim=1) + self.pos
        for block in self.blocks:
            x = block(x)
        return F.cross_entropy(self.head(self.norm(x)[:, 0]), targets)


# ---------------------------------------------------------------- conv net with batch norm


class ConvBlock(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.conv = nn.Conv2d(dim, dim, 3, padding=1, bias=False)
        self.bn = nn.BatchNorm2d(dim)

    def forward(self, x: Tensor) -> Tensor:
        return x + F.relu(self.bn(self.conv(x)), inplace=True)


class ConvNet(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        self.stem = nn.Conv2d(config.channels, config.dim, 3, padding=1)
        self.layers = nn.ModuleList([ConvBlock(config.dim) for _ in range(config.layers)])
        self.head = nn.Linear(config.dim, config.classes)

    def forward(self, images: Tensor, targets: Tensor) -> Tensor:
        x = F.max_pool2d(self.stem(images), 2)
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(self.head(x.mean([2, 3])), targets)


class SharedNorm(ConvNet):
    """All blocks have one batch norm: its parameters and buffers have several names."""

    def __init__(self, config: Config):
        super().__init__(config)
        for layer in self.layers[1:]:
            layer.bn = self.layers[0].bn


# ---------------------------------------------------------------- methods that are forwards


class Codec(nn.Module):
    """Has no forward, but two methods, which share a parameter."""

    forward_methods = ("encode", "decode")

    def __init__(self, dim: int):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(dim, dim) / dim**0.5)
        self.scale = nn.Linear(dim, dim)

    def encode(self, x: Tensor) -> Tensor:
        return self.scale(self.shift(F.linear(x, self.weight).tanh()))

    def shift(self, hidden: Tensor) -> Tensor:
        return hidden + 0.25

    def decode(self, hidden: Tensor) -> Tensor:
        return F.linear(hidden, self.weight.t())


class CountingCodec(Codec):
    """Has transient buffers: two that nobody writes, and two that training does."""

    def __init__(self, dim: int):
        super().__init__(dim)
        self.register_buffer("slope", torch.linspace(0.5, 1.0, dim), persistent=False)
        self.register_buffer("shifted", torch.arange(dim) % 3 > 0, persistent=False)
        self.register_buffer("mean", torch.full((dim,), 0.25), persistent=False)
        self.register_buffer("calls", torch.ones((), dtype=torch.int64), persistent=False)

    def shift(self, hidden: Tensor) -> Tensor:
        if self.training:
            self.calls.add_(1)
            self.mean.lerp_((hidden.detach() * self.slope).mean(0), 0.5)
        return torch.where(self.shifted, hidden - self.mean * self.slope / self.calls, hidden)


class Autoencoder(nn.Module):
    """Is trained by a method of its own, `entry`."""

    entry = "training_step"
    forward_methods = ("training_step",)
    make_codec = Codec

    def __init__(self, config: Config):
        super().__init__()
        ffn = config.ffn or 4 * config.dim
        self.codec = self.make_codec(config.dim)
        self.layers = nn.ModuleList([MLPBlock(config.dim, ffn) for _ in range(config.layers)])
        self.head = nn.Linear(config.dim, config.classes)

    def embed(self, x: Tensor) -> Tensor:
        x = self.codec.encode(x)
        for layer in self.layers:
            x = layer(x)
        return x

    def training_step(self, x: Tensor, targets: Tensor) -> Tensor:
        return F.cross_entropy(self.head(self.codec.decode(self.embed(x))), targets)


class CountingAutoencoder(Autoencoder):
    make_codec = CountingCodec


MODELS = {
    "mlp": MLP, "shared": Shared, "renamed": Renamed, "staged": Staged, "llama": Llama, "moe": MoE, "gpt2": GPT2,
    "vit": ViT, "convnet": ConvNet, "codec": Autoencoder, "counting": CountingAutoencoder, "functions": Functions,
    "acoustic": Acoustic, "sharednorm": SharedNorm, "derivatives": Derivatives, "contrastive": Contrastive,
    "covariance": Covariance, "tokens": Tokens, "centered": Centered, "statistics": Statistics,
    "spectral": Spectral, "paired_spectral": PairedSpectral,
}  # fmt: skip


def build(config: Config, device: Optional[str] = None) -> nn.Module:
    """The model in training mode. device "meta" gives one without values."""
    if config.model not in MODELS:
        raise ValueError(f"unknown model '{config.model}', expected one of {', '.join(MODELS)}")
    state = torch.random.get_rng_state()
    torch.manual_seed(config.seed)
    with torch.device(device or "cpu"):
        model = MODELS[config.model](config)
    if device != "meta":
        scale = 0.02 if config.model in ("llama", "moe", "gpt2", "vit") else None
        for name, parameter in model.named_parameters():
            if scale is not None and parameter.dim() >= 2:
                nn.init.normal_(parameter, std=scale)
    torch.random.set_rng_state(state)
    for pattern in config.frozen:
        found = [p for name, p in model.named_parameters() if fnmatch.fnmatchcase(name, pattern)]
        if not found:
            raise ValueError(f"no parameter of {config.model} matches '{pattern}'")
        for parameter in found:
            parameter.requires_grad_(False)
    if config.dtype != "f32":  # to() takes the real part of complex parameters
        model.to(DTYPES[config.dtype])
    return model.train()


def input_specs(config: Config) -> Dict[str, tuple]:
    """{name: (dtype, sizes)} in forward's order."""
    b = config.batch
    if config.model in ("llama", "moe", "gpt2"):
        return {"tokens": ("i64", [b, config.seq]), "targets": ("i64", [b, config.seq])}
    if config.model == "acoustic":
        return {"frames": (config.dtype, [b, config.seq, config.dim]), "labels": ("i64", [b, config.seq // 4]),
                "frame_lengths": ("i64", [b]), "label_lengths": ("i64", [b])}  # fmt: skip
    first = (
        {"x": (config.dtype, [b, config.dim])}
        if config.model not in ("vit", "convnet", "sharednorm")
        else {"images": (config.dtype, [b, config.channels, config.image, config.image])}
    )
    return {**first, "targets": ("i64", [b])}


def example_inputs(config: Config, seed: int = 1, batch: Optional[int] = None) -> Dict[str, Tensor]:
    """A batch (of `batch` samples, default config.batch), deterministic in seed. Token sequences
    are arithmetic progressions modulo the vocabulary, so that they can be learned."""
    config = dataclasses.replace(config, batch=batch or config.batch)
    generator = torch.Generator().manual_seed(seed)
    if config.model in ("llama", "moe", "gpt2"):
        rows = (config.batch, 1)
        start = torch.randint(0, config.vocab, rows, generator=generator)
        stride = torch.randint(1, 5, rows, generator=generator)
        ids = (start + stride * torch.arange(config.seq + 1)) % config.vocab
        return {"tokens": ids[:, :-1].contiguous(), "targets": ids[:, 1:].contiguous()}
    if config.model == "acoustic":
        lengths = torch.randint(config.seq // 2, config.seq + 1, [config.batch], generator=generator)
        counts = torch.randint(0, config.seq // 4 + 1, [config.batch], generator=generator)
        labels = torch.randint(1, config.classes, [config.batch, config.seq // 4], generator=generator)
        frames = torch.randn(config.batch, config.seq, config.dim, generator=generator).to(DTYPES[config.dtype])
        return {"frames": frames, "labels": labels * (torch.arange(config.seq // 4) < counts[:, None]),
                "frame_lengths": lengths, "label_lengths": counts}  # fmt: skip
    inputs = {}
    for name, (dtype, sizes) in input_specs(config).items():
        if dtype == "i64":
            inputs[name] = torch.randint(0, config.classes, sizes, generator=generator)
        else:
            inputs[name] = torch.randn(sizes, generator=generator).to(DTYPES[dtype])
    return inputs


def input_flags(config: Config) -> List[str]:
    """The --input flags of fsdp-capture."""
    flags = []
    for name, (dtype, sizes) in input_specs(config).items():
        flags += ["--input", f"{name}:{dtype}[{','.join(map(str, sizes))}]"]
    return flags

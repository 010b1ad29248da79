"""Models for tests, demo and benchmarks. Each forward takes the batch and returns the scalar loss.

    config = Config("llama", dim=64, layers=2)
    model = build(config)                    # deterministic in config.seed
    batch = example_inputs(config, seed=7)   # {"tokens": ..., "targets": ...}, in forward's order
    flags = input_flags(config)              # ["--input", "tokens:i64[4,16]", ...]

All models can be scripted, traced and exported, and built on the meta device.
"""

import dataclasses
import fnmatch
from typing import Dict, List, Optional

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import Tensor


@dataclasses.dataclass
class Config:
    """Sizes of a model. A field that a model does not have is ignored by it; None means the model's
    own default."""

    model: str = "llama"  # one of MODELS
    dim: int = 32
    layers: int = 2
    heads: int = 4
    kv_heads: Optional[int] = None  # llama, moe: key/value heads; default heads / 2
    ffn: Optional[int] = None  # hidden width; default 4 dim, llama, moe: 3 dim
    vocab: int = 128  # llama, moe, gpt2: tokens
    seq: int = 16  # llama, moe, gpt2: tokens per sample
    batch: int = 4  # samples (of one rank)
    classes: int = 10  # mlp, vit, convnet
    image: int = 16  # vit, convnet: height and width
    channels: int = 3  # vit, convnet
    patch: int = 4  # vit
    experts: int = 4  # moe: experts of a block
    active: int = 2  # moe: experts per token, on average
    dropout: float = 0.0  # gpt2, vit
    dtype: str = "f32"  # of parameters and floating-point inputs: f32 or bf16
    compute: Optional[str] = None  # llama: bf16 under f32 parameters; default dtype
    seed: int = 0
    #: Patterns of parameters that require no gradient.
    frozen: List[str] = dataclasses.field(default_factory=list)


DTYPES = {
    "f32": torch.float32,
    "bf16": torch.bfloat16,
    "f64": torch.float64,
    "i64": torch.int64,
}


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
        self.norm = nn.LayerNorm(config.dim)
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


# ---------------------------------------------------------------- Llama


class RMSNorm(nn.Module):
    def __init__(self, dim: int, eps: float = 1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        h = x.float()
        h = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + self.eps)
        return h.to(x.dtype) * self.weight.to(x.dtype)


class Projection(nn.Linear):
    """Without bias; computes in its input's dtype, whatever the weight's."""

    def __init__(self, inputs: int, outputs: int):
        super().__init__(inputs, outputs, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight.to(x.dtype))


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position embedding of x [batch, heads, seq, head_dim]; cos, sin [seq, head_dim]. The
    tables may be wider than x, whose dtype the result has."""
    a, b = x.chunk(2, dim=-1)
    return (x * cos + torch.cat([-b, a], dim=-1) * sin).to(x.dtype)


class LlamaAttention(nn.Module):
    def __init__(self, dim: int, heads: int, kv_heads: int):
        super().__init__()
        self.heads = heads
        self.kv_heads = kv_heads
        self.head_dim = dim // heads
        self.wq = Projection(dim, dim)
        self.wk = Projection(dim, kv_heads * self.head_dim)
        self.wv = Projection(dim, kv_heads * self.head_dim)
        self.wo = Projection(dim, dim)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        b, t, d = x.size(0), x.size(1), x.size(2)
        q = rotate(self.wq(x).view(b, t, self.heads, self.head_dim).transpose(1, 2), cos, sin)
        k = rotate(self.wk(x).view(b, t, self.kv_heads, self.head_dim).transpose(1, 2), cos, sin)
        v = self.wv(x).view(b, t, self.kv_heads, self.head_dim).transpose(1, 2)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.wo(a.transpose(1, 2).reshape(b, t, d))


class SwiGLU(nn.Module):
    def __init__(self, dim: int, ffn: int):
        super().__init__()
        self.w1 = Projection(dim, ffn)
        self.w3 = Projection(dim, ffn)
        self.w2 = Projection(ffn, dim)

    def forward(self, x: Tensor) -> Tensor:
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class LlamaBlock(nn.Module):
    def __init__(self, dim: int, ffn: int, heads: int, kv_heads: int):
        super().__init__()
        self.attention_norm = RMSNorm(dim)
        self.attn = LlamaAttention(dim, heads, kv_heads)
        self.ffn_norm = RMSNorm(dim)
        self.mlp = SwiGLU(dim, ffn)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.attn(self.attention_norm(x), cos, sin)
        return x + self.mlp(self.ffn_norm(x))


class Llama(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        heads = config.heads
        kv_heads = config.kv_heads or max(heads // 2, 1)
        ffn = config.ffn or 3 * config.dim
        self.tok = nn.Embedding(config.vocab, config.dim)
        self.layers = nn.ModuleList(
            [LlamaBlock(config.dim, ffn, heads, kv_heads) for _ in range(config.layers)]
        )
        self.norm = RMSNorm(config.dim)
        self.head = Projection(config.dim, config.vocab)
        self.computes_bf16 = config.compute == "bf16"
        head_dim = config.dim // heads
        inverse = 10000.0 ** (-torch.arange(0, head_dim, 2).float() / head_dim)
        angles = torch.outer(torch.arange(config.seq).float(), inverse)
        angles = torch.cat([angles, angles], dim=-1)
        self.register_buffer("cos", angles.cos())
        self.register_buffer("sin", angles.sin())

    def logits(self, tokens: Tensor) -> Tensor:
        t = tokens.size(1)
        cos, sin = self.cos[:t], self.sin[:t]
        if self.computes_bf16:
            x = F.embedding(tokens, self.tok.weight.to(torch.bfloat16))
            cos, sin = cos.to(torch.bfloat16), sin.to(torch.bfloat16)
        else:
            x = self.tok(tokens)
        for layer in self.layers:
            x = layer(x, cos, sin)
        return self.head(self.norm(x))

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        logits = self.logits(tokens).float()
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


# ---------------------------------------------------------------- mixture of experts


class Experts(nn.Module):
    """Expert choice (Zhou et al. 2022): each expert takes the tokens that score highest for it, as
    many as `active` experts per token make on average. All shapes are static."""

    def __init__(self, dim: int, ffn: int, experts: int, active: int):
        super().__init__()
        self.share = active / experts
        self.router = nn.Linear(dim, experts, bias=False)
        self.experts = nn.ModuleList([SwiGLU(dim, ffn) for _ in range(experts)])

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.reshape(-1, x.size(-1))
        capacity = int(self.share * tokens.size(0))
        scores = F.softmax(self.router(tokens).float(), dim=-1)
        weights, chosen = torch.topk(scores.transpose(0, 1), capacity, dim=-1)
        out = torch.zeros_like(tokens)
        for i, expert in enumerate(self.experts):
            y = expert(tokens.index_select(0, chosen[i])) * weights[i].unsqueeze(-1).to(x.dtype)
            out = out.index_add(0, chosen[i], y)
        return out.view_as(x)


class MoEBlock(nn.Module):
    def __init__(self, config: Config, ffn: int, kv_heads: int):
        super().__init__()
        self.attention_norm = RMSNorm(config.dim)
        self.attn = LlamaAttention(config.dim, config.heads, kv_heads)
        self.ffn_norm = RMSNorm(config.dim)
        self.mlp = Experts(config.dim, ffn, config.experts, config.active)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        x = x + self.attn(self.attention_norm(x), cos, sin)
        return x + self.mlp(self.ffn_norm(x))


class MoE(Llama):
    """A Llama whose feed-forward networks are mixtures of experts."""

    def __init__(self, config: Config):
        super().__init__(dataclasses.replace(config, layers=0))
        ffn = config.ffn or 3 * config.dim
        kv_heads = config.kv_heads or max(config.heads // 2, 1)
        self.layers = nn.ModuleList([MoEBlock(config, ffn, kv_heads) for _ in range(config.layers)])


# ---------------------------------------------------------------- GPT-2, tied


class GPT2Block(nn.Module):
    def __init__(self, dim: int, ffn: int, heads: int, dropout: float):
        super().__init__()
        self.heads = heads
        self.ln_1 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.ln_2 = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, ffn)
        self.down = nn.Linear(ffn, dim)
        self.drop = nn.Dropout(dropout)

    def forward(self, x: Tensor) -> Tensor:
        b, t, d = x.size(0), x.size(1), x.size(2)
        q, k, v = self.qkv(self.ln_1(x)).split(d, dim=2)
        q = q.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        k = k.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        v = v.view(b, t, self.heads, d // self.heads).transpose(1, 2)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.drop(self.proj(a.transpose(1, 2).reshape(b, t, d)))
        return x + self.drop(self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh")))


class GPT2(nn.Module):
    """The head's weight is the token embedding's."""

    def __init__(self, config: Config):
        super().__init__()
        ffn = config.ffn or 4 * config.dim
        self.wte = nn.Embedding(config.vocab, config.dim)
        self.wpe = nn.Embedding(config.seq, config.dim)
        self.drop = nn.Dropout(config.dropout)
        self.h = nn.ModuleList(
            [GPT2Block(config.dim, ffn, config.heads, config.dropout) for _ in range(config.layers)]
        )
        self.ln_f = nn.LayerNorm(config.dim)
        self.head = nn.Linear(config.dim, config.vocab, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, tokens: Tensor, targets: Tensor) -> Tensor:
        positions = torch.arange(tokens.size(1), device=tokens.device)
        x = self.drop(self.wte(tokens) + self.wpe(positions))
        for block in self.h:
            x = block(x)
        logits = self.head(self.ln_f(x))
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


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


MODELS = {"mlp": MLP, "shared": Shared, "llama": Llama, "moe": MoE, "gpt2": GPT2, "vit": ViT, "convnet": ConvNet}


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
    return model.to(DTYPES[config.dtype]).train()


def input_specs(config: Config) -> Dict[str, tuple]:
    """{name: (dtype, sizes)} in forward's order."""
    b = config.batch
    if config.model in ("llama", "moe", "gpt2"):
        return {"tokens": ("i64", [b, config.seq]), "targets": ("i64", [b, config.seq])}
    first = (
        {"x": (config.dtype, [b, config.dim])}
        if config.model in ("mlp", "shared")
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

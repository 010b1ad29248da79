"""Decoders of models.py: Llama, its mixture of experts, and GPT-2."""

import dataclasses

import torch
import torch.nn as nn
import torch.nn.functional as F
from config import Config
from torch import Tensor


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

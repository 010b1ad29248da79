"""Entries of the package torchao: training in low precision."""

import torch
import torch.nn as nn

from .registry import BF16, ENTRIES, SEQ, VOCAB, cross_entropy, entry, tokens


class Block(nn.Module):
    """A block of a GPT whose matrix products are all nn.Linear."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self, width=64, heads=4, layers=2):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCAB, width), nn.Embedding(SEQ, width)
        self.layers = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, VOCAB, bias=False)

    def forward(self, x):
        hidden = self.tokens(x) + self.places(torch.arange(x.shape[1], device=x.device))
        for layer in self.layers:
            hidden = layer(hidden)
        return self.head(self.norm(hidden)).transpose(1, 2)


def _gpt():
    return Gpt(), {"x": tokens(), "labels": tokens()}, cross_entropy


def _llama():
    return ENTRIES["llama"].build()


BASES = {"gpt": _gpt, "llama": _llama}


class Adapted(nn.Module):
    """A frozen linear layer with a low-rank adapter; B begins with zeros."""

    def __init__(self, base, rank=4):
        super().__init__()
        self.base = base
        self.a, self.b = nn.Linear(base.in_features, rank, bias=False), nn.Linear(rank, base.out_features, bias=False)
        nn.init.zeros_(self.b.weight)

    def forward(self, x):
        return self.base(x) + self.b(self.a(x))


def _adapted(quantize, dtype):
    """A GPT of this dtype whose blocks' linear layers are quantized by a function, and frozen; adapters train in fp32."""
    model, batch, loss = _gpt()
    model.to(dtype).requires_grad_(False)
    quantize(model.layers)
    model.requires_grad_(False)
    for layer in model.layers:
        layer.qkv, layer.up, layer.down = Adapted(layer.qkv), Adapted(layer.up), Adapted(layer.down)
    return model, batch, loss


def _linears(model):
    return [module for module in model.modules() if isinstance(module, nn.Linear)]


def _to_nf4(model):
    from torchao.quantization import NF4Tensor

    for linear in _linears(model):
        weight = NF4Tensor.from_tensor(linear.weight.detach(), block_size=64, scaler_block_size=16)
        linear.weight = nn.Parameter(weight, requires_grad=False)


def _by_config(make_config):
    def quantize(model):
        from torchao import quantization

        quantization.quantize_(model, make_config(quantization))

    return quantize


ADAPTED = {
    "nf4": _to_nf4,
    "int8": _by_config(lambda q: q.Int8WeightOnlyConfig()),
    "int4": _by_config(lambda q: q.IntxWeightOnlyConfig(weight_dtype=torch.int4)),
    "float8": _by_config(lambda q: q.Float8WeightOnlyConfig()),
}
for _name, _quantize in ADAPTED.items():
    entry(f"torchao/gpt-lora-{_name}", "torchao", traced=False)(lambda q=_quantize: _adapted(q, torch.float32))
    entry(f"torchao/gpt-lora-{_name}-bf16", "torchao", mixed_precision=BF16)(
        lambda q=_quantize: _adapted(q, torch.bfloat16)
    )


def _quantized_training():
    from torchao.prototype.quantized_training import int8_mixed_precision_training
    from torchao.quantization import quantize_

    model, batch, loss = _gpt()
    quantize_(model.layers, int8_mixed_precision_training(module_swap=True))
    return model, batch, loss


entry("torchao/gpt-int8", "torchao", traced=False)(_quantized_training)
entry("torchao/gpt-int8-bf16", "torchao", mixed_precision=BF16)(_quantized_training)


def _qat(make):
    def build():
        from torchao.quantization import qat, quantize_

        model, batch, loss = _gpt()
        quantize_(model.layers, qat.QATConfig(**make(qat), step="prepare"))
        return model, batch, loss

    return build


def _rows():
    from torchao.quantization import PerRow

    return dict(granularity=PerRow())


QAT = {
    "int8-int4": lambda q: dict(
        activation_config=q.IntxFakeQuantizeConfig(torch.int8, "per_token", is_symmetric=False),
        weight_config=q.IntxFakeQuantizeConfig(torch.int4, group_size=32),
    ),
    "int4": lambda q: dict(weight_config=q.IntxFakeQuantizeConfig(torch.int4, group_size=32)),
    "float8": lambda q: dict(activation_config=q.Float8FakeQuantizeConfig(**_rows()),
                             weight_config=q.Float8FakeQuantizeConfig(**_rows())),
}  # fmt: skip
for _name, _make in QAT.items():
    entry(f"torchao/gpt-qat-{_name}", "torchao", traced=False)(_qat(_make))
    entry(f"torchao/gpt-qat-{_name}-bf16", "torchao", mixed_precision=BF16)(_qat(_make))


@entry("torchao/gpt-qat-range-learning", "torchao", traced=False)
def _range_learning():
    """Scales and zero points are parameters."""
    from torchao.quantization import qat, quantize_

    model, batch, loss = _gpt()
    options = dict(group_size=32, is_dynamic=False, range_learning=True)
    config = qat.IntxFakeQuantizeConfig(torch.int4, **options)
    quantize_(model.layers, qat.QATConfig(weight_config=config, step="prepare"))
    qat.initialize_fake_quantizers(model, (batch["x"],))
    return model, batch, loss


def _float8(base, recipe, emulate):
    def build():
        import dataclasses

        from torchao.float8 import Float8LinearConfig, convert_to_float8_training

        config = dataclasses.replace(Float8LinearConfig.from_recipe_name(recipe), emulate=emulate)
        model, batch, loss = BASES[base]()
        convert_to_float8_training(model, config=config)
        return model, batch, loss

    return build


for _name, _recipe, _emulate in (
    ("tensorwise", "tensorwise", False),
    ("tensorwise-emulated", "tensorwise", True),
    # torch's _scaled_mm for CPUs takes one scale for a matrix.
    ("rowwise-emulated", "rowwise", True),
    ("rowwise-gw-emulated", "rowwise_with_gw_hp", True),
):
    for _base in BASES:
        entry(f"torchao/{_base}-float8-{_name}", "torchao", mixed_precision=BF16)(_float8(_base, _recipe, _emulate))

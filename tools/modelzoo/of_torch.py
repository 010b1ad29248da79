"""Entries that need only torch.nn: one for each kind of layer."""

import torch
import torch.nn as nn
import torch.nn.functional as F

from .registry import BATCH, VOCAB, cross_entropy, entry, images, tokens


class Tagger(nn.Module):
    """A recurrent or attention layer between an embedding and a head."""

    def __init__(self, body, width=32):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, 32)
        self.body = body
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        hidden = self.body(self.embedding(x))
        hidden = hidden[0] if isinstance(hidden, tuple) else hidden
        return self.head(hidden.mean(1))


def _tagger(make, width=32):
    def build():
        batch = {"x": tokens(), "labels": torch.randint(0, 10, (BATCH,))}
        return Tagger(make(), width), batch, cross_entropy

    return build


def _encoder_layer(**options):
    return lambda: nn.TransformerEncoderLayer(
        32, 4, 64, batch_first=True, **{"dropout": 0.0, **options}
    )


class SelfAttention(nn.MultiheadAttention):
    def forward(self, x):
        return super().forward(x, x, x, need_weights=False)[0]


class EncoderDecoder(nn.Transformer):
    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device)
        return super().forward(x, x, tgt_mask=mask, tgt_is_causal=True)


class Convolutions(nn.Module):
    """torch.nn's layers for images, in channels-last."""

    def __init__(self, layout):
        super().__init__()
        self.layout = layout
        self.stem = nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.GELU())
        self.block = nn.Sequential(
            nn.Conv2d(16, 16, 3, padding=1, groups=16), nn.GroupNorm(4, 16), nn.Conv2d(16, 32, 1),
            nn.SiLU(), nn.MaxPool2d(2), nn.ConvTranspose2d(32, 16, 2, stride=2), nn.AvgPool2d(2),
        )  # fmt: skip
        self.head = nn.Linear(16, 10)

    def forward(self, x):
        x = x.to(memory_format=self.layout)
        return self.head(self.block(self.stem(x)).mean((2, 3)))


class LineConvolutions(nn.Module):
    """Convolutions over one and three dimensions, of channels-last tensors: tokens."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Conv1d(32, 32, 4, padding=3, groups=32)
        self.up = nn.ConvTranspose1d(32, 16, 2, stride=2)
        self.volume = nn.Conv3d(16, 32, 3, padding=1)

    def forward(self, x):
        lines = self.up(self.mix(x.transpose(1, 2)).relu())
        return self.volume(lines[:, :, :32].unflatten(2, (4, 4, 2))).flatten(2).transpose(1, 2)


class Reader(nn.Module):
    """Uses its second input twice, as a decoder's block does with an encoder's output."""

    def __init__(self):
        super().__init__()
        self.key, self.value = nn.Linear(32, 32), nn.Linear(32, 32)

    def forward(self, x, memory):
        return x + (x * self.key(memory)).softmax(-1) * self.value(memory)


class Readers(nn.Module):
    """Blocks that share an input: the order of its gradients depends on which modules are groups."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(32, 32)
        self.blocks = nn.ModuleList(Reader() for _ in range(3))

    def forward(self, x):
        memory = self.encoder(x).tanh()
        for block in self.blocks:
            x = block(x, memory)
        return x + memory


class OnePixel(nn.Module):
    """Images that shrink to one pixel, whose strides can be read as contiguous and as channels-last."""

    def __init__(self):
        super().__init__()
        self.shrink = nn.Sequential(nn.Conv2d(32, 32, 3, 2, 1), nn.Conv2d(32, 32, 3, 2, 1, groups=32), nn.BatchNorm2d(32))
        self.mix = nn.Conv2d(32, 32, 1)

    def forward(self, x):
        image = x.transpose(1, 2).unflatten(2, (4, 4)).contiguous(memory_format=torch.channels_last)
        return x * self.mix(self.shrink(image)).flatten(1).unsqueeze(1)


class Layouts(nn.Module):
    """Operators whose results have another layout than their operands, if these are transposed or
    channels-last."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(32)
        self.mix = nn.Conv2d(16, 64, 1)
        self.out = nn.Linear(16, 32)

    def forward(self, x):
        lines = F.glu(self.norm(x.transpose(1, 2)).roll(3, 2), 1)
        image = lines.unflatten(2, (4, -1)).contiguous(memory_format=torch.channels_last)
        image = F.pixel_unshuffle(F.pixel_shuffle(self.mix(image), 2), 2)[:, :16]
        lost = F.mse_loss(lines, image.flatten(2).detach())
        return x + self.out((image.flatten(2) * lost).transpose(1, 2))


class RareOperators(nn.Module):
    """Operators whose shape rules in torch need Python, and a check of values."""

    def __init__(self):
        super().__init__()
        self.bag = nn.EmbeddingBag(VOCAB, 32, mode="mean")
        self.mix = nn.Linear(96, 32)

    def forward(self, x):
        assert (x > 0).sum().item() <= x.numel()
        bag = self.bag(torch.arange(x.shape[0] * 4, device=x.device).view(-1, 4))
        lines = F.pad(x.transpose(1, 2), (1, 1), mode="reflect").unsqueeze(2)
        patches = F.unfold(lines, (1, 3)).transpose(1, 2)
        return x.logcumsumexp(1) + self.mix(patches) + bag.unsqueeze(1)


class Experts(nn.Module):
    """Each token goes through the expert that the router chooses, by grouped matrix products."""

    def __init__(self, experts=4):
        super().__init__()
        self.router = nn.Linear(32, experts)
        self.up = nn.Parameter(torch.randn(experts, 64, 32) / 8)
        self.down = nn.Parameter(torch.randn(experts, 32, 64) / 8)

    def forward(self, x):
        tokens = x.flatten(0, 1)
        weight, choice = self.router(tokens).softmax(-1).max(-1)
        order = choice.argsort(stable=True)
        counts = F.one_hot(choice, self.up.shape[0]).sum(0)
        ends = counts.cumsum(0).to(torch.int32)
        hidden = torch._grouped_mm(tokens[order], self.up.transpose(1, 2), ends).relu()
        mixed = torch._grouped_mm(hidden, self.down.transpose(1, 2), ends)
        return x + (mixed[order.argsort()] * weight.unsqueeze(1)).view_as(x)


class ComplexRotary(nn.Module):
    """Rotary embeddings by complex numbers, as torchtitan and Llama 4 have them: a table that is a
    buffer, a computed table, and a learned complex number."""

    def __init__(self, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(32, 96)
        self.out = nn.Linear(32, 32)
        self.gain = nn.Parameter(torch.randn(4, 2))
        self.register_buffer("table", self.turns(16), persistent=False)

    @staticmethod
    def turns(positions):
        angles = torch.outer(torch.arange(positions), 100.0 ** -torch.linspace(0, 1, 4))
        return torch.polar(torch.ones_like(angles), angles)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, 8)).unbind(2)
        q, k = (torch.view_as_complex(t.float().unflatten(-1, (-1, 2))) for t in (q, k))
        gain = torch.view_as_complex(self.gain)
        q = torch.view_as_real(q * self.table[: x.shape[1], None] * gain).flatten(3)
        k = torch.view_as_real(k * self.turns(x.shape[1])[:, None] / gain.abs()).flatten(3)
        y = F.scaled_dot_product_attention(*(t.transpose(1, 2) for t in (q, k, v)), is_causal=True)
        return x + self.out(y.transpose(1, 2).flatten(2))


class Spectrum(nn.Module):
    """Phases and magnitudes of a spectrum. Derivatives of phases multiply by complex numbers."""

    def __init__(self):
        super().__init__()
        self.filter = nn.Linear(32, 32)
        self.shift = nn.Parameter(torch.randn(17))

    def forward(self, x):
        spectrum = torch.fft.rfft(self.filter(x), dim=-1)
        turned = torch.polar(spectrum.abs().log1p(), torch.angle(spectrum) + self.shift)
        return x + torch.fft.irfft(turned * torch.exp(1j * self.shift), n=32, dim=-1)


LAYERS = {
    "nn/Experts": _tagger(Experts),
    "nn/LSTM": _tagger(lambda: nn.LSTM(32, 32, 2, batch_first=True)),
    "nn/LSTM-bidirectional": _tagger(
        lambda: nn.LSTM(32, 16, batch_first=True, bidirectional=True)
    ),
    "nn/GRU": _tagger(lambda: nn.GRU(32, 32, 2, batch_first=True)),
    "nn/RNN": _tagger(lambda: nn.RNN(32, 32, batch_first=True)),
    "nn/MultiheadAttention": _tagger(lambda: SelfAttention(32, 4, batch_first=True)),
    "nn/TransformerEncoderLayer": _tagger(_encoder_layer()),
    "nn/TransformerEncoderLayer-norm-first": _tagger(_encoder_layer(norm_first=True)),
    "nn/TransformerEncoder": _tagger(
        lambda: nn.TransformerEncoder(_encoder_layer()(), 2, enable_nested_tensor=False)
    ),
    "nn/Transformer": _tagger(
        lambda: EncoderDecoder(32, 4, 1, 1, 64, dropout=0.0, batch_first=True)
    ),
    "nn/Readers": _tagger(Readers),
    "nn/Layouts": _tagger(Layouts),
    "nn/OnePixel": _tagger(OnePixel),
    "nn/RareOperators": _tagger(RareOperators),
    "nn/ComplexRotary": _tagger(ComplexRotary),
    "nn/Spectrum": _tagger(Spectrum),
    "nn/PReLU-RMSNorm": _tagger(
        lambda: nn.Sequential(nn.Linear(32, 32), nn.PReLU(), nn.RMSNorm(32))
    ),
    "nn/LineConvolutions": _tagger(LineConvolutions),
    "nn/Convolutions": images(lambda: Convolutions(torch.contiguous_format), 16),
    "nn/Convolutions-channels-last": images(lambda: Convolutions(torch.channels_last), 16),
}
for _name, _build in LAYERS.items():
    entry(_name, "torch")(_build)

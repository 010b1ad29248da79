"""A small Fourier neural operator, whose spectral weights are complex."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class SpectralConv(nn.Module):
    """Its parameters are complex, or, if `is_paired`, pairs of reals of the same values."""

    def __init__(self, width: int, modes: int, is_paired: bool):
        super().__init__()
        self.modes = modes
        weights = {"weight": torch.randn(width, width, modes, dtype=torch.complex64) / width,
                   "gain": torch.polar(torch.ones(width, 1), torch.rand(width, 1))}  # fmt: skip
        for name, value in weights.items():
            setattr(self, name, nn.Parameter(torch.view_as_real(value) if is_paired else value))

    def forward(self, x: Tensor) -> Tensor:
        weight, gain = (own if own.is_complex() else torch.view_as_complex(own) for own in (self.weight, self.gain))
        spectrum = torch.fft.rfft(x)
        mixed = torch.zeros_like(spectrum)
        mixed[..., : self.modes] = torch.einsum("bim,iom->bom", spectrum[..., : self.modes], weight) * gain
        return torch.fft.irfft(mixed, n=x.shape[-1])


class SpectralBlock(nn.Module):
    def __init__(self, width: int, modes: int, is_paired: bool):
        super().__init__()
        self.skip = nn.Conv1d(width, width, 1)
        self.spectral = SpectralConv(width, modes, is_paired)

    def forward(self, x: Tensor) -> Tensor:
        return F.gelu(self.spectral(x) + self.skip(x))


class Spectral(nn.Module):
    """Takes the samples as functions on `dim` points. Blocks have an odd number of reals before their complex numbers."""

    is_paired = False

    def __init__(self, config):
        super().__init__()
        width = config.ffn or 5
        self.lift = nn.Linear(1, width)
        self.layers = nn.ModuleList([SpectralBlock(width, 4, self.is_paired) for _ in range(config.layers)])
        self.head = nn.Linear(width, config.classes)

    def forward(self, x: Tensor, targets: Tensor) -> Tensor:
        x = self.lift(x.unsqueeze(-1)).transpose(1, 2)
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(self.head(x.mean(-1)), targets)


class PairedSpectral(Spectral):
    is_paired = True

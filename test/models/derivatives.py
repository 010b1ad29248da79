"""A model with derivatives in its forward, as of forces and gradient penalties."""

import torch
from torch import Tensor, nn


class Block(nn.Module):
    def __init__(self, dim: int):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 2 * dim)
        self.down = nn.Linear(2 * dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(torch.tanh(self.up(self.norm(x))))


class Derivatives(nn.Module):
    """Learns an energy from its values and its derivatives by the input and by a strain; the second derivative is
    penalized."""

    def __init__(self, config):
        super().__init__()
        self.layers = nn.ModuleList([Block(config.dim) for _ in range(config.layers)])
        self.head = nn.Linear(config.dim, 1)

    def energies(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.head(x).squeeze(-1)

    def forward(self, x: Tensor, targets: Tensor) -> Tensor:
        x.requires_grad_()
        strain = torch.zeros(x.shape[-1], requires_grad=True)
        energies = self.energies(x * (1 + strain))
        forces, stress = torch.autograd.grad(energies.sum(), (x, strain), create_graph=True)
        curvature, = torch.autograd.grad(forces[:, 0].sum(), x, create_graph=True)
        return ((energies - targets) ** 2).mean() + (forces**2).mean() + (stress**2).mean() + (curvature**2).mean() * 0.1

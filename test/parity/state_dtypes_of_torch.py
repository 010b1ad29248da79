"""Optimizers of torch whose state has dtypes of its own, which torch.optim's do not offer."""

import torch


def local(tensor):
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


class StateInDtypes(torch.optim.Optimizer):
    """An optimizer of torch.optim that computes in fp32: it works on widened copies of the parameters, and
    keeps what states of `dtype` can hold, a dtype's name, or names by state (else its parameter's dtype)."""

    def __init__(self, kind, groups, dtype, **options):
        super().__init__(groups, options)
        self.dtype = dtype
        self.wide = {p: local(p).detach().float() for group in groups for p in group["params"]}
        self.inner = kind(
            [{**group, "params": [self.wide[p] for p in group["params"]]} for group in groups], **options
        )

    @torch.no_grad()
    def step(self):
        for parameter, wide in self.wide.items():
            wide.copy_(local(parameter))
            wide.grad = None if parameter.grad is None else local(parameter.grad).float()
        self.inner.step()
        for parameter, wide in self.wide.items():
            local(parameter).copy_(wide)
            for name, state in self.inner.state[wide].items():
                if state is not None and state.shape == wide.shape and name != "step":
                    dtype = self.dtype.get(name) if isinstance(self.dtype, dict) else self.dtype
                    state.copy_(state.to(getattr(torch, dtype) if dtype else parameter.dtype))

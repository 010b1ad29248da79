"""Public models in small configurations, with random weights: ENTRIES, by name.

An entry's function returns (model, batch, loss): the batch of one rank by the names of forward's
arguments, and fsdpc.export's loss. Dropout is off, so that losses can be compared bit for bit.
Nothing is downloaded.
"""

import inspect

import torch

# Importing a module registers its entries, in the order of the table.
from . import of_transformers, of_specialized, of_peft, of_torchao  # noqa: F401, I001
from . import of_vision, of_torch, of_low_precision  # noqa: F401, I001
from .registry import ENTRIES


def build(name, seed=0):
    """(model in training mode, batch, loss) of an entry, deterministic in the seed."""
    torch.manual_seed(seed)
    model, batch, loss = ENTRIES[name].build()
    model.train()
    first = next(iter(batch))
    names = list(batch)
    # Classifiers take images or tokens as their first argument, whatever its name.
    if first == "x" and loss is not None:
        argument = next(iter(inspect.signature(model.forward).parameters))
        batch = {argument if name == "x" else name: batch[name] for name in names}
    return model, batch, loss


def build_step(name):
    """The same as a module whose forward takes the batch by name and returns the loss."""
    import fsdpc

    model, batch, loss = build(name)
    if getattr(getattr(model, "config", None), "use_cache", None):
        model.config.use_cache = False
    return fsdpc.as_step(model, batch, loss)

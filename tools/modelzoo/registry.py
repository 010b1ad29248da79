"""The registry of the zoo's entries, and helpers for their batches."""

import importlib.util

import torch
import torch.nn.functional as F

BATCH, SEQ, VOCAB = 2, 16, 128


class Entry:
    """An entry of the zoo. family: the package that it needs. specialize: that of fsdpc.export; such an entry has no trace,
    which would take numbers of the batch without a check."""

    def __init__(self, family, build, specialize):
        self.family, self.build, self.specialize = family, build, specialize

    def has(self, form):
        return form == "export" or not self.specialize

    def is_installed(self):
        return importlib.util.find_spec(self.family) is not None


ENTRIES = {}


def entry(name, family, specialize=False):
    """Registers the function below it as an entry; see zoo.py for what it returns."""

    def add(build):
        ENTRIES[name] = Entry(family, build, specialize)
        return build

    return add


def tokens(*shape):
    return torch.randint(0, VOCAB, shape or (BATCH, SEQ))


def cross_entropy(output, batch):
    """The loss of a classifier. Its output is the logits, alone or in a field of an output or
    dict."""
    if hasattr(output, "logits"):
        output = output.logits
    return F.cross_entropy(output.float(), batch["labels"])


def images(make, size):
    """Returns a function that builds `make`, a classifier of square images."""

    def build():
        batch = {"x": torch.randn(BATCH, 3, size, size), "labels": torch.randint(0, 10, (BATCH,))}
        return make(), batch, cross_entropy

    return build

"""The registry of the zoo's entries, and helpers for their batches."""

import importlib.util

import torch
import torch.nn.functional as F

BATCH, SEQ, VOCAB = 2, 16, 128
BF16 = dict(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)


class Entry:
    """An entry of the zoo. family: the package that it needs. specialize, mixed_precision (keywords of FSDP2's policy):
    those of fsdpc.export; entries with either have no trace, which would take numbers of the batch without a check, and
    has no casts of policies. traced: False for others without one."""

    def __init__(self, family, build, specialize=False, mixed_precision=None, traced=True):
        self.family, self.build, self.specialize = family, build, specialize
        self.mixed_precision, self.traced = mixed_precision, traced and not specialize and mixed_precision is None

    def has(self, form):
        return form == "export" or self.traced

    def policy(self):
        """FSDP2's policy of the model and its groups, or None."""
        if self.mixed_precision is None:
            return None
        from torch.distributed.fsdp import MixedPrecisionPolicy

        return MixedPrecisionPolicy(**self.mixed_precision)

    def is_installed(self):
        return importlib.util.find_spec(self.family) is not None


ENTRIES = {}


def entry(name, family, **options):
    """Registers the function below it as an entry; see zoo.py for what it returns, and Entry for options."""

    def add(build):
        ENTRIES[name] = Entry(family, build, **options)
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

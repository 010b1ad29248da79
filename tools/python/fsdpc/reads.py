"""Operators that read the number in a tensor, and operators whose shapes depend on such numbers. Where the number is known,
from constants or because the step is specialized to it, the export goes on with it."""

import contextlib

import torch
from torch._subclasses.fake_tensor import is_fake
from torch.fx.experimental import proxy_tensor
from torch.utils._python_dispatch import _disable_current_modes

from . import constants, fixed_shapes, graphs
from .replacing import replaced

_READS = (torch.ops.aten.item.default, torch.ops.aten._local_scalar_dense.default)
_EQUAL = torch.ops.aten.equal.default


class Reads:
    """The numbers that are known of one model. `example`: the batch to which the step may be specialized."""

    def __init__(self, model, example, ranks):
        self._placeholders = graphs.Placeholders(model)
        self.constants = constants.Constants(model, self._placeholders)
        self._example = example
        self._ranks = ranks

    def _specialize(self, tensor):
        return self._example.read(tensor, self._placeholders)

    def _read(self, tensor, mode):
        """The number in a tensor, if it is known, else None."""
        value = self.constants.find(tensor, mode.tracer)
        if value is not None:
            with _disable_current_modes():
                return value.item()
        if not is_fake(tensor):  # a tensor of an attribute, which torch reads
            self.constants.decisive.append(tensor)
            return None
        with mode:
            number = self._ranks.read(tensor)
            return self._specialize(tensor) if number is None else number

    def _compare(self, first, second, mode):
        if first.shape != second.shape:
            return False
        with mode:
            equal = (first == second).all()
        return self._read(equal, mode)

    def _fix_shape(self, function, args, kwargs, mode):
        def find(tensor):
            return self.constants.find(tensor, mode.tracer)

        with mode:
            return fixed_shapes.Fixer(find, self._specialize).fix(function, args, kwargs)

    def _answer(self, mode, function, args, kwargs):
        """The result of an operator, if it is known, else None."""
        if function in _READS:
            return self._read(args[0], mode)
        if function is _EQUAL:
            return self._compare(args[0], args[1], mode)
        return self._fix_shape(function, args, kwargs, mode) if function in fixed_shapes.OPERATORS else None

    @contextlib.contextmanager
    def answered(self):
        """In this context, while torch exports, reads give the numbers that are known, and operators have fixed shapes."""
        call = proxy_tensor.proxy_call

        def answer_or_call(mode, function, pre_dispatch, args, kwargs):
            answer = self._answer(mode, function, args, kwargs)
            return call(mode, function, pre_dispatch, args, kwargs) if answer is None else answer

        with self._placeholders.recorded(), replaced(proxy_tensor, "proxy_call", answer_or_call):
            yield

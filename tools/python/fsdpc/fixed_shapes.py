"""Operators whose results have shapes that depend on values. If these values are known, the operator is replaced by one of
fixed shape: by its result, or by an index. A value is known if it is computed only from constants; a number of elements also
if the step is specialized to it (specialization.py)."""

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

_aten = torch.ops.aten
#: Operators that are evaluated if all their operands are constants.
_OF_CONSTANTS = (
    _aten.index.Tensor, _aten.masked_select.default, _aten.nonzero.default, _aten.nonzero_numpy.default,
    _aten.repeat_interleave.Tensor, _aten.repeat_interleave.self_Tensor, _aten._unique2.default,
    _aten.unique_consecutive.default, _aten.unique_dim.default, _aten.where.default,
)  # fmt: skip


#: Operators whose indices may be masks.
_INDEXED = (_aten.index.Tensor, _aten.index_put.default, _aten.index_put_.default)


def _without_modes(function, *arguments, **named):
    with _disable_current_modes(), torch.no_grad():
        return function(*arguments, **named)


def _as_literals(values):
    """These tensors as literals of the program, as torch.tensor([...]) makes them."""
    return pytree.tree_map_only(torch.Tensor, _aten.lift_fresh_copy.default, values)


def _is_mask(index):
    return isinstance(index, torch.Tensor) and index.dtype == torch.bool


class Fixer:
    """find: gives the value of a tensor that is computed only from constants, else None. read: gives the number in a tensor
    to which the step is specialized, else None."""

    def __init__(self, find, read):
        self._find, self._read = find, read

    def fix(self, function, args, kwargs):
        """The operator's result by operators of fixed shapes; None if the operator remains."""
        if function in _INDEXED and not any(map(_is_mask, args[1])):
            return None
        fixed = self._evaluate(function, args, kwargs) if function in _OF_CONSTANTS else None
        rule = self._rules.get(function)
        return rule(self, function, args, kwargs) if fixed is None and rule else fixed

    def _evaluate(self, function, args, kwargs):
        """The result of an operator of constants only, else None."""
        leaves, structure = pytree.tree_flatten((args, kwargs))
        values = [self._find(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        if any(value is None and leaf is not None for value, leaf in zip(values, leaves)):
            return None
        args, kwargs = pytree.tree_unflatten(values, structure)
        return _as_literals(_without_modes(function, *args, **kwargs))

    def _find_positions(self, mask):
        """Where a tensor is not zero, by dimension, else None."""
        value = self._find(mask)
        if value is not None:
            return _as_literals([positions.clone() for positions in _without_modes(torch.nonzero, value).unbind(1)])
        size = self._read(torch.count_nonzero(mask))
        return None if size is None else list(torch.nonzero_static(mask, size=size).unbind(1))

    def _index(self, function, args, kwargs):
        """Masks of the indices become the positions where they are true."""
        if function is not _aten.index.Tensor and args[2].numel() == 1 and not args[2].requires_grad:
            return None  # the same for any number of positions
        indices = []
        for index in args[1]:
            positions = self._find_positions(index) if _is_mask(index) else [index]
            if positions is None:
                return None
            indices += positions
        return function(args[0], indices, *args[2:], **kwargs)

    def _select(self, function, args, kwargs):
        # Else the operands themselves would count as results of a broadcast from here on.
        tensor, mask = args if args[0].shape == args[1].shape else torch.broadcast_tensors(*args)
        positions = self._find_positions(mask)
        return None if positions is None else _aten.index.Tensor(tensor, positions)

    def _nonzero(self, function, args, kwargs):
        size = self._read(torch.count_nonzero(args[0]))
        return None if size is None else torch.nonzero_static(args[0], size=size)

    def _nonzero_by_dimension(self, function, args, kwargs):
        return self._find_positions(args[0])

    def _find_repeats(self, repeats):
        """The index that repeats elements so often, else None."""
        value = self._find(repeats)
        if value is not None:
            return _as_literals(_without_modes(torch.repeat_interleave, value))
        size = self._read(repeats.sum())
        return None if size is None else _aten.repeat_interleave.Tensor(repeats, output_size=size)

    def _repeat(self, function, args, kwargs):
        given = dict(zip(("self", "repeats", "dim", "output_size"), args), **kwargs)
        if given.get("output_size") is not None:
            return None
        tensor, dim = given["self"], given.get("dim")
        index = self._find_repeats(given["repeats"].expand(tensor.numel() if dim is None else tensor.shape[dim]))
        if index is None:
            return None
        return torch.index_select(tensor if dim is not None else tensor.flatten(), dim or 0, index)

    _rules = {
        **dict.fromkeys(_INDEXED, _index), _aten.masked_select.default: _select, _aten.nonzero.default: _nonzero,
        _aten.nonzero_numpy.default: _nonzero_by_dimension, _aten.where.default: _nonzero_by_dimension,
        _aten.repeat_interleave.self_Tensor: _repeat,
    }  # fmt: skip


#: The operators that Fixer may replace.
OPERATORS = frozenset((*_OF_CONSTANTS, *Fixer._rules))

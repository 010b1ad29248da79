"""Operators whose results have shapes that depend on values. If these values are computed only from constants, the
operator is replaced by one of fixed shape: by its result, or by an index of constant numbers."""

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

_aten = torch.ops.aten
#: Operators that are evaluated if all their operands are constants.
_OF_CONSTANTS = (
    _aten.index.Tensor, _aten.masked_select.default, _aten.nonzero.default, _aten.nonzero_numpy.default,
    _aten.repeat_interleave.Tensor, _aten.repeat_interleave.self_Tensor, _aten._unique2.default,
    _aten.unique_consecutive.default, _aten.unique_dim.default,
)  # fmt: skip


#: Operators whose indices may be masks.
_INDEXED = (_aten.index.Tensor, _aten.index_put.default, _aten.index_put_.default)


def _without_modes(function, *arguments, **named):
    with _disable_current_modes(), torch.no_grad():
        return function(*arguments, **named)


def _as_literals(values):
    """These tensors as literals of the program, as torch.tensor([...]) makes them."""
    return pytree.tree_map_only(torch.Tensor, _aten.lift_fresh_copy.default, values)


def _find_positions(mask):
    """By dimension, where the mask is true."""
    return [positions.clone() for positions in mask.nonzero().unbind(1)]


def _is_mask(index):
    return isinstance(index, torch.Tensor) and index.dtype == torch.bool


def _evaluated(function, args, kwargs, find):
    """The operator of constants only: a function that gives its result, else None."""
    leaves, structure = pytree.tree_flatten((args, kwargs))
    values = [find(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
    if any(value is None and leaf is not None for value, leaf in zip(values, leaves)):
        return None
    args, kwargs = pytree.tree_unflatten(values, structure)
    return lambda: _as_literals(_without_modes(function, *args, **kwargs))


def _indexed(function, args, kwargs, find):
    """The operator with masks of its indices replaced by the positions where they are true, else None."""
    indices = []
    for index in args[1]:
        value = find(index) if _is_mask(index) else None
        if _is_mask(index) and value is None:
            return None
        indices += [index] if value is None else _without_modes(_find_positions, value)
    return lambda: function(args[0], _as_literals(indices), *args[2:], **kwargs)


def _repeated(args, kwargs, find):
    """repeat_interleave by constant numbers: an index, else None."""
    repeats = find(args[1])
    if repeats is None:
        return None
    dim = args[2] if len(args) > 2 else kwargs.get("dim")
    index = _without_modes(torch.repeat_interleave, repeats)
    return lambda: torch.index_select(args[0] if dim is not None else args[0].flatten(), dim or 0, _as_literals(index))


def fix(function, args, kwargs, find):
    """A function that gives the operator's result by operators of fixed shapes; None if the operator remains. `find`
    gives the value of a tensor that is computed only from constants, else None."""
    if function in _INDEXED and not any(map(_is_mask, args[1])):
        return None
    fixed = _evaluated(function, args, kwargs, find) if function in _OF_CONSTANTS else None
    if fixed is None and function in _INDEXED:
        return _indexed(function, args, kwargs, find)
    if fixed is None and function is _aten.repeat_interleave.self_Tensor:
        return _repeated(args, kwargs, find)
    return fixed

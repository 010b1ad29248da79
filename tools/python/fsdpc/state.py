"""State that a model's Python code keeps from step to step: numbers, words and tensors in attributes, and random numbers of
Python. An exported step has none of it, so a forward that depends on such state is refused, or noted."""

import collections
import contextlib
import inspect
import random
import sys
import types

import torch
from torch._subclasses.fake_tensor import FakeTensor
from torch.utils import _pytree as pytree

from .errors import ExportError, note
from .replacing import replaced

#: Attributes that every module has: its parameters, submodules, hooks.
_OWN = vars(torch.nn.Module()).keys() - {"training"}
_PLAIN = (bool, int, float, str, type(None))
#: Subclasses do not count: they may hold more, or hold it otherwise.
_CONTAINERS = (list, tuple, dict, collections.deque, types.SimpleNamespace)


def _zeros(value):
    """The value with zeros for tensors."""
    return pytree.tree_map_only(torch.Tensor, lambda tensor: torch.zeros(tensor.shape, dtype=tensor.dtype), value)


def _contents(value):
    """A copy of a list, deque, dict or namespace, whose containers are copies and whose other values are not. What an export
    has left there are fake tensors, for which zeros stand."""
    if type(value) is types.SimpleNamespace:
        value = vars(value)
    return pytree.tree_map(lambda leaf: _zeros(leaf) if isinstance(leaf, FakeTensor) else leaf, value)


def _fill(value, contents):
    """Gives a list, deque, dict or namespace these contents."""
    if type(value) in (list, collections.deque):
        value.clear()
        value.extend(contents)
    elif type(value) in (dict, types.SimpleNamespace):
        held = value if type(value) is dict else vars(value)
        held.clear()
        held.update(contents)


class _Attributes:
    """Numbers and words in the attributes of a module, alone or in lists, tuples, deques, dicts and simple namespaces."""

    def __init__(self, module):
        held = {name: value for name, value in vars(module).items()
                if name not in _OWN and (isinstance(value, _PLAIN) or type(value) in _CONTAINERS)}  # fmt: skip
        self.copies = {name: (value, _contents(value)) for name, value in held.items()}
        self.plain = {name: [leaf for leaf in pytree.tree_leaves(contents) if isinstance(leaf, _PLAIN)]
                      for name, (_, contents) in self.copies.items()}  # fmt: skip

    def restore(self, module):
        for name, (value, contents) in self.copies.items():
            _fill(value, contents)
            vars(module)[name] = value


def _find_tensors(value):
    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _values(module):
    """Attributes of tensors, alone or in lists, tuples, deques and dicts. (Parameters and buffers are no attributes.)"""
    kinds = (torch.Tensor, list, tuple, dict, collections.deque)
    return {name: value for name, value in vars(module).items() if isinstance(value, kinds) and name not in _OWN}


def memory(tensor):
    """The same for tensors that are views of one memory, also if they are fake. Sparse tensors have several memories."""
    return tensor.untyped_storage()._cdata if tensor.layout is torch.strided else id(tensor)


class _State:
    """State of Python that a forward may change: attributes of modules, and generators of random numbers."""

    def __init__(self, model):
        self.attributes = {name: _Attributes(module) for name, module in model.named_modules()}
        self.values = {name: _values(module) for name, module in model.named_modules()}
        self.tensors = {name: {key: _find_tensors(value) for key, value in values.items()}
                        for name, values in self.values.items()}  # fmt: skip
        self.generators = {"random": random.getstate()}
        if "numpy" in sys.modules:
            kind, keys, *rest = sys.modules["numpy"].random.get_state()
            self.generators["numpy.random"] = (kind, keys.tobytes(), *rest)

    def drawn(self, later):
        return [name for name, state in self.generators.items() if later.generators.get(name) != state]

    def changed(self, later):
        """Lists the changed attributes as (module, attribute, value before, value after), without those of appeared()."""
        appeared = {(name, key) for name, key, _ in self.appeared(later)}
        return [(name, key, old, later.attributes[name].plain[key])
                for name, attributes in self.attributes.items() if name in later.attributes
                for key, old in attributes.plain.items()
                if later.attributes[name].plain.get(key, old) != old and (name, key) not in appeared]  # fmt: skip

    def carried(self, later, values):
        """Lists the attributes, as (module, attribute), whose tensors are among these and replaced by the forward."""
        read = {memory(value) for value in values if isinstance(value, torch.Tensor)}
        return [(name, key)
                for name, held in self.tensors.items() if name in later.tensors
                for key, tensors in held.items()
                if any(memory(tensor) in read for tensor in tensors)
                and list(map(id, later.tensors[name].get(key, []))) != list(map(id, tensors))]  # fmt: skip

    def appeared(self, later):
        """Lists attributes that were None, or lists, dicts and so on without tensors, and have tensors now, as (module,
        attribute, value)."""
        return [(name, key, later.values[name][key])
                for name, attributes in self.attributes.items() if name in later.values
                for key, (value, _) in attributes.copies.items()
                if (value is None or type(value) in _CONTAINERS and not self.tensors[name].get(key))
                and later.tensors[name].get(key)]  # fmt: skip

    def restore(self, model):
        for name, module in model.named_modules():
            if name in self.attributes:
                self.attributes[name].restore(module)


@contextlib.contextmanager
def _noting(model, export):
    """Yields a function that exports from a state on, and returns the program and the state after its forward.
    torch.export may run the forward several times: each time it begins with the same state."""
    forward = model.forward
    state = types.SimpleNamespace(before=None, after=None)

    def run(*arguments, **named):
        state.before.restore(model)
        kinds = _kinds_of_buffers(model)
        result = forward(*arguments, **named)
        _refuse_other_kinds(kinds, _kinds_of_buffers(model))
        state.after = _State(model)  # torch.export itself restores the root's attributes later
        return result

    def export_from(before):
        state.before = before
        return export(), state.after

    run.__signature__ = inspect.signature(forward)
    with replaced(model, "forward", run):
        yield export_from


def _kinds_of_buffers(model):
    return {name: f"{buffer.dtype} {list(buffer.shape)}" for name, buffer in model.named_buffers()}


def _refuse_other_kinds(before, after):
    for name, kind in before.items():
        if after.get(name, kind) != kind:
            raise ExportError(
                f"the forward replaces buffer '{name}', {kind}, by {after[name]}: a step keeps a buffer's dtype and shape"
            )


def values_of(program):
    """The values of a program's constants."""
    return [value.tolist() for value in program.constants.values() if isinstance(value, torch.Tensor)]


def _text(program):
    """The code and the constants of a program. With parameters and buffers they decide its results."""
    codes = [module.code for module in program.graph_module.modules() if isinstance(module, torch.fx.GraphModule)]
    return codes, values_of(program)


def _place(name):
    return f"module {name!r}" if name else "the model"


def _refuse_decisive(names):
    for name, key in names:
        raise ExportError(
            f"a branch or a shape depends on the tensor in attribute '{key}' of {_place(name)}, which the forward replaces: "
            "a step has fixed shapes and one path. Write it with torch.where, or decide it before the export"
        )


def _note_carried(before, first, program):
    for name, key in before.carried(first, program.constants.values()):
        note(f"each step begins with the tensor that attribute '{key}' of {_place(name)} has now, which the forward "
             "replaces: to keep it from step to step, make it a buffer and write it in place")  # fmt: skip


def _note_appeared(model, state, appeared, program, export_from):
    """Exports the forward that finds tensors in attributes that had none. Their values do not matter."""
    modules = dict(model.named_modules())
    for name, key, value in appeared:
        vars(modules[name])[key] = _zeros(value)
    try:
        later, _ = export_from(_State(model))
    except Exception:  # no step that could differ
        return
    if _text(program)[0] != _text(later)[0]:
        name, key, _ = appeared[0]
        what = "is None" if state.attributes[name].copies[key][0] is None else "has no tensors"
        note(f"attribute '{key}' of {_place(name)} {what} now, and each step is that of a forward which finds none "
             "there: what a forward leaves in it, the next one does not see")  # fmt: skip


def _note_counted(before, later):
    """Of attributes that change in each forward, without effect so far."""
    for name, key, old, new in before.changed(later):
        if len(old) == len(new) == 1 and isinstance(new[0], (int, float)):
            note(f"the forward changes attribute '{key}' of {_place(name)} ({old[0]}, then {new[0]}), and each step computes "
                 "what a forward does now: if it is to compute something else at some value, make it a buffer, or an input")


def repeated(model, export, decisive, quiet):
    """Returns export()'s program. If the forward changes state of Python, the model is exported once more in the new
    state, and refused if the second program differs; so are changes of `decisive`, tensors that the export has found to
    decide a branch or a shape. Numbers that change without effect so far are noted, and so are other tensors that a forward
    keeps for the next one: a training loop may reset them before each step."""
    try:
        before = _State(model)
    except RecursionError:
        raise ExportError("a list or dict in an attribute contains itself, which torch.export does not support") from None
    try:
        with _noting(model, export) as export_from:
            program, first = export_from(before)
            changed, appeared = before.changed(first), before.appeared(first)
            drawn = before.drawn(first)
            _refuse_decisive(before.carried(first, decisive))
            if changed or drawn:
                again, second = export_from(first)
                drawn = first.drawn(second)
            elif not quiet:
                _note_carried(before, first, program)
                if appeared:
                    _note_appeared(model, before, appeared, program, export_from)
    finally:
        before.restore(model)
    if drawn:
        augments = any(getattr(getattr(module, "config", None), "apply_spec_augment", False) for module in model.modules())
        raise ExportError(
            f"the forward draws random numbers by {drawn[0]}, which would be the same in each step: draw them by torch, "
            "or make them an input" + (" (set apply_spec_augment of the model's configuration to False)" if augments else "")
        )
    if changed and _text(program) != _text(again):
        name, key, *states = changed[0]
        old, new = (state[0] if len(state) == 1 else state for state in states)
        raise ExportError(
            f"the forward changes attribute '{key}' of {_place(name)} ({old}, then {new}) "
            "and computes something else then, which a step would not: make it a buffer, or an input"
        )
    if changed and not quiet:
        _note_counted(first, second)
    return program

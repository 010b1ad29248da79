"""Effects of a model's Python code beside operators: hooks, attributes, random numbers of Python. torch.export runs the
code once and records the operators only, so such effects would silently be lost, or be the same in each step. The export
refuses them, or turns them into operators."""

import contextlib
import inspect
import random
import sys
import types

import torch
from torch._dynamo import OptimizedModule
from torch._functorch import eager_transforms
from torch.utils import _pytree as pytree
from torch.utils.checkpoint import CheckpointFunction, check_backward_validity

from . import checks
from .errors import ExportError


#: Modules around a model, with the attribute that holds it.
_WRAPPERS = {torch.nn.DataParallel: "module", torch.nn.parallel.DistributedDataParallel: "module",
             OptimizedModule: "_orig_mod"}  # fmt: skip


def _refuse(what, remedy):
    frame = sys._getframe(2)
    while frame and frame.f_code.co_filename.startswith(checks.LIBRARIES):
        frame = frame.f_back
    place = f"\n  at {frame.f_code.co_filename}:{frame.f_lineno}" if frame else ""
    raise ExportError(f"{what}{place}\n  remedy: {remedy}")


def check_modules(model):
    """Refuses modules that have effects beside their operators, and models that are sharded or wrapped already."""
    for kind, name in _WRAPPERS.items():
        if isinstance(model, kind):
            raise ExportError(f"the model is wrapped in {kind.__name__}: hand over its .{name}")
    if any(hasattr(parameter, "device_mesh") for parameter in model.parameters()):
        raise ExportError("parameters of the model are sharded: export it before fully_shard")
    for name, parameter in model.named_parameters():
        if parameter._backward_hooks or parameter._post_accumulate_grad_hooks:
            raise ExportError(
                f"parameter '{name}' has hooks of its gradient, which a compiled step does not run: remove them before the "
                "export. A mask of the gradient can be written into the forward, w * mask + (w * (1 - mask)).detach(), or "
                "the optimizer leaves frozen parameters out"
            )
    for name, module in model.named_modules():
        if module._backward_hooks or module._backward_pre_hooks:
            raise ExportError(
                f"module '{name}' has hooks of its backward, which a compiled step does not run: remove them before the "
                "export, and write what they do to gradients into the forward"
            )
        if isinstance(module, torch.nn.SyncBatchNorm) and module.training:
            raise ExportError(
                f"module '{name}' is a SyncBatchNorm, whose statistics are those of all ranks: a step has no collective "
                "for them. Make it a BatchNorm, with statistics of each rank, or set it to eval()"
            )


@contextlib.contextmanager
def _replaced(owner, name, value):
    """Sets an attribute of `owner` in this context. An attribute that was inherited is inherited again afterwards."""
    missing = object()
    before = vars(owner).get(name, missing)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if before is missing:
            delattr(owner, name)
        else:
            setattr(owner, name, before)


def _refuse_hook(tensor, hook):
    _refuse("a hook of a tensor's gradient (register_hook) is no part of an exported program",
            "write it into the forward: x * s + (x * (1 - s)).detach() is x, with s times its gradient")  # fmt: skip


def _refusing_derivatives(recorder, original):
    """Allows derivatives only in the backward of a Function, whose graph has their operators (functions.py)."""

    def run(*arguments, **options):
        if recorder.is_inside:
            return original(*arguments, **options)
        _refuse("derivatives inside of the forward (torch.autograd.grad, backward, torch.func) are not supported",
                "write the derivative out by operators, or in a torch.autograd.Function")  # fmt: skip

    return run


def _is_called_by_torch():
    return checks.is_tracing(sys._getframe(2).f_code.co_filename)


def _refusing(original, what, remedy):
    """The function, which only torch may call."""

    def call(*arguments, **named):
        if not _is_called_by_torch():
            _refuse(what, remedy)
        return original(*arguments, **named)

    return call


_SEEDS = ("the forward sets the state of torch's random numbers, so that they would be the same in each step",
          "draw without it: a step's random numbers follow from its --seed; or make the numbers a buffer")  # fmt: skip


def _data():
    """A property in place of Tensor.data. torch.export loses track of `x.data`; `x.detach()` has the same values."""
    original = torch.Tensor.data

    def get(tensor):
        return original.__get__(tensor) if _is_called_by_torch() else tensor.detach()

    def assign(tensor, value):
        if not _is_called_by_torch():
            _refuse("the forward assigns .data of a tensor", "write in place: x.copy_(...) under torch.no_grad()")
        original.__set__(tensor, value)

    return property(get, assign)


def _requires_grad():
    """A property and a method in place of Tensor.requires_grad and requires_grad_, and a torch.no_grad.__exit__, which
    refuse changes of parameters, except those that torch.no_grad hides: made in its region, and undone there."""
    original, method, leave = torch.Tensor.requires_grad, torch.Tensor.requires_grad_, torch.no_grad.__exit__
    changed = {}  # parameters by identity

    def refuse():
        _refuse("the forward freezes or unfreezes a parameter",
                "freeze it before the export, or use its .detach() here; under torch.no_grad undo it before the end")  # fmt: skip

    def check(tensor, value):
        if isinstance(tensor, torch.nn.Parameter) and original.__get__(tensor) != value:
            if torch.is_grad_enabled():
                refuse()
            if changed.pop(id(tensor), None) is None:
                changed[id(tensor)] = tensor

    def assign(tensor, value):
        if not _is_called_by_torch():
            check(tensor, value)
        original.__set__(tensor, value)

    def assign_and_return(tensor, value=True):
        if not _is_called_by_torch():
            check(tensor, value)
        return method(tensor, value)

    def leave_and_check(context, *error):
        leave(context, *error)
        if torch.is_grad_enabled() and changed and error[:1] == (None,):
            for tensor in changed.values():
                original.__set__(tensor, not original.__get__(tensor))
            refuse()

    return property(original.__get__, assign), assign_and_return, leave_and_check


def _enter_inference(context):
    """Enters torch.no_grad instead: torch.export records that, but not torch.inference_mode."""
    context._had_gradients = torch.is_grad_enabled()
    torch.set_grad_enabled(not context.mode)


def _leave_inference(context, *error):
    torch.set_grad_enabled(context._had_gradients)


def _run_checkpointed(cls, function, preserve_rng_state, *arguments):
    """Runs the function without a checkpoint: the compilation chooses what is recomputed. As in torch, which warns, the
    region of a reentrant checkpoint has no gradients if none of its arguments needs one, even if its parameters do."""
    check_backward_validity(arguments)
    with contextlib.nullcontext() if _need_gradients(arguments) else torch.no_grad():
        return function(*arguments)


def _need_gradients(arguments):
    return any(isinstance(argument, torch.Tensor) and argument.requires_grad for argument in arguments)


@contextlib.contextmanager
def seen(recorder):
    """In this context effects that torch.export would lose become operators, or are refused."""
    requires_grad, requires_grad_, leave_no_grad = _requires_grad()
    with contextlib.ExitStack() as stack:
        for owner, name, value in (
            (torch.Tensor, "register_hook", _refuse_hook),
            (torch.autograd, "_engine_run_backward",
             _refusing_derivatives(recorder, torch.autograd._engine_run_backward)),
            (eager_transforms, "_jvp_with_argnums",
             _refusing_derivatives(recorder, eager_transforms._jvp_with_argnums)),
            (torch.distributed, "is_initialized", _refusing(
                torch.distributed.is_initialized,
                "the forward asks whether torch.distributed is initialized, which it is not during the export",
                "decide that before the export; a step has no collectives but those of FSDP2")),
            (torch, "manual_seed", _refusing(torch.manual_seed, *_SEEDS)),
            (torch, "set_rng_state", _refusing(torch.set_rng_state, *_SEEDS)),
            (torch.Tensor, "data", _data()),
            (torch.Tensor, "requires_grad", requires_grad),
            (torch.Tensor, "requires_grad_", requires_grad_),
            (torch.no_grad, "__exit__", leave_no_grad),
            (torch.inference_mode, "__enter__", _enter_inference),
            (torch.inference_mode, "__exit__", _leave_inference),
            (CheckpointFunction, "apply", classmethod(_run_checkpointed)),
        ):
            stack.enter_context(_replaced(owner, name, value))
        yield


#: Attributes that every module has: its parameters, submodules, hooks.
_OWN = vars(torch.nn.Module()).keys() - {"training"}
_PLAIN = (bool, int, float, str, type(None))


def _contents(value):
    """A copy of a list, dict or namespace, whose containers are copies and whose other values are not."""
    if isinstance(value, types.SimpleNamespace):
        value = vars(value)
    return pytree.tree_map(lambda leaf: leaf, value)


def _fill(value, contents):
    """Gives a list, dict or namespace these contents."""
    if isinstance(value, list):
        value[:] = contents
    elif isinstance(value, (dict, types.SimpleNamespace)):
        held = value if isinstance(value, dict) else vars(value)
        held.clear()
        held.update(contents)


class _Attributes:
    """Numbers and words in the attributes of a module, alone or in lists, tuples, dicts and simple namespaces."""

    def __init__(self, module):
        kinds = (*_PLAIN, list, tuple, dict, types.SimpleNamespace)
        held = {name: value for name, value in vars(module).items() if name not in _OWN and isinstance(value, kinds)}
        self.copies = {name: (value, _contents(value)) for name, value in held.items()}
        self.plain = {name: [leaf for leaf in pytree.tree_leaves(contents) if isinstance(leaf, _PLAIN)]
                      for name, (_, contents) in self.copies.items()}  # fmt: skip

    def restore(self, module):
        for name, (value, contents) in self.copies.items():
            _fill(value, contents)
            vars(module)[name] = value


def _tensors(module):
    """Tensors in attributes, alone or in lists, tuples and dicts. (Parameters and buffers are no attributes.)"""
    kinds = (torch.Tensor, list, tuple, dict)
    return {name: [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]
            for name, value in vars(module).items() if isinstance(value, kinds) and name not in _OWN}  # fmt: skip


def _memory(tensor):
    return tensor.untyped_storage()._cdata


class _State:
    """State of Python that a forward may change: attributes of modules, and generators of random numbers."""

    def __init__(self, model):
        self.attributes = {name: _Attributes(module) for name, module in model.named_modules()}
        self.tensors = {name: _tensors(module) for name, module in model.named_modules()}
        self.generators = {"random": random.getstate()}
        if "numpy" in sys.modules:
            kind, keys, *rest = sys.modules["numpy"].random.get_state()
            self.generators["numpy.random"] = (kind, keys.tobytes(), *rest)

    def drawn(self, later):
        return [name for name, state in self.generators.items() if later.generators.get(name) != state]

    def changed(self, later):
        """Lists the changed attributes as (module, attribute, value before, value after)."""
        return [(name, key, old, later.attributes[name].plain[key])
                for name, attributes in self.attributes.items() if name in later.attributes
                for key, old in attributes.plain.items()
                if later.attributes[name].plain.get(key, old) != old]  # fmt: skip

    def carried(self, later, program):
        """Lists the attributes, as (module, attribute), whose tensors the program reads and the forward replaces."""
        read = {_memory(value) for value in program.constants.values() if isinstance(value, torch.Tensor)}
        return [(name, key)
                for name, held in self.tensors.items() if name in later.tensors
                for key, tensors in held.items()
                if any(_memory(tensor) in read for tensor in tensors)
                and list(map(id, later.tensors[name].get(key, []))) != list(map(id, tensors))]  # fmt: skip

    def restore(self, model):
        for name, module in model.named_modules():
            if name in self.attributes:
                self.attributes[name].restore(module)


@contextlib.contextmanager
def _noting(model):
    """Yields a list of the states after each forward: torch.export itself restores the root's attributes later."""
    forward, notes = model.forward, []

    def run(*arguments, **named):
        result = forward(*arguments, **named)
        notes.append(_State(model))
        return result

    run.__signature__ = inspect.signature(forward)
    with _replaced(model, "forward", run):
        yield notes


def _text(program):
    """The code and the constants of a program. With parameters and buffers they decide its results."""
    codes = [module.code for module in program.graph_module.modules() if isinstance(module, torch.fx.GraphModule)]
    values = [value.tolist() for value in program.constants.values() if isinstance(value, torch.Tensor)]
    return codes, values


def _place(name):
    return f"module {name!r}" if name else "the model"


def repeated(model, export, quiet):
    """Returns export()'s program. If the forward changes state of Python, the model is exported once more in the new
    state, and refused if the second program differs. Tensors that a forward keeps for the next one are noted only: a
    training loop may reset them before each step."""
    before = _State(model)
    try:
        with _noting(model) as notes:
            program = export()
            first = notes[-1]
            for name, key in [] if quiet else before.carried(first, program):
                print(f"fsdpc.export: note: each step begins with the tensor that attribute '{key}' of {_place(name)} has "
                      "now, which the forward replaces: to keep it from step to step, make it a buffer and write it in "
                      "place", file=sys.stderr)  # fmt: skip
            changed = before.changed(first)
            if not changed and not before.drawn(first):
                return program
            first.restore(model)
            again = export()
            drawn = first.drawn(notes[-1])
    finally:
        before.restore(model)
    if drawn:
        raise ExportError(
            f"the forward draws random numbers by {drawn[0]}, which would be the same in each step: draw them by torch, "
            "or make them an input"
        )
    if changed and _text(program) != _text(again):
        name, key, *states = changed[0]
        old, new = (state[0] if len(state) == 1 else state for state in states)
        raise ExportError(
            f"the forward changes attribute '{key}' of {_place(name)} ({old}, then {new}) "
            "and computes something else then, which a step would not: make it a buffer, or an input"
        )
    return program

"""Effects of a model's Python code beside operators: hooks, frozen parameters, seeds. torch.export runs the code
once and records the operators only, so such effects would silently be lost, or be the same in each step. The export refuses
them, or turns them into operators. (state.py: numbers and tensors that the code keeps.)"""

import contextlib
import sys

import torch
from torch._dynamo import OptimizedModule
from torch.utils.checkpoint import CheckpointFunction, check_backward_validity

from . import checks
from .errors import ExportError
from .replacing import replaced


#: Modules around a model, with the attribute that holds it.
_WRAPPERS = {torch.nn.DataParallel: "module", torch.nn.parallel.DistributedDataParallel: "module",
             OptimizedModule: "_orig_mod"}  # fmt: skip


def refuse(what, remedy):
    raise ExportError(f"{what}\n  at {checks.find_place()}\n  remedy: {remedy}")


def check_parameters(model):
    """Refuses parameters with hooks."""
    for name, parameter in model.named_parameters():
        if parameter._backward_hooks or parameter._post_accumulate_grad_hooks:
            raise ExportError(
                f"parameter '{name}' has hooks of its gradient, which a compiled step does not run: remove them before the "
                "export. A mask of the gradient can be written into the forward: w * mask + (w * (1 - mask)).detach()"
            )


def check_modules(model, ranks):
    """Refuses modules that have effects beside their operators, and models that are sharded or wrapped already."""
    for kind, name in _WRAPPERS.items():
        if isinstance(model, kind):
            raise ExportError(f"the model is wrapped in {kind.__name__}: hand over its .{name}")
    if any(hasattr(parameter, "device_mesh") for parameter in model.parameters()):
        raise ExportError("parameters of the model are sharded: export it before fully_shard")
    for name, module in model.named_modules():
        if module._backward_hooks or module._backward_pre_hooks:
            raise ExportError(
                f"module '{name}' has hooks of its backward, which a compiled step does not run: remove them before the "
                "export, and write what they do to gradients into the forward"
            )
        if isinstance(module, torch.nn.SyncBatchNorm) and module.training:
            if ranks.number is None:
                raise ExportError(
                    f"module '{name}' is a SyncBatchNorm, whose statistics are those of all ranks\n  remedy: "
                    "fsdpc.export(..., ranks=N), with the number of ranks of the run"
                )
            if module.process_group is not None:
                raise ExportError(f"module '{name}' is a SyncBatchNorm of a group of its own: a step has that of all ranks")


def _refuse_hook(tensor, hook):
    refuse("a hook of a tensor's gradient (register_hook) is no part of an exported program",
           "write it into the forward: x * s + (x * (1 - s)).detach() is x, with s times its gradient")  # fmt: skip


def _is_called_by_torch():
    return checks.is_tracing(sys._getframe(2).f_code.co_filename)


def _refusing(original, what, remedy):
    """The function, which only torch may call."""

    def call(*arguments, **named):
        if not _is_called_by_torch():
            refuse(what, remedy)
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
            refuse("the forward assigns .data of a tensor", "write in place: x.copy_(...) under torch.no_grad()")
        original.__set__(tensor, value)

    return property(get, assign)


def _requires_grad(follow):
    """A property and a method in place of Tensor.requires_grad and requires_grad_, and a torch.no_grad.__exit__, which
    refuse changes of parameters, except those that torch.no_grad hides: made in its region, and undone there. Other
    tensors go to `follow` where they begin to require a gradient."""
    original, method, leave = torch.Tensor.requires_grad, torch.Tensor.requires_grad_, torch.no_grad.__exit__
    changed = {}  # parameters by identity

    def refuse_change():
        refuse("the forward freezes or unfreezes a parameter",
               "freeze it before the export, or use its .detach() here; under torch.no_grad undo it before the end")  # fmt: skip

    def check(tensor, value):
        if isinstance(tensor, torch.nn.Parameter) and original.__get__(tensor) != value:
            if torch.is_grad_enabled():
                refuse_change()
            if changed.pop(id(tensor), None) is None:
                changed[id(tensor)] = tensor

    def assign(tensor, value):
        if not _is_called_by_torch():
            check(tensor, value)
        begins = value and not original.__get__(tensor)
        original.__set__(tensor, value)
        if begins:
            follow(tensor)

    def assign_and_return(tensor, value=True):
        if not _is_called_by_torch():
            check(tensor, value)
        begins = value and not original.__get__(tensor)
        method(tensor, value)
        if begins:
            follow(tensor)
        return tensor

    def leave_and_check(context, *error):
        leave(context, *error)
        if torch.is_grad_enabled() and changed and error[:1] == (None,):
            for tensor in changed.values():
                original.__set__(tensor, not original.__get__(tensor))
            refuse_change()

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
def seen(derivatives):
    """In this context effects that torch.export would lose become operators, or are refused. `derivatives`: the recorder
    of derivatives.py."""
    requires_grad, requires_grad_, leave_no_grad = _requires_grad(derivatives.follow)
    with contextlib.ExitStack() as stack:
        for owner, name, value in (
            (torch.Tensor, "register_hook", _refuse_hook),
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
            stack.enter_context(replaced(owner, name, value))
        yield

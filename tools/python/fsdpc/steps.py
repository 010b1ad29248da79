"""A module whose forward takes the batch by name and returns the loss."""

import contextlib
import inspect
import types

import torch

from . import precision
from .errors import ExportError
from .replacing import replaced


def find_loss(output):
    """The scalar loss in a forward's result: the result itself, `.loss` or ["loss"] of an output of
    transformers, or the first element of a tuple."""
    if isinstance(output, dict) and "loss" in output:
        output = output["loss"]
    elif getattr(output, "loss", None) is not None:
        output = output.loss
    elif isinstance(output, (tuple, list)) and output:
        output = output[0]
    if not isinstance(output, torch.Tensor) or output.dim() != 0:
        what = list(output.shape) if isinstance(output, torch.Tensor) else type(output).__name__
        raise ExportError(
            f"the forward returns {what}, no scalar loss: give labels in the batch, or "
            "loss=function of (output, batch)"
        )
    return output


def _entry(model, method):
    """The function that takes the batch: a method by name, or a function whose first argument is
    the model."""
    if callable(method):
        return types.MethodType(method, model)
    if not callable(getattr(model, method, None)):
        raise ExportError(f"the model has no method '{method}'")
    return getattr(model, method)


def name_batch(model, batch, method="forward"):
    """The batch as a dict by the names of the arguments of forward, or of another method."""
    if isinstance(batch, dict) or hasattr(batch, "items"):
        return dict(batch.items())
    if isinstance(batch, torch.Tensor):
        batch = (batch,)
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(_entry(model, method)).parameters.values()
    names = [p.name for p in parameters if p.kind in kinds]
    if len(batch) > len(names):
        raise ExportError(
            f"the batch has {len(batch)} values, but {_name(method)} takes {len(names)}: "
            + ", ".join(names)
        )
    return dict(zip(names, batch))


def _name(method):
    return getattr(method, "__name__", method)


@contextlib.contextmanager
def _without_step(model, own):
    """A method that calls the model runs the model's `own` forward, not the step's."""
    held = vars(model)
    entry = held.pop("forward")
    if own is not None:
        held["forward"] = own
    try:
        yield
    finally:
        held["forward"] = entry


def _make_forward(model, batch, loss=None, mixed=None, method="forward", contexts=()):
    """A forward of the model that takes the batch by name and returns the scalar loss of `method`, which runs in
    `contexts`: functions that make them."""
    own, forward = vars(model).get("forward"), _entry(model, method)
    parameters = inspect.signature(forward).parameters
    takes_all = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    names = list(batch)
    given = [name for name in names if takes_all or name in parameters]
    if loss is None and len(given) < len(names):
        unknown = [name for name in names if name not in given]
        raise ExportError(
            f"{_name(method)} takes no {', '.join(unknown)}; only a loss= could use them"
        )
    positional = {
        name
        for name, p in parameters.items()
        if p.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)
    }

    places = list(mixed.places()) if mixed else []
    root = mixed.root if mixed else None

    def run_forward(leading, rest):
        with contextlib.ExitStack() as stack:
            for make in contexts:
                stack.enter_context(make())
            return forward(*leading, **rest)

    def run_mixed(leading, rest):
        mixed.begin()
        with precision.cast_parameters(places):
            if root is not None:
                leading, rest = precision.cast_arguments(root, leading, rest)
            output = run_forward(leading, rest)
        return output if root is None else precision.cast_result(root, output)

    def run(self, *values, **named):
        batch = {**dict(zip(names, values)), **named}
        leading = [batch[name] for name in given if name in positional]
        rest = {name: batch[name] for name in given if name not in positional}
        with _without_step(model, own):
            output = run_forward(leading, rest) if mixed is None else run_mixed(leading, rest)
        return find_loss(output if loss is None else loss(output, batch))

    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    run.__signature__ = inspect.Signature(
        [inspect.Parameter("self", kind), *(inspect.Parameter(name, kind) for name in names)]
    )
    return types.MethodType(run, model)


def as_step(model, batch, loss=None, method="forward"):
    """Makes the model a step, in place, and returns it: its forward takes the batch by name and returns the scalar
    loss of `method`. FSDP2 may run this module, too."""
    model.forward = _make_forward(model, batch, loss, method=method)
    return model


def running_as_step(model, *arguments):
    """A context in which the model is a step. (A copy would not do: hooks and closures hold the model.)"""
    return replaced(model, "forward", _make_forward(model, *arguments))

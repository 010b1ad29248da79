"""Operators that a model defines in Python (torch.library.custom_op). The training binary has no Python, so their
implementation and the backward of register_autograd become part of the program."""

import contextlib

import torch
from torch._library import utils
from torch._library.custom_ops import OPDEFS
from torch.fx.experimental import proxy_tensor

from .errors import ExportError


def _find_remedy(definition):
    if "grouped_mm" not in definition._qualname:
        return ""
    return ("\n  remedy: experts whose rows begin at multiples of 16 bytes, or "
            "model.set_experts_implementation('batched_mm') (transformers)")  # fmt: skip


def _find_definition(operator):
    """Returns the definition of an operator of custom_op; None for other operators, and if it writes to an argument."""
    definition = OPDEFS.get(getattr(operator, "_name", "").partition(".")[0])
    return None if definition is None or operator._schema.is_mutable else definition


def _is_composite(operator):
    """True for an operator of torch.library that is defined in Python by others, which have a backward."""
    return getattr(operator, "_defined_in_python", False) and operator._can_decompose()


def _as_function(operator, definition, options):
    """Returns a torch.autograd.Function of the positional arguments; `options` are the keyword-only arguments."""

    def forward(ctx, *arguments):
        results = definition._init_fn(*arguments, **options)
        if definition._setup_context_fn:
            filled, keywords = utils.fill_defaults(operator._schema, arguments, options)
            more = {"keyword_only_inputs": keywords} if utils.has_kwarg_only_args(operator._schema) else {}
            definition._setup_context_fn(ctx=ctx, inputs=filled, output=results, **more)
        return results

    def backward(ctx, *gradients):
        if definition._backward_fn is None:
            raise RuntimeError("it has none: give it one by register_autograd")
        return definition._backward_fn(ctx, *gradients)

    members = {"forward": staticmethod(forward), "backward": staticmethod(backward),
               "described": f"operator '{definition._qualname}', which is defined in Python,"}  # fmt: skip
    return type(definition._name, (torch.autograd.Function,), members)


@contextlib.contextmanager
def traced(recorder):
    """In this context operators that are defined in Python are recorded like Functions."""
    call = proxy_tensor.proxy_call

    def call_or_record(mode, operator, pre_dispatch, args, kwargs):
        definition = _find_definition(operator)
        if definition is None:
            if _is_composite(operator):
                with mode:
                    return operator.decompose(*args, **kwargs)
            return call(mode, operator, pre_dispatch, args, kwargs)
        if recorder.is_inside:
            with mode:
                return definition._init_fn(*args, **kwargs)
        try:
            return recorder.record(mode.tracer, _as_function(operator, definition, kwargs), args)
        except ExportError as error:
            raise ExportError(f"{error}{_find_remedy(definition)}") from error

    proxy_tensor.proxy_call = call_or_record
    try:
        yield
    finally:
        proxy_tensor.proxy_call = call

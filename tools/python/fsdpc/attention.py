"""torch.nn.attention.sdpa_kernel and the flags of torch.backends.cuda, which choose how eager torch computes
scaled_dot_product_attention. torch.export records the operator alone, and a capture chooses by the default flags."""

import contextlib
import math

import torch
from torch.fx.experimental import proxy_tensor

from .replacing import replaced

_ATTENTION = torch.ops.aten.scaled_dot_product_attention.default


def _is_in_math_form():
    """Whether the flags leave a CPU this form alone. If they leave it none, torch raises an error."""
    return torch.backends.cuda.math_sdp_enabled() and not torch.backends.cuda.flash_sdp_enabled()


@contextlib.contextmanager
def _cast_by_autocast(tensors):
    """Yields the tensors that autocast hands to the operator, inside of which it is off."""
    if not torch.is_autocast_enabled("cpu"):
        yield tensors
        return
    dtype, cast = torch.get_autocast_dtype("cpu"), (torch.float32, torch.float16, torch.bfloat16)
    tensors = [tensor.to(dtype) if getattr(tensor, "dtype", None) in cast else tensor for tensor in tensors]
    with torch.autocast("cpu", enabled=False):
        yield tensors


def _attend(query, key, value, attn_mask=None, *arguments, **options):
    with _cast_by_autocast([query, key, value, attn_mask]) as (query, key, value, mask):
        if mask is not None and mask.dtype == torch.bool:
            mask = torch.zeros_like(mask, dtype=query.dtype).masked_fill(~mask, -math.inf)
        return torch.ops.aten._scaled_dot_product_attention_math.default(query, key, value, mask, *arguments, **options)[0]


@contextlib.contextmanager
def chosen():
    """In this context attention is recorded in its math form where the flags ask for that."""
    call = proxy_tensor.proxy_call

    def call_in_form(mode, operator, pre_dispatch, args, kwargs):
        if operator is not _ATTENTION or not _is_in_math_form():
            return call(mode, operator, pre_dispatch, args, kwargs)
        # The mode of torch.export that records autocast is left while a function of torch runs.
        with mode, proxy_tensor.PreDispatchTorchFunctionMode(mode.tracer):
            return _attend(*args, **kwargs)

    with replaced(proxy_tensor, "proxy_call", call_in_form):
        yield

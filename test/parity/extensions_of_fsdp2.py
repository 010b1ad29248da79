"""FSDP2's extensions around collectives, in Python: a tensor subclass whose gathers carry 8 bits per element and a
scale per rank, a hook behind reductions, and collectives that note their calls."""

import functools

import torch
from torch import nn
from torch.utils._pytree import tree_map_only
from torch.distributed.fsdp._fully_shard._fsdp_collectives import (
    DefaultAllGather, DefaultReduceScatter,
)  # fmt: skip
from torch.distributed.tensor import DTensor

aten = torch.ops.aten


class Int8Gathered(torch.Tensor):
    """A parameter as fsdpc's `all_gather_extension: int8` has it travel."""

    #: Operators whose results are parameters again, or parts of one.
    KEPT = {
        aten.detach.default, aten.split.Tensor, aten.slice.Tensor, aten.new_zeros.default,
        aten.view.default, aten.as_strided.default,
    }  # fmt: skip

    @staticmethod
    def __new__(cls, inner, rows=None):
        return torch.Tensor._make_wrapper_subclass(
            cls, inner.size(), strides=inner.stride(), storage_offset=inner.storage_offset(),
            dtype=inner.dtype, device=inner.device,
        )  # fmt: skip

    def __init__(self, inner, rows=None):
        """`rows` of a rank's part, padding included; None until set_rows()."""
        self.inner, self.rows = inner, rows

    def __repr__(self):
        return f"Int8Gathered({self.inner})"

    __torch_function__ = torch._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, function, types, arguments, options=None):
        unwrap = functools.partial(tree_map_only, cls, lambda tensor: tensor.inner)
        result = function(*unwrap(arguments), **unwrap(options or {}))
        if function in cls.KEPT:
            rows = arguments[0].rows
            return tree_map_only(torch.Tensor, lambda inner: cls(inner, rows), result)
        if isinstance(arguments[0], cls) and result is arguments[0].inner:  # in place
            return arguments[0]
        return result

    def fsdp_pre_all_gather(self, mesh):
        part = torch.zeros((self.rows, *self.shape[1:]))
        part[: self.shape[0]] = self.inner
        scale = part.abs().amax().div(127).clamp_min(torch.finfo(torch.float32).tiny).view(1)
        return (part.div(scale).round().to(torch.int8).view(-1), scale), None

    def fsdp_post_all_gather(self, gathered, metadata, param_dtype, *, out=None):
        codes, scales = gathered
        values = codes.view(scales.numel(), -1).float() * scales.view(-1, 1)
        values = values.view(-1).to(param_dtype)
        if out is None:
            return values, (values,)
        with torch.no_grad(), torch.autograd._unsafe_preserve_version_counter(out):
            out.view(-1).copy_(values[: out.numel()])
        return None


def through_int8(parameter, ranks):
    """What so many ranks decode."""
    parts = []
    for part in parameter.split(-(-parameter.shape[0] // ranks)):
        scale = part.abs().amax().div(127).clamp_min(torch.finfo(torch.float32).tiny)
        parts.append(part.div(scale).round().to(torch.int8).float() * scale)
    return torch.cat(parts)


def wrap_parameters(model, modules):
    """Makes the parameters of these modules Int8Gathered; one that is shared stays shared."""
    chosen = {
        id(parameter): nn.Parameter(Int8Gathered(parameter.data), parameter.requires_grad)
        for module in modules
        for parameter in module.parameters()
    }
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if id(parameter) in chosen:
                module._parameters[name] = chosen[id(parameter)]


def set_rows(model, ranks):
    """Once parameters are sharded over so many ranks. Ignored ones are not, and stay plain."""
    for parameter in model.parameters():
        if isinstance(parameter, DTensor) and isinstance(parameter._local_tensor, Int8Gathered):
            parameter._local_tensor.rows = -(-parameter.shape[0] // ranks)


def shrink(reduced):
    """The hook `test_shrink` of Extensions.cpp."""
    reduced.mul_(0.5).clamp_(-0.01, 0.01)


HOOKS = {"test_shrink": shrink}


class NotedAllGather(DefaultAllGather):
    def __init__(self, notes):
        self.notes = notes

    def __call__(self, output_tensor, input_tensor, group, async_op=False):
        self.notes.append(f"all_gather {input_tensor.nbytes}")
        return super().__call__(output_tensor, input_tensor, group, async_op)


class NotedReduceScatter(DefaultReduceScatter):
    def __init__(self, notes):
        self.notes = notes

    def __call__(self, output_tensor, input_tensor, group, op, async_op=False):
        self.notes.append(f"reduce_scatter {output_tensor.nbytes}")
        return super().__call__(output_tensor, input_tensor, group, op, async_op)

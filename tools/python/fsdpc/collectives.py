"""Collectives of torch.distributed over all ranks. In a step they are the operators defined here, which the training binary has
and Python has not. The group of all ranks that a model finds while it is exported calls them, under whatever names the model
has imported torch's functions."""

import contextlib
import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.nn.functional as differentiable  # imported now: default arguments are the group of that time
from torch.distributed import _functional_collectives, c10d_logger, distributed_c10d

from . import checks
from .effects import refuse
from .replacing import replaced

_LIBRARY = torch.library.Library("fsdpc", "FRAGMENT")
_ops = torch.ops.fsdpc
#: Schema; the result's shape by the operand's shape and the second argument; second arguments that have a derivative; the
#: operand's gradient.
_OPERATORS = (
    ("all_reduce(Tensor x, str op) -> Tensor", lambda shape, op: shape, ("sum", "avg"),
     lambda gradient, ranks, op: _ops.all_reduce(gradient, op)),
    ("all_gather(Tensor x, int ranks) -> Tensor", lambda shape, ranks: [ranks, *shape], range(1, 1 << 31),
     lambda gradient, ranks, number: _ops.reduce_scatter(gradient, "sum")),
    ("reduce_scatter(Tensor x, str op) -> Tensor", lambda shape, op: shape[1:], ("sum",),
     lambda gradient, ranks, op: _ops.all_gather(gradient, ranks)),
    ("own_part(Tensor x) -> Tensor", lambda shape: shape[1:], (), None),
)  # fmt: skip


def _define(schema, find_shape, with_derivative, differentiate):
    name = f"fsdpc::{schema.partition('(')[0]}"

    def keep(ctx, inputs, output):
        ctx.ranks, ctx.more = inputs[0].shape[:1], inputs[1:]
        if not (ctx.more and ctx.more[0] in with_derivative):
            ctx.mark_non_differentiable(output)

    def backward(ctx, gradient):
        return differentiate(gradient, *ctx.ranks, *ctx.more), *[None] * len(ctx.more)

    _LIBRARY.define(schema)
    torch.library.register_fake(name, lambda x, *more: x.new_empty(find_shape(list(x.shape), *more)), lib=_LIBRARY)
    torch.library.register_autograd(name, backward, setup_context=keep, lib=_LIBRARY)


for operator in _OPERATORS:
    _define(*operator)

_FLOATS = (torch.float32, torch.float64, torch.bfloat16, torch.float16)
_DTYPES = (*_FLOATS, torch.int32, torch.int64, torch.uint8)
_GIVE_RANKS = "fsdpc.export(..., ranks=N), with the number of ranks of the run"
_OF_ALL_RANKS = ("a step has all_reduce (sum, average, maximum, minimum), all_gather, reduce_scatter and broadcast, over all "
                 "ranks")  # fmt: skip


def _name_of(op):
    if isinstance(op, str):
        return op.lower()
    return str(getattr(op, "op", op)).rpartition(".")[2].lower()  # of RedOpType.SUM


def _on_bytes(collective):
    """A collective that takes bools, too."""

    def call(x, *arguments):
        if x.dtype == torch.bool:
            return collective(x.to(torch.uint8), *arguments).to(torch.bool)
        if x.dtype not in _DTYPES:
            refuse(f"a collective of {x.dtype}", "convert it to one of " + ", ".join(map(str, _DTYPES)))
        return collective(x, *arguments)

    return call


@_on_bytes
def _gather(x, ranks):
    return _ops.all_gather(x, ranks)


def _check_reduction(x, op, names):
    if op not in names or (op == "avg" and x.dtype not in _FLOATS):
        refuse(f"a reduction by {op} of {x.dtype}", _OF_ALL_RANKS)


@_on_bytes
def _reduce(x, op):
    """MIN is exact by the maximum of the negatives, or of the complements of whole numbers."""
    _check_reduction(x, op, ("sum", "avg", "max", "min"))
    if op != "min":
        return _ops.all_reduce(x, op)
    turn = torch.neg if x.dtype in _FLOATS else torch.bitwise_not
    return turn(_ops.all_reduce(turn(x), "max"))


def _reduce_scatter(x, op):
    _check_reduction(x, op, ("sum", "avg"))
    return _on_bytes(_ops.reduce_scatter)(x, op)


def _plain(tensor):
    return tensor.detach() if tensor.requires_grad else tensor


def _write(tensor, value):
    """Overwrites a tensor behind autograd's back, as torch's collectives do."""
    _plain(tensor).copy_(value if value.shape == tensor.shape else value.reshape(tensor.shape))


class _Work:
    """What a collective with async_op=True returns."""

    def wait(self, timeout=None):
        return True

    def is_completed(self):
        return True


def _refuse_without_number(*arguments, **named):
    refuse("the forward has a collective, or asks torch.distributed for its group of ranks", _GIVE_RANKS)


#: Parts of torch between a function of torch.distributed and the model, or between two of its functions.
_DISTRIBUTED = os.path.dirname(dist.__file__) + os.sep
_BETWEEN = (_DISTRIBUTED, checks.OWN, torch.overrides.__file__)


def _find_call():
    """The name of the function of torch.distributed that is called, and the frame that calls it."""
    frame, function = sys._getframe(1), None
    while frame and (frame.f_code.co_filename.startswith(_BETWEEN) or frame.f_code.co_name == "__torch_function__"):
        path = frame.f_code.co_filename
        if path.startswith(_DISTRIBUTED) and not path.endswith("c10d_logger.py"):
            function = f"{frame.f_globals['__name__']}.{frame.f_code.co_name}".replace(".distributed_c10d", "")
        frame = frame.f_back
    return function, frame


def _refuse_call(*arguments, **named):
    refuse(f"the forward calls {_find_call()[0]}, which a step does not have", _OF_ALL_RANKS)


class _Group:
    """In place of torch's process group of all ranks. Methods without a description are those that torch.distributed calls."""

    bound_device_id = torch.device("cpu")
    group_name = group_desc = "fsdpc"

    def __init__(self, ranks):
        self._ranks = ranks

    def size(self):
        return self._ranks.number

    def rank(self):
        if _find_call()[0] not in ("torch.distributed.get_rank", "torch.distributed.get_group_rank", None):
            _refuse_call()
        return self._ranks.own()

    def allreduce(self, tensors, options):
        for tensor in tensors:
            _write(tensor, _reduce(_plain(tensor), _name_of(options.reduceOp)))
        return _Work()

    def allgather(self, outputs, inputs, options):
        for parts, tensor in zip(outputs, inputs):
            for part, row in zip(parts, self.gather(_plain(tensor)), strict=True):
                _write(part, row)
        return _Work()

    def _allgather_base(self, output, tensor, options):
        _write(output, self.gather(_plain(tensor)))
        return _Work()

    def reduce_scatter(self, outputs, inputs, options):
        for output, parts in zip(outputs, inputs):
            _write(output, self.reduce_parts(torch.stack([_plain(part) for part in parts]), _name_of(options.reduceOp)))
        return _Work()

    def _reduce_scatter_base(self, output, tensor, options):
        _write(output, self.reduce_parts(_plain(tensor), _name_of(options.reduceOp)))
        return _Work()

    def broadcast(self, tensors, options):
        for tensor in tensors:
            _write(tensor, self.send(_plain(tensor), options.rootRank))
        return _Work()

    def barrier(self, *arguments, **named):
        return _Work()

    def gather(self, x):
        """[ranks, *x.shape]."""
        return _gather(x, self._ranks.number)

    def reduce_parts(self, x, op):
        """The reduction of this rank's part of x, which are as many as ranks along the first dimension."""
        return _reduce_scatter(x.reshape(self._ranks.number, -1), op)

    def send(self, x, source):
        """x of the rank `source`."""
        if not 0 <= source < self._ranks.number:
            raise ValueError(f"broadcast from rank {source} of {self._ranks.number}")
        return _reduce(torch.where(self._ranks.make(range(self._ranks.number)) == source, x, torch.zeros_like(x)),
                       "max" if x.dtype == torch.bool else "sum")  # fmt: skip

    def __getattr__(self, name):
        if not name.startswith("__"):
            _refuse_call()
        raise AttributeError(name)


def _check_derivative(x, op, ops, what):
    if op not in ops and torch.is_grad_enabled() and x.requires_grad:
        refuse(f"{what} by {op} has no derivative", "give it the tensor's .detach()")


class _Differentiable:
    """In place of the Functions of torch.distributed.nn.functional, with their arguments."""

    def __init__(self, group):
        self._group = group
        self.functions = {
            "_AllReduce": self._all_reduce, "_AllGather": self._all_gather, "_AllGatherBase": self._all_gather_base,
            "_Reduce_Scatter": self._reduce_scatter, "_Broadcast": self._broadcast,
            **dict.fromkeys(("_Gather", "_Scatter", "_Reduce", "_AlltoAll", "_AlltoAllSingle"), _refuse_call),
        }  # fmt: skip

    def _check(self, group):
        if group is not None and group is not self._group:
            refuse("a collective of a group that is not that of all ranks", _OF_ALL_RANKS)

    def _all_reduce(self, op, group, x):
        self._check(group)
        _check_derivative(x, _name_of(op), ("sum", "avg"), "all_reduce")
        return _reduce(x, _name_of(op))

    def _all_gather(self, group, x):
        self._check(group)
        return self._group.gather(x).unbind(0)

    def _all_gather_base(self, output, x, group):
        self._check(group)
        gathered = self._group.gather(x).reshape(output.shape)
        _write(output, gathered.detach())
        return gathered

    def _reduce_scatter(self, op, group, output, *parts):
        self._check(group)
        _check_derivative(torch.stack(parts), _name_of(op), ("sum",), "reduce_scatter")
        reduced = self._group.reduce_parts(torch.stack(parts), _name_of(op)).reshape(output.shape)
        _write(output, reduced.detach())
        return reduced

    def _broadcast(self, source, group, x):
        self._check(group)
        return self._group.send(x, source)


class _Functional:
    """In place of torch.ops._c10d_functional."""

    def __init__(self, group):
        self._group = group

    def all_reduce(self, x, op, name):
        _check_derivative(x, op, ("sum",), "all_reduce")
        return _reduce(x, op)

    def all_gather_into_tensor(self, x, ranks, name):
        return self._group.gather(x).flatten(0, 1) if x.dim() else self._group.gather(x)

    def reduce_scatter_tensor(self, x, op, ranks, name):
        _check_derivative(x, op, ("sum",), "reduce_scatter")
        return self._group.reduce_parts(x, op).reshape(x.shape[0] // ranks, *x.shape[1:])

    def broadcast(self, x, source, name):
        return self._group.send(x.detach(), source)

    def wait_tensor(self, x):
        return x

    def __getattr__(self, name):
        _refuse_call()


class _Function:
    """In place of a torch.autograd.Function."""

    def __init__(self, apply):
        self.apply = apply


def _find_group(group):
    """A property in place of `dist.group.WORLD`, by which torch.distributed itself finds the group. torch's other parts find
    what they would find without an export. `group`: None if the number of ranks is not given."""
    world = type(dist.group).WORLD

    def get(owner):
        _, frame = _find_call()
        is_importing = frame and (frame.f_code.co_name == "<module>" or frame.f_code.co_filename.startswith("<frozen"))
        if frame is None or is_importing or checks.is_tracing(frame.f_code.co_filename):
            return world.fget(owner)
        if group is None:
            _refuse_without_number()
        return group

    return property(get, world.fset)


def _resolve_name(group):
    def resolve(given, tag=""):
        if given is not None and given is not group and given != group.group_name:
            refuse("a collective of a group that is not that of all ranks", _OF_ALL_RANKS)
        return group.group_name

    return resolve


def _normalize(ranks):
    """SyncBatchNorm's forward: one gather of the means and variances of all ranks, whose batches have one size."""
    original = torch.nn.SyncBatchNorm.forward

    def forward(norm, x):
        if not norm.training:
            return original(norm, x)
        norm._check_input_dim(x)
        count = ranks * x.numel() // x.shape[1]
        if count == 1:
            raise ValueError("SyncBatchNorm takes more than one value per channel")
        values = x if x.dtype == torch.float64 else x.to(torch.float32)
        dims, shape = [0, *range(2, x.dim())], [1, -1] + [1] * (x.dim() - 2)
        variance, mean = torch.var_mean(values, dims, correction=0)
        variances, means = _gather(torch.stack([variance, mean]), ranks).unbind(1)
        mean = means.mean(0)
        variance = (variances + (means - mean).square()).mean(0)
        if norm.track_running_stats:
            norm.num_batches_tracked.add_(1)
            share = 1 / norm.num_batches_tracked.double() if norm.momentum is None else norm.momentum
            for running, new in ((norm.running_mean, mean), (norm.running_var, variance * (count / (count - 1)))):
                running.copy_(running * (1 - share) + new.detach() * share)
        scale = torch.rsqrt(variance + norm.eps)
        result = (values - mean.view(shape)) * (scale if norm.weight is None else scale * norm.weight).view(shape)
        return (result if norm.bias is None else result + norm.bias.view(shape)).to(x.dtype)

    return forward


@contextlib.contextmanager
def _registered(group):
    """In this context torch.distributed knows the group as one of a backend for CPUs."""
    world = distributed_c10d._world
    world.pg_map[group] = ("gloo", None)
    world.pg_group_ranks[group] = {rank: rank for rank in range(group.size())}
    try:
        yield
    finally:
        del world.pg_map[group], world.pg_group_ranks[group]


@contextlib.contextmanager
def expressed(ranks):
    """In this context collectives of the model become operators, or are refused. `ranks`: ranks.Ranks."""
    group = None if ranks.number is None else _Group(ranks)
    functions = _Differentiable(group).functions
    if group is None:
        functions = dict.fromkeys(functions, _refuse_without_number)
    with contextlib.ExitStack() as stack:
        stack.enter_context(replaced(type(dist.group), "WORLD", _find_group(group)))
        stack.enter_context(replaced(_functional_collectives, "traceable_collective_remaps", {}))
        for name, call in functions.items():
            stack.enter_context(replaced(differentiable, name, _Function(call)))
        if group is not None:
            stack.enter_context(_registered(group))
            functional = _Functional(group)
            for owner, name, value in (
                (distributed_c10d, "_get_object_coll_device", _refuse_call),
                (c10d_logger, "_get_msg_dict", lambda *arguments, **named: {}),  # of a call that failed
                (distributed_c10d, "_get_group_size_by_name", lambda name: ranks.number),
                (_functional_collectives, "_resolve_group_name", _resolve_name(group)),
                (_functional_collectives, "_are_we_tracing", lambda: True),
                (_functional_collectives, "_FromTorchTensor", _Function(lambda x: x)),
                (torch.ops, "_c10d_functional", functional),
                (torch.ops, "_c10d_functional_autograd", functional),
                (torch.nn.SyncBatchNorm, "forward", _normalize(ranks.number)),
            ):
                stack.enter_context(replaced(owner, name, value))
            stack.enter_context(ranks.indexing())
        yield

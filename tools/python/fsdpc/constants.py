"""Values that a model computes only from constants, such as the positions of its tokens. They are the same in every
step, so a branch on them is decided when the model is exported, and so are shapes that depend on them."""

import contextlib
import operator
import sys

import torch
from torch.fx.experimental import proxy_tensor
from torch.utils._python_dispatch import _disable_current_modes

from . import constant_shapes

_READS = (torch.ops.aten.item.default, torch.ops.aten._local_scalar_dense.default)


def _sources(nodes):
    """These nodes, and all nodes from which they are computed."""
    found, waiting = set(), list(nodes)
    while waiting:
        node = waiting.pop()
        if node not in found:
            found.add(node)
            waiting += node.all_input_nodes
    return found


def _may_write(node):
    if node.target is torch.ops.aten.detach_.default:  # of torch.tensor([...])
        return False
    if isinstance(node.target, torch._ops.OpOverload):
        return node.target._schema.is_mutable
    return isinstance(node.target, torch._ops.HigherOrderOperator)


def _is_literal(node):
    """True for a tensor of the code, torch.tensor([...])."""
    return node.op == "get_attr" and str(node.target).startswith("_tensor_constant")


def _is_repeatable(node):
    """True if the node always gives the same result for the same operands. Inputs, parameters and buffers do not,
    and for operators of other libraries it is unknown."""
    if _is_literal(node):
        return True
    if node.target is operator.getitem:
        return True
    return (isinstance(node.target, torch._ops.OpOverload) and node.target.namespace == "aten"
            and not _may_write(node) and torch.Tag.nondeterministic_seeded not in node.target.tags)  # fmt: skip


def _find_constant(tensor, tracer):
    """The node of a tensor that is computed only from constants, and all nodes of that computation; else (None,
    None)."""
    slot = proxy_tensor.get_proxy_slot(tensor, tracer, None)
    if slot is None or tensor.device.type == "meta":
        return None, None
    node = slot.proxy.node
    sources = _sources([node])
    # A write also changes other views of its operand, so nodes that take part in a write are
    # excluded.
    written = _sources(filter(_may_write, tracer.graph.nodes))
    if not all(map(_is_repeatable, sources)) or not sources.isdisjoint(written):
        return None, None
    return node, sources


def _is_constant(tensor):
    mode = proxy_tensor.get_proxy_mode()
    return mode is not None and _find_constant(tensor, mode.tracer)[0] is not None


def find_value(tensor, tracer):
    """The value of a tensor that is computed only from constants, else None."""
    node, sources = _find_constant(tensor, tracer)
    if node is None:
        return None
    values = {}
    with _disable_current_modes(), torch.no_grad():
        for source in node.graph.nodes:
            if source in sources and _is_literal(source):
                values[source] = getattr(tracer.root, source.target)
            elif source in sources:
                arguments, options = torch.fx.map_arg((source.args, source.kwargs), values.__getitem__)
                values[source] = source.target(*arguments, **options)
    return values[node]


@contextlib.contextmanager
def known():
    """In this context, while torch exports, reading a tensor that is computed only from constants
    gives its value, and operators whose shapes depend on such tensors have fixed shapes."""
    call = proxy_tensor.proxy_call

    def call_or_evaluate(mode, function, pre_dispatch, args, kwargs):
        def find(tensor):
            return find_value(tensor, mode.tracer)

        if function in _READS:
            value = find(args[0])
            if value is not None:
                with _disable_current_modes():
                    return value.item()
        fixed = constant_shapes.fix(function, args, kwargs, find)
        if fixed is not None:
            with mode:
                return fixed()
        return call(mode, function, pre_dispatch, args, kwargs)

    proxy_tensor.proxy_call = call_or_evaluate
    try:
        yield
    finally:
        proxy_tensor.proxy_call = call


@contextlib.contextmanager
def as_real_tensors():
    """In this context transformers does not treat a tensor of constants as traced: it reads the values, as in
    training, and omits a mask that masks nothing. A tensor that depends on inputs still counts as traced."""
    utilities = sys.modules.get("transformers.utils.import_utils")
    is_fake = getattr(utilities, "is_fake_tensor", None)
    if is_fake is None:
        yield
        return
    utilities.is_fake_tensor = lambda x: is_fake(x) and not _is_constant(x)
    try:
        yield
    finally:
        utilities.is_fake_tensor = is_fake

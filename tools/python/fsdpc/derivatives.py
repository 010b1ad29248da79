"""Derivatives in a forward: forces, gradient penalties, residuals of differential equations. torch.export would record the
operators that autograd runs for them, but not how these depend on the forward's values. Here each call of
torch.autograd.grad becomes one node of the program, for which lib/Frontend/ExportedDerivatives.cpp calls autograd again."""

import contextlib

import torch
from torch.fx.experimental.proxy_tensor import (disable_proxy_modes_tracing, get_proxy_mode, get_proxy_slot,
                                                track_tensor_tree)  # fmt: skip
from torch.utils import _pytree as pytree

from .checks import format_caller
from .effects import refuse
from .replacing import replaced


class _Operator(torch._ops.HigherOrderOperator):
    def __call__(self, **named):
        raise NotImplementedError("a program of fsdpc.export with derivatives in its forward is run by fsdpc alone")


#: derivatives(outputs, gradients, inputs, create_graph): as torch.autograd.grad, with the gradients of all outputs.
_DERIVATIVES = _Operator("derivatives")
#: requires_grad(tensor): from here on autograd follows the tensor, which no operator with a gradient has computed.
_REQUIRES_GRAD = _Operator("requires_grad")


def _is_recorded(tensor):
    """False for tensors of the code, and for subclasses, whose inner tensors are recorded."""
    return get_proxy_slot(tensor, get_proxy_mode().tracer, None) is not None


def _record(operator, results, named):
    """Adds a node; the tensors `results` are its results from here on."""
    tracer = get_proxy_mode().tracer
    proxies = pytree.tree_map(tracer.unwrap_proxy, named)
    proxy = tracer.create_proxy("call_function", operator, (), proxies)
    proxy.node.meta["stack_trace"] = format_caller()
    track_tensor_tree(results, proxy, constant=None, tracer=tracer)


def _follow_from_its_beginning(tensor):
    """Adds a node behind the one that made the tensor, which required a gradient from the beginning."""
    tracer = get_proxy_mode().tracer
    made = get_proxy_slot(tensor, tracer).proxy
    followed = tracer.create_proxy("call_function", _REQUIRES_GRAD, (), {"tensor": made})
    begin = made.node.next
    while begin.op == "placeholder":
        begin = begin.next
    begin.prepend(followed.node)
    made.node.replace_all_uses_with(followed.node, lambda user: user is not followed.node)
    track_tensor_tree(tensor, followed, constant=None, tracer=tracer)


class Recorder:
    """Records derivatives and the tensors by which they are taken."""

    def __init__(self, functions):
        self.functions = functions  # functions._Recorder
        self.followed = {}  # tensors of requires_grad nodes, by identity

    def follow(self, tensor):
        """Called where autograd begins to follow a tensor."""
        is_known = isinstance(tensor, torch.nn.Parameter) or id(tensor) in self.followed
        if is_known or get_proxy_mode() is None or self.functions.is_inside or not _is_recorded(tensor):
            return
        self.followed[id(tensor)] = tensor
        _record(_REQUIRES_GRAD, tensor, {"tensor": tensor})

    def find(self, original, outputs, gradients, create_graph, inputs, allow_unused):
        """In the place of `original`, which runs autograd."""
        self.functions.is_inside = True
        try:
            with torch._C.DisableTorchFunction(), disable_proxy_modes_tracing():
                found = original(outputs, gradients, True, create_graph, inputs, allow_unused, False)
        finally:
            self.functions.is_inside = False
        for tensor in inputs:
            if tensor.is_leaf and not isinstance(tensor, torch.nn.Parameter) and id(tensor) not in self.followed:
                if not _is_recorded(tensor):
                    refuse("a derivative by a tensor that no operator of the forward has made", "make it by torch.zeros, say")
                self.followed[id(tensor)] = tensor
                _follow_from_its_beginning(tensor)
        used = [(tensor, result) for tensor, result in zip(inputs, found) if result is not None]
        given = [(output, gradient) for output, gradient in zip(outputs, gradients) if gradient is not None]
        if used:
            _record(_DERIVATIVES, tuple(result for _, result in used),
                    {"outputs": [output for output, _ in given], "gradients": [gradient for _, gradient in given],
                     "inputs": [tensor for tensor, _ in used], "create_graph": bool(create_graph)})  # fmt: skip
        return found


@contextlib.contextmanager
def recorded(functions):
    """In this context derivatives become nodes of the program. Yields the recorder."""
    recorder = Recorder(functions)
    original = torch.autograd._engine_run_backward

    def find(outputs, gradients, retain_graph, create_graph, inputs=(), allow_unreachable=False, accumulate_grad=False):
        if functions.is_inside or get_proxy_mode() is None:
            return original(outputs, gradients, retain_graph, create_graph, inputs, allow_unreachable, accumulate_grad)
        if accumulate_grad:
            refuse("backward() inside of the forward, which adds to .grad, is not supported",
                   "write it by torch.autograd.grad(..., create_graph=True)")  # fmt: skip
        return recorder.find(original, outputs, gradients, create_graph, inputs, allow_unreachable)

    with replaced(torch.autograd, "_engine_run_backward", find):
        yield recorder


def finish(program):
    """Removes nodes that only derivatives need from programs without any."""
    graphs = [module.graph for module in program.graph_module.modules() if isinstance(module, torch.fx.GraphModule)]
    if any(node.target is _DERIVATIVES for graph in graphs for node in graph.nodes):
        return
    for graph in graphs:
        for node in graph.find_nodes(op="call_function", target=_REQUIRES_GRAD):
            node.replace_all_uses_with(node.kwargs["tensor"])
            graph.erase_node(node)

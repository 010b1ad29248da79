"""torch.autograd.Function: torch.export keeps the operators of its forward and drops its backward. In this package each
call of a Function becomes one node of the program. The node's operator holds a graph of the forward and a graph of the
backward, which lib/Frontend/ExportedFunction.cpp runs."""

import contextlib

import torch
from torch.fx.experimental.proxy_tensor import (disable_proxy_modes_tracing, get_proxy_mode, make_fx,
                                                track_tensor_tree)  # fmt: skip
from torch.utils import _pytree as pytree
from torch.overrides import _len_torch_function_stack, _pop_mode, _push_mode
from torch.utils._python_dispatch import _disable_current_modes

from . import subclasses
from .checks import format_caller
from .errors import ExportError


class _Operator(torch._ops.HigherOrderOperator):
    """autograd_function(forward, backward, *operands, differentiable): _Tracer describes the two graphs, `differentiable`
    is a list of bools, one for each output."""

    def __init__(self):
        super().__init__("autograd_function")

    def __call__(self, forward, backward, *operands, differentiable):
        raise NotImplementedError("a program of fsdpc.export with a torch.autograd.Function is run by fsdpc alone")


_OPERATOR = _Operator()
#: The class whose apply() every Function calls. Replacing it also reaches models that bind the apply() of their own
#: Function when they are imported (`scan = Scan.apply`).
_BASE = torch.autograd.function._SingleLevelFunction
#: Modules of torch whose Functions have a backward of their own. Of torch's other Functions, such as those of
#: checkpoints, autograd derives the backward from the operators of the forward.
_WITH_BACKWARD = ("torch.nn.modules._functions", "torch.nn.parallel", "torch.distributed", "torch.distributions",
                  "torch._lobpcg")  # fmt: skip


@contextlib.contextmanager
def _without_autocast():
    """Disables autocast, since a backward does not run under the autocast of its forward; custom_bwd enables it again."""
    enabled = [device for device in ("cpu", "cuda") if torch.is_autocast_enabled(device)]
    for device in enabled:
        torch.set_autocast_enabled(device, False)
    try:
        yield
    finally:
        for device in enabled:
            torch.set_autocast_enabled(device, True)


@contextlib.contextmanager
def _without_function_modes():
    """Leaves the modes of torch functions, of which torch.export has some. Functions of tensor subclasses stay."""
    modes = [_pop_mode() for _ in range(_len_torch_function_stack())]
    try:
        yield
    finally:
        for mode in reversed(modes):
            _push_mode(mode)


class _Context(torch.autograd.function.FunctionCtx):
    """The `ctx` of a traced forward or backward."""

    saved_tensors = ()
    needs_input_grad = ()


def _is_tensor(value):
    return isinstance(value, torch.Tensor)


def _flatten(tensor):
    """The plain tensors in a tensor, and a function that makes it of the next tensors of an iterator."""
    if not subclasses.is_subclass(tensor):
        return [tensor], next
    tensors, make = subclasses.flatten(tensor)
    return list(tensors.values()), make


def _needs_gradient(arguments):
    return torch.is_grad_enabled() and any(_is_tensor(value) and value.requires_grad for value in arguments)


class _Leaves:
    """The plain tensors in nested values and in tensor subclasses, in order. `fill` returns the nested values with other
    tensors."""

    def __init__(self, values):
        self.values, self.spec = pytree.tree_flatten(values)
        self.tensors, self.makers = [], {}
        for at, value in enumerate(self.values):
            if _is_tensor(value):
                tensors, self.makers[at] = _flatten(value)
                self.tensors += tensors

    def fill(self, tensors):
        values, tensors = list(self.values), iter(tensors)
        for at, make in self.makers.items():
            values[at] = make(tensors)
        return pytree.tree_unflatten(values, self.spec)


class _Tracer:
    """Traces forward and backward of one call of a Function. `has_backward`: an argument needs a gradient."""

    def __init__(self, function, arguments, has_backward, ranks):
        self.function = function
        self.ranks = ranks
        self.has_backward = has_backward
        self.arguments = _Leaves(arguments)
        self.operands = self.arguments.tensors

    def fail(self, reason):
        name = f"torch.autograd.Function '{self.function.__module__}.{self.function.__qualname__}'"
        raise ExportError(f"{getattr(self.function, 'described', name)} {reason}")

    def _check_plain(self, what, results):
        for value in filter(subclasses.is_subclass, results):
            self.fail(f"has a {what} that returns a {type(value).__name__}, a tensor subclass: return plain tensors")

    def trace_forward(self):
        """Returns a graph from the operands to the outputs, followed by the tensors that the backward needs."""
        return self._trace("forward", self._run_forward, self.operands)

    def _run_forward(self, *operands):
        arguments = self.arguments.fill(operands)
        context = _Context()
        context.needs_input_grad = tuple(_is_tensor(value) and value.requires_grad for value in arguments)
        if self.function.setup_context is _BASE.setup_context:
            outputs = self.function.forward(context, *arguments)
        else:
            outputs = self.function.forward(*arguments)
            self.function.setup_context(context, tuple(arguments), outputs)
        if getattr(context, "dirty_tensors", ()):
            self.fail("writes to an argument (mark_dirty): return a new tensor")
        self.outputs = list(outputs) if isinstance(outputs, (tuple, list)) else [outputs]
        tensors = [value for value in self.outputs if _is_tensor(value)]
        self._check_plain("forward", tensors)
        if not getattr(context, "materialize_grads", True) and len(tensors) > 1:
            self.fail("has several outputs and set_materialize_grads(False): which of their gradients are None "
                      "is not known at export")  # fmt: skip
        constants = {id(value) for value in getattr(context, "non_differentiable", ())}
        self.differentiable = [id(value) not in constants for value in tensors]
        self.saved = _Leaves(dict(vars(context)) if self.has_backward else {})
        self.saved_numbers = [self.ranks.find(tensor) for tensor in self.saved.tensors]
        return (*tensors, *self.saved.tensors)

    def trace_backward(self, results):
        """Returns a graph from the outputs' gradients, followed by the saved tensors, to the operands' gradients.
        `results` are the results of the forward's graph."""
        count = len(self.differentiable)
        gradients = [torch.empty_like(output) for output in results[:count]]
        with _without_autocast():
            return self._trace("backward", self._run_backward, [*gradients, *results[count:]])

    def _run_backward(self, *tensors):
        if not self.has_backward:
            return (None,) * len(self.operands)
        incoming = iter(tensors)
        gradients = [next(incoming) if _is_tensor(value) else None for value in self.outputs]
        context = _Context()
        vars(context).update(self.saved.fill([tensor if numbers is None else self.ranks.make(numbers)
                                              for tensor, numbers in zip(incoming, self.saved_numbers)]))  # fmt: skip
        context.saved_tensors = getattr(context, "to_save", None) or ()
        results = self.function.backward(context, *gradients)
        results = list(results) if isinstance(results, (tuple, list)) else [results]
        self._check_plain("backward", results)
        arguments = self.arguments.fill(self.operands)
        if len(results) < len(arguments) or any(r is not None for r in results[len(arguments):]):
            self.fail(f"has a backward that returns {len(results)} gradients, expected {len(arguments)}")
        by_operand = []
        for argument, result in zip(arguments, results):
            tensors = _Leaves(argument).tensors
            if _is_tensor(argument) and argument.requires_grad:
                if len(tensors) != 1:
                    self.fail(f"has a {type(argument).__name__} that requires a gradient")
                by_operand.append(result)
            else:  # autograd ignores tensors in lists and dicts
                by_operand += [None] * len(tensors)
        return tuple(by_operand)

    def _trace(self, what, run, tensors):
        def trace():
            return make_fx(run, _allow_non_fake_inputs=True, record_stack_traces=True)(*tensors)

        try:
            graph = self.ranks.merge(trace, tensors) if what == "backward" else trace()
        except ExportError:
            raise
        except Exception as error:
            self.fail(f"has a {what} that cannot be traced: {str(error).splitlines()[0]}")
        for node in graph.graph.nodes:
            if node.op == "get_attr":
                _write_number(graph, node, self)
        graph.graph.eliminate_dead_code(lambda node: node.op in ("placeholder", "output") or _writes(node))
        graph.recompile()
        return graph


def _writes(node):
    return getattr(getattr(node.target, "_schema", None), "is_mutable", False)


def _write_number(graph, node, tracer):
    """Replaces a number that the code has as a tensor, such as `torch.tensor(2.0)`, by a literal. Other tensors that are
    not arguments have no place in the program."""
    tensor = getattr(graph, node.target)
    if not _is_tensor(tensor) or tensor.dim() or isinstance(tensor, torch._subclasses.FakeTensor):
        tracer.fail("reads a tensor that is none of its arguments: pass it to apply()")
    with _disable_current_modes():
        number = tensor.item()
    with graph.graph.inserting_before(node):
        literal = graph.graph.call_function(torch.ops.aten.scalar_tensor.default, (number,),
                                            {"dtype": tensor.dtype})  # fmt: skip
    literal.meta["val"] = tensor
    node.replace_all_uses_with(literal)
    graph.graph.erase_node(node)


def _register(tracer, name, graph):
    number = 0
    while hasattr(tracer.root, f"{name}_{number}"):
        number += 1
    tracer.root.register_module(f"{name}_{number}", graph)


class _Recorder:
    """Replaces Function.apply during the export."""

    def __init__(self, ranks):
        self.ranks = ranks
        self.is_inside = False  # True while the graphs of a Function are traced

    def apply(self, function, arguments, options):
        mode = get_proxy_mode()
        module = function.__module__
        has_derivative = module.startswith("torch.") and not module.startswith(_WITH_BACKWARD)
        is_plain = self.is_inside or has_derivative or not _needs_gradient(arguments)
        if mode is None or is_plain:
            return super(_BASE, function).apply(*arguments, **options)
        return self.record(mode.tracer, function, arguments)

    def record(self, tracer, function, arguments):
        """Adds a call of the function to the program; returns its outputs."""
        has_backward = _needs_gradient(arguments)
        self.is_inside = True
        try:
            # The operators that run here belong to the graphs of the Function, not to the program itself.
            with _without_function_modes(), disable_proxy_modes_tracing():
                outputs = super(_BASE, function).apply(*arguments)
                with torch.no_grad():
                    call = _Tracer(function, arguments, has_backward, self.ranks)
                    forward = call.trace_forward()
                    backward = call.trace_backward(forward(*call.operands))
        finally:
            self.is_inside = False
        for name, graph in (("function_forward", forward), ("function_backward", backward)):
            _register(tracer, name, graph)
        operands = pytree.tree_map(tracer.unwrap_proxy, tuple(call.operands))
        proxy = tracer.create_proxy("call_function", _OPERATOR, (forward, backward, *operands),
                                    {"differentiable": call.differentiable}, name=function.__name__)  # fmt: skip
        proxy.node.meta["stack_trace"] = format_caller()
        track_tensor_tree(tuple(_Leaves(outputs).tensors), proxy, constant=None, tracer=tracer)
        return outputs


def place(program):
    """Assigns the operators of each Function to the module that calls it: its graphs are traced outside of modules."""
    for module in program.graph_module.modules():
        for node in getattr(module, "graph", torch.fx.Graph()).nodes:
            if node.target is _OPERATOR:
                for held in node.args[:2]:
                    for inner in getattr(module, held.target).graph.nodes:
                        inner.meta["nn_module_stack"] = node.meta["nn_module_stack"]


@contextlib.contextmanager
def kept(ranks):
    """In this context Functions keep their backward in the exported program. Yields the recorder."""
    recorder = _Recorder(ranks)
    _BASE.apply = classmethod(lambda function, *arguments, **options: recorder.apply(function, arguments, options))
    try:
        yield recorder
    finally:
        del _BASE.apply

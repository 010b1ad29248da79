"""Values that a model computes only from constants, such as the positions of its tokens. They are the same in every
step, so a branch on them is decided when the model is exported, and so are shapes that depend on them."""

import contextlib
import operator
import sys

import torch
from torch._subclasses.fake_tensor import is_fake
from torch.fx.experimental import proxy_tensor
from torch.utils._python_dispatch import _disable_current_modes

from . import constant_shapes
from .effects import replaced
from .errors import ExportError
from .state import memory

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
    """True if the node always gives the same result for the same operands. Inputs and parameters do not, and for
    operators of other libraries it is unknown."""
    if node.target is operator.getitem:
        return True
    return (isinstance(node.target, torch._ops.OpOverload) and node.target.namespace == "aten"
            and not _may_write(node) and torch.Tag.nondeterministic_seeded not in node.target.tags)  # fmt: skip


def _find_written(graph):
    """The nodes that take part in a write, which also changes other views of its operand."""
    return _sources(filter(_may_write, graph.nodes))


def _transient_buffers(model):
    """The buffers that are not persistent and have memory of their own, by name. No file and no optimizer changes them."""
    owners = {}
    for tensor in (*model.parameters(), *model.buffers()):
        owners.setdefault(memory(tensor), set()).add(id(tensor))
    found = {f"{prefix}.{name}" if prefix else name: module._buffers[name]
            for prefix, module in model.named_modules(remove_duplicate=False)
            for name in module._non_persistent_buffers_set
            if module._buffers.get(name) is not None and not module._buffers[name].is_meta}  # fmt: skip
    return {name: buffer for name, buffer in found.items() if len(owners[memory(buffer)]) == 1}


class Constants:
    """The constants of one model."""

    def __init__(self, model):
        self._model = model
        self._buffers = _transient_buffers(model)
        self._decisive_buffers = {}  # names by node
        #: Other tensors whose values have decided a branch or a shape.
        self.decisive = []

    def _buffer_nodes(self, tracer):
        """The names of transient buffers by node. During the export the model has other tensors in their place."""
        slots = {name: proxy_tensor.get_proxy_slot(buffer, tracer, None)
                 for name, buffer in self._model.named_buffers(remove_duplicate=False) if name in self._buffers}  # fmt: skip
        return {slot.proxy.node: name for name, slot in slots.items() if slot and slot.proxy.node.op == "placeholder"}

    def _find_sources(self, tensor, tracer):
        """The node of a tensor that is computed only from constants, all nodes of that computation, and the names of
        buffers among them; else None."""
        slot = proxy_tensor.get_proxy_slot(tensor, tracer, None)
        if slot is None or tensor.device.type == "meta":
            return None
        node = slot.proxy.node
        sources, buffers = _sources([node]), self._buffer_nodes(tracer)
        if not all(_is_literal(source) or source in buffers or _is_repeatable(source) for source in sources):
            return None
        return (node, sources, buffers) if sources.isdisjoint(_find_written(tracer.graph)) else None

    def _is_constant(self, tensor):
        mode = proxy_tensor.get_proxy_mode()
        return mode is not None and self._find_sources(tensor, mode.tracer) is not None

    def _decide_by(self, source, tracer, buffers):
        """The value of a literal or a buffer, which counts as decisive from now on."""
        if source in buffers:
            self._decisive_buffers[source] = buffers[source]
            return self._buffers[buffers[source]]
        self.decisive.append(getattr(tracer.root, source.target))
        return self.decisive[-1]

    def _find_value(self, tensor, tracer):
        """The value of a tensor that is computed only from constants, else None."""
        found = self._find_sources(tensor, tracer)
        if found is None:
            return None
        node, sources, buffers = found
        values = {}
        with _disable_current_modes(), torch.no_grad():
            for source in filter(sources.__contains__, node.graph.nodes):
                if _is_literal(source) or source in buffers:
                    values[source] = self._decide_by(source, tracer, buffers)
                else:
                    arguments, options = torch.fx.map_arg((source.args, source.kwargs), values.__getitem__)
                    values[source] = source.target(*arguments, **options)
        return values[node]

    def _check_decisive_buffers(self):
        """Refuses a write of a buffer whose value was read before."""
        for node, name in self._decisive_buffers.items():
            if node in _find_written(node.graph):
                raise ExportError(
                    f"a branch or a shape depends on buffer '{name}', which the forward writes: a step has fixed shapes "
                    "and one path. Write it with torch.where, or decide it before the export"
                )

    @contextlib.contextmanager
    def evaluated(self):
        """In this context, while torch exports, reading a tensor that is computed only from constants
        gives its value, and operators whose shapes depend on such tensors have fixed shapes."""
        call = proxy_tensor.proxy_call

        def call_or_evaluate(mode, function, pre_dispatch, args, kwargs):
            def find(tensor):
                return self._find_value(tensor, mode.tracer)

            if function in _READS:
                value = find(args[0])
                if value is not None:
                    with _disable_current_modes():
                        return value.item()
                if not is_fake(args[0]):  # a tensor of an attribute, which torch reads
                    self.decisive.append(args[0])
            fixed = constant_shapes.fix(function, args, kwargs, find)
            if fixed is not None:
                with mode:
                    return fixed()
            return call(mode, function, pre_dispatch, args, kwargs)

        with replaced(proxy_tensor, "proxy_call", call_or_evaluate):
            yield
        self._check_decisive_buffers()

    @contextlib.contextmanager
    def as_real_tensors(self):
        """In this context transformers does not treat a tensor of constants as traced: it reads the values, as in
        training, and omits a mask that masks nothing. A tensor that depends on inputs still counts as traced."""
        utilities = sys.modules.get("transformers.utils.import_utils")
        is_traced = getattr(utilities, "is_fake_tensor", None)
        if is_traced is None:
            yield
            return
        with replaced(utilities, "is_fake_tensor", lambda x: is_traced(x) and not self._is_constant(x)):
            yield

"""Questions about the graph that torch.export is recording: from what a value is computed, and what it is."""

import contextlib
import inspect
import operator

import torch
from torch.fx.experimental import proxy_tensor
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from .errors import ExportError
from .replacing import replaced
from .state import memory


def tensors_of(values):
    """The tensors in nested values, in order."""
    return [leaf for leaf in pytree.tree_leaves(values) if isinstance(leaf, torch.Tensor)]


def held_by(model):
    """Parameters and buffers by all their names."""
    return {**dict(model.named_parameters(remove_duplicate=False)), **dict(model.named_buffers(remove_duplicate=False))}


def add_call(place, function, *arguments, **options):
    """Adds a call to an exported graph before the node `place`, in its module and line."""
    with place.graph.inserting_before(place):
        node = place.graph.call_function(function, arguments, options)
    values, named = torch.fx.map_arg((arguments, options), lambda argument: argument.meta["val"])
    node.meta = {**place.meta, "val": function(*values, **named)}
    return node


class Placeholders:
    """The nodes that stand for tensors which no operator computes, while torch exports `model`."""

    def __init__(self, model):
        self._model = model
        self.held = {}  # names of parameters and buffers, by node
        self.inputs = {}  # by node: the name of a value of the batch, and the position among its tensors
        self._decisive = set()

    def name(self, node):
        """The name of what a node stands for; None for other nodes."""
        return self.held.get(node) or self.inputs.get(node, (None,))[0]

    def decide(self, nodes):
        """Notes that values of these nodes have decided a branch or a shape."""
        self._decisive.update(node for node in nodes if node in self.held)

    def _check_decisive(self):
        """Refuses a write of a buffer whose value was read before."""
        for node in self._decisive:
            if find_writers(node.graph, [node]):
                raise ExportError(
                    f"a branch or a shape depends on buffer '{self.held[node]}', which the forward writes: a step has fixed "
                    "shapes and one path. Write it with torch.where, or decide it before the export"
                )

    def _record(self, batch):
        tracer = proxy_tensor.get_proxy_mode().tracer

        def node_of(tensor):
            slot = proxy_tensor.get_proxy_slot(tensor, tracer, None)
            return slot.proxy.node if slot else None

        self.held = {node_of(tensor): name for name, tensor in held_by(self._model).items()}
        self._decisive = set()
        self.inputs = {node_of(tensor): (name, position) for name, value in batch.items()
                       for position, tensor in enumerate(tensors_of(value))}  # fmt: skip

    @contextlib.contextmanager
    def recorded(self):
        """In this context the nodes are found where the forward begins: later a tensor may be the result of an operator
        that returned its operand."""
        forward = self._model.forward

        def run(*values, **batch):
            self._record(batch)
            return forward(*values, **batch)

        run.__signature__ = inspect.signature(forward)
        with replaced(self._model, "forward", run):
            yield
        self._check_decisive()


def find_sources(nodes):
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


def _memories(nodes):
    """The memories of the results of nodes. Views share the memory of their base."""
    leaves = pytree.tree_leaves([node.meta.get("val") for node in nodes])
    return {memory(leaf) for leaf in leaves if isinstance(leaf, torch.Tensor)}


def _written_memories(writer):
    """The memories that a node may write: of its mutable operands; of all of them, if it is a graph."""
    operands = writer.all_input_nodes
    if isinstance(writer.target, torch._ops.OpOverload):
        formals = writer.target._schema.arguments
        mutable = {formal.name for formal in formals if formal.alias_info is not None and formal.alias_info.is_write}
        given = {**dict(zip((formal.name for formal in formals), writer.args)), **writer.kwargs}
        operands = [leaf for name in mutable for leaf in pytree.tree_leaves(given.get(name))
                    if isinstance(leaf, torch.fx.Node)]  # fmt: skip
    return _memories(operands)


def find_writers(graph, nodes):
    """The nodes of the graph that write to the memory of `nodes`."""
    memories = _memories(nodes)
    return {writer for writer in filter(_may_write, graph.nodes) if _written_memories(writer) & memories}


def find_computation(node):
    """All nodes that take part in the computation of a node: its sources, what writes to their memory, and the sources
    of that."""
    found, before = find_sources([node]), 0
    while len(found) > before:
        before = len(found)
        found |= find_sources(find_writers(node.graph, found))
    return found


def is_literal(node):
    """True for a tensor of the code, torch.tensor([...])."""
    return node.op == "get_attr" and str(node.target).startswith("_tensor_constant")


def is_aten(node):
    """True for torch's own operators. What those of other libraries do, inputs and parameters are unknown."""
    return node.target is operator.getitem or getattr(node.target, "namespace", None) == "aten"


def is_random(node):
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def evaluate(node, computation, values):
    """The value of a node. `computation` are the nodes that take part in it; `values`, to which those of the others are
    added, has the values of inputs and literals."""
    with _disable_current_modes(), torch.no_grad():
        for source in filter(computation.__contains__, node.graph.nodes):
            if source not in values:
                arguments, options = torch.fx.map_arg((source.args, source.kwargs), values.__getitem__)
                values[source] = source.target(*arguments, **options)
    return values[node]

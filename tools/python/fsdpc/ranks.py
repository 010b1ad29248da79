"""Numbers that differ from rank to rank, while a model is exported. A step is one program for all ranks, so the rank is a
tensor in it. Where the code reads a number that depends on the rank, as `if rank == 0: print(...)` does, the model is exported
as each rank, and refused if the programs differ."""

import contextlib
import functools

import torch
from torch.fx.experimental import proxy_tensor
from torch.utils._python_dispatch import _disable_current_modes

from . import checks, graphs
from .errors import ExportError, note
from .replacing import replaced
from .state import values_of

_OWN_PART = "own_part"


def is_collective(node):
    return getattr(node.target, "namespace", None) == "fsdpc"


def _is_own_part(node):
    return is_collective(node) and node.target._opname == _OWN_PART


def _node_of(tensor):
    mode = proxy_tensor.get_proxy_mode()
    slot = mode and proxy_tensor.get_proxy_slot(tensor, mode.tracer, None)
    return slot.proxy.node if slot else None


def _describe(graph):
    """What a graph computes, without the names of its values."""
    numbers = {node: f"%{at}" for at, node in enumerate(graph.nodes)}
    return [f"{node.op} {node.target} {torch.fx.map_arg((node.args, dict(node.kwargs)), numbers.__getitem__)}"
            if node.op not in ("placeholder", "output") else str(torch.fx.map_arg(node.args, numbers.__getitem__))
            for node in graph.nodes]  # fmt: skip


def _describe_program(program):
    """With parameters and buffers this decides a program's results."""
    graphs = [module.graph for module in program.graph_module.modules() if isinstance(module, torch.fx.GraphModule)]
    return list(map(_describe, graphs)), values_of(program)


def _is_whole_number(value):
    return isinstance(value, torch.Tensor) and value.dim() == 0 and not (
        value.is_floating_point() or value.is_complex() or value.dtype == torch.bool)  # fmt: skip


def note_stored_ranks(model):
    """Notes numbers that modules seem to keep as their rank."""
    for path, module in model.named_modules():
        for name, value in vars(module).items():
            if name.strip("_") in ("rank", "local_rank", "global_rank") and type(value) is int:
                note(f"attribute '{name}' of module '{path}' is {value}, on every rank of the step: if the forward computes with "
                     "it, let it call torch.distributed.get_rank() instead")  # fmt: skip


class Ranks:
    """The ranks of the run. `number`: None if it is not given."""

    def __init__(self, number):
        self.number = number
        self.rank = 0  # whose numbers the code reads
        self.reads = []  # (line of the model, the number by rank) for numbers that differ
        self.places = set()  # lines of the model that read numbers known at run time alone, by collectives

    def make(self, numbers):
        """A tensor that has one of these whole numbers on each rank."""
        numbers = list(numbers)
        table = (torch.arange(len(numbers)) if numbers == list(range(len(numbers)))
                 else torch.stack([torch.full((), number, dtype=torch.int64) for number in numbers]))  # fmt: skip
        return torch.ops.fsdpc.own_part(table)

    def own(self):
        """The rank. Where nothing is recorded, only shapes matter."""
        return 0 if proxy_tensor.get_proxy_mode() is None else self.make(range(self.number))

    def find(self, tensor):
        """The numbers that a tensor has, by rank, if they depend on the rank alone, else None."""
        node = _node_of(tensor) if self.number else None
        if node is None:
            return None
        sources = graphs.find_computation(node)
        if not any(map(_is_own_part, sources)) or any(map(graphs.is_random, sources)):
            return None
        if not all(graphs.is_literal(source) or graphs.is_aten(source) or _is_own_part(source) for source in sources):
            return None
        root = proxy_tensor.get_proxy_mode().tracer.root
        literals = {source: getattr(root, source.target) for source in sources if graphs.is_literal(source)}
        with torch._C.DisableTorchFunction(), _disable_current_modes():
            return [self._evaluate(node, sources, literals, rank) for rank in range(self.number)]

    @staticmethod
    def _evaluate(node, sources, literals, rank):
        values = dict(literals)
        for own in filter(sources.__contains__, node.graph.nodes):
            if _is_own_part(own):
                values[own] = graphs.evaluate(own.args[0], graphs.find_computation(own.args[0]), values)[rank]
        return graphs.evaluate(node, sources, values).item()

    def read(self, tensor):
        """The number that the code reads in a tensor which depends on the rank alone, else None."""
        if self.number is None:
            return None
        numbers = self.find(tensor)
        if numbers is None:
            node = _node_of(tensor)
            if node is not None and any(map(is_collective, graphs.find_computation(node))):
                self.places.add(checks.find_place())
            return None
        if len(set(numbers)) > 1:
            self.reads.append((checks.find_place(), numbers))
        return numbers[self.rank]

    def _as_each(self, run):
        """The results of `run` as the ranks that read other numbers than those before, as (rank, result)."""
        left, results = list(range(self.number or 1)), []
        before = self.reads
        try:
            while left:
                self.rank, self.reads = left[0], []
                results.append((self.rank, run()))
                left = [rank for rank in left if any(numbers[rank] != numbers[self.rank] for _, numbers in self.reads)]
                before = before + [read for read in self.reads if read not in before]
        finally:
            self.rank, self.reads = 0, before
        return results

    def agree(self, export):
        """Returns export()'s program, which must be that of all ranks."""
        self.reads = []
        (_, program), *others = self._as_each(export)
        for rank, other in others:
            if _describe_program(other) != _describe_program(program):
                place, numbers = next(read for read in self.reads if read[1][rank] != read[1][0])
                raise ExportError(
                    f"the forward of rank {rank} is another one than that of rank 0, by the number that it reads, "
                    f"{numbers[0]} on rank 0 and {numbers[rank]} on rank {rank}\n  at {place}"
                    "\n  remedy: a step is one program for all ranks: "
                    "compute with rank = torch.as_tensor(get_rank()), by torch.where(rank == 0, x, y), or by "
                    "torch.stack(tensors)[rank] in place of tensors[rank]"
                )
        return program

    def merge(self, trace, tensors):
        """Returns trace()'s graph of these tensors. If the graphs of ranks differ, they become one, of which each rank takes
        its own results: `gradients[rank]` of a tuple, for example."""
        known, asked = len(self.reads), self.rank
        graph = trace()
        if len(self.reads) == known:
            return graph
        by_rank = []
        try:
            for self.rank in range(self.number):
                by_rank.append(trace())
        finally:
            self.rank = asked
        if any(is_collective(node) and not _is_own_part(node) for graph in by_rank for node in graph.graph.nodes):
            return graph  # agree() compares
        del self.reads[known:]
        if all(_describe(graph.graph) == _describe(by_rank[0].graph) for graph in by_rank):
            return graph

        def run(*tensors):
            results = zip(*(graph(*tensors) for graph in by_rank))
            return tuple(None if parts[0] is None else torch.ops.fsdpc.own_part(torch.stack(parts)) for parts in results)

        return proxy_tensor.make_fx(run, _allow_non_fake_inputs=True, record_stack_traces=True)(*tensors)

    def _as_indices(self, tensor, items):
        """By positions among the indices `items` of a tensor: the dimension, the indices as a tensor of one dimension, and
        what remains to be indexed, for those that depend on the rank; None if they cannot be expressed so."""
        found, dim = {}, 0
        for at, item in enumerate(items):
            if isinstance(item, bool) or isinstance(item, torch.Tensor) and item.dtype in (torch.bool, torch.uint8):
                return None  # a mask
            if item is Ellipsis:
                dim = tensor.dim() - sum(other is not None for other in items[at + 1:])
                continue
            if _is_whole_number(item) and (numbers := self.find(item)):
                size = tensor.shape[dim]
                if not all(-size <= number < size for number in numbers):
                    raise IndexError(f"index {numbers} by rank is out of bounds for dimension {dim} with size {size}")
                found[at] = (dim, (item.remainder(size) if min(numbers) < 0 else item).reshape(1), 0)
            elif isinstance(item, slice) and (part := self._as_slice(item, tensor.shape[dim])) is not None:
                found[at] = (dim, part, slice(None))
            dim += item is not None
        return found

    def _as_slice(self, item, size):
        """The indices of a slice of which an end depends on the rank, if it has one length on all ranks."""
        ends = [end for end in (item.start, item.stop) if isinstance(end, torch.Tensor)]
        by_rank = [self.find(end) if _is_whole_number(end) else None for end in ends]
        if not ends or item.step not in (None, 1) or None in by_rank:
            return None
        numbers = iter(by_rank)
        of_ends = [next(numbers) if isinstance(end, torch.Tensor) else [end] * self.number for end in (item.start, item.stop)]
        ranges = [range(*slice(*pair).indices(size)) for pair in zip(*of_ends)]
        first, lengths = [part.start for part in ranges], {len(part) for part in ranges}
        return self.make(first) + torch.arange(lengths.pop()) if len(lengths) == 1 else None

    @contextlib.contextmanager
    def indexing(self):
        """In this context tensors are indexed by tensors that depend on the rank alone, without reading them, and these are
        printed."""
        get, assign, write = torch.Tensor.__getitem__, torch.Tensor.__setitem__, torch.Tensor.__format__

        def find(tensor, index):
            items = index if isinstance(index, tuple) else (index,)
            ends = [end for item in items for end in ((item.start, item.stop) if isinstance(item, slice) else (item,))]
            may_depend = self.number and any(map(_is_whole_number, ends)) and proxy_tensor.get_proxy_mode() is not None
            return list(items), self._as_indices(tensor, items) if may_depend else None

        @functools.wraps(get)
        def get_by_rank(tensor, index):
            items, found = find(tensor, index)
            if not found:
                return get(tensor, index)
            for at, (dim, indices, rest) in found.items():
                tensor, items[at] = tensor.index_select(dim, indices), rest
            return get(tensor, tuple(items))

        @functools.wraps(assign)
        def assign_by_rank(tensor, index, value):
            items, found = find(tensor, index)
            if not found or len(found) > 1:
                return assign(tensor, index, value)
            (at, (dim, indices, rest)), = found.items()
            if rest == 0 and dim > 0:
                return assign(tensor, index, value)
            items[at] = indices
            return assign(tensor, tuple(items), value)

        @functools.wraps(write)
        def write_number(tensor, form):
            number = self.read(tensor) if _is_whole_number(tensor) else None
            return write(tensor, form) if number is None else format(number, form)

        with (replaced(torch.Tensor, "__getitem__", get_by_rank), replaced(torch.Tensor, "__setitem__", assign_by_rank),
              replaced(torch.Tensor, "__format__", write_number)):  # fmt: skip
            yield

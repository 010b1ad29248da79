"""Tensors that lie in the memory of others. In a step each tensor has its own memory, so what eager training writes through one
of them would be lost to the others."""

import torch
from torch._subclasses import FakeTensor

from . import graphs
from .errors import ExportError


def _addresses(tensor):
    """The addresses of a tensor's elements: the first one, and the one behind the last; None without memory."""
    if isinstance(tensor, FakeTensor) or tensor.is_meta or tensor.layout is not torch.strided or not tensor.numel():
        return None
    reach = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride()))
    return tensor.data_ptr(), tensor.data_ptr() + (reach + 1) * tensor.element_size()


def check_parameters(model):
    """Refuses parameters that are other tensors at the address of a parameter, as `a.data = b.data` makes them, and such
    buffers."""
    parameters = {tensor.data_ptr(): name for name, tensor in reversed([*model.named_parameters()])}
    for name, tensor in (*model.named_parameters(), *model.named_buffers()):
        first = parameters.get(tensor.data_ptr(), name)
        if first != name and not tensor.is_meta and tensor.numel() and tensor.data_ptr():
            raise ExportError(
                f"'{name}' and '{first}' are different tensors of one memory: make them one parameter (assign the "
                "parameter itself, not its .data), or copies"
            )


def _overlapping(tensors):
    """Pairs of names of tensors that share addresses, of neighbours in memory."""
    placed = sorted((addresses, name) for name, tensor in tensors.items() if (addresses := _addresses(tensor)))
    end, last = 0, None  # of the tensors so far
    for (first, behind), name in placed:
        if first < end:
            yield last, name
        if behind > end:
            end, last = behind, name


def check_buffers(model, program):
    """Refuses buffers that the forward writes while other buffers, or constants of the step, lie in their memory."""
    signature = program.graph_signature
    placeholders = {**signature.inputs_to_lifted_tensor_constants, **signature.inputs_to_buffers}
    nodes = {placeholders[node.name]: node for node in program.graph.nodes
             if node.op == "placeholder" and node.name in placeholders}  # fmt: skip
    buffers = dict(model.named_buffers(remove_duplicate=False))
    constants = {name: value for name, value in program.constants.items()
                 if isinstance(value, torch.Tensor) and name not in buffers}  # fmt: skip
    tensors = {**constants, **buffers}

    def is_written(name):
        same = [node for other, node in nodes.items()
                if other == name or (other in buffers and name in buffers and tensors[other] is tensors[name])]
        return bool(graphs.find_writers(program.graph, same))

    for pair in _overlapping(tensors):
        if all(name in buffers for name in pair) and tensors[pair[0]] is tensors[pair[1]]:
            continue  # two names of one buffer
        if written := [name for name in pair if is_written(name)]:
            # Of a buffer that is an attribute, too, torch.export writes either.
            first, other = sorted(pair, key=lambda name: (name not in buffers, name not in written))
            what = f"'{other}'" if other in buffers else f"a tensor of an attribute ('{other}' in torch.export's program)"
            raise ExportError(
                f"the forward writes '{first}', in whose memory {what} lies, too: eager training changes both together, "
                "a step would not. Let the forward use the buffer itself, or keep a copy"
            )

"""Numbers that the code reads from tensors by `.item()` and computes with, as in `loss / max(count.item(), 1)`. In a step they
are tensors of one number, of float64 as Python's, until they meet a tensor of the model."""

import operator

import torch

from .graphs import add_call

aten = torch.ops.aten
#: Of what torch.export records for numbers: the operators of two tensors, of a tensor and a number, and of a number and a
#: tensor, which takes the tensor first. None: the number becomes a tensor.
_OF_TWO = {
    operator.add: (aten.add.Tensor, aten.add.Scalar, aten.add.Scalar),
    operator.sub: (aten.sub.Tensor, aten.sub.Scalar, aten.rsub.Scalar),
    operator.mul: (aten.mul.Tensor, aten.mul.Scalar, aten.mul.Scalar),
    operator.truediv: (aten.div.Tensor, aten.div.Scalar, None),
    operator.pow: (aten.pow.Tensor_Tensor, aten.pow.Tensor_Scalar, None),
    torch.sym_max: (aten.maximum.default, aten.clamp_min.default, aten.clamp_min.default),
    torch.sym_min: (aten.minimum.default, aten.clamp_max.default, aten.clamp_max.default),
}
_OF_ONE = {operator.neg: aten.neg.default, torch._sym_sqrt: aten.sqrt.default}
#: Of a tensor of the model and a number.
_WITH_TENSORS = (aten.add.Tensor, aten.sub.Tensor, aten.mul.Tensor, aten.div.Tensor)


def _convert(node, tensors):
    """The tensor in the place of a number, or None. `tensors`: by the numbers before it."""
    if node.target is aten.item.default:
        number = add_call(node, aten.reshape.default, add_call(node, aten.detach.default, node.args[0]), [])
        return add_call(node, aten.to.dtype, number, torch.float64, False, True)  # a copy: the tensor may be overwritten
    arguments = [tensors.get(argument, argument) for argument in node.args]
    are_tensors = [isinstance(argument, torch.fx.Node) for argument in arguments]
    if any(isinstance(argument, torch.fx.Node) and argument not in tensors for argument in node.args):
        return None
    if node.target is torch.sym_float:
        return arguments[0]
    if node.target in _OF_ONE:
        return add_call(node, _OF_ONE[node.target], *arguments)
    of_tensors, of_number, of_first_number = _OF_TWO[node.target]
    if all(are_tensors):
        return add_call(node, of_tensors, *arguments)
    if are_tensors[0]:
        return add_call(node, of_number, *arguments)
    if of_first_number:
        return add_call(node, of_first_number, *reversed(arguments))
    return add_call(node, of_tensors, add_call(node, aten.full_like.default, arguments[1], arguments[0]), arguments[1])


def _meet(node, tensors):
    """Gives a tensor to an operator that takes a number beside a tensor of the model, whose dtype the result has."""
    other = node.args[0].meta["val"]
    if other.dtype not in (torch.float32, torch.float64) and not (other.is_floating_point() and other.dim()):
        return
    number = tensors[node.args[1]]
    node.update_arg(1, number if other.dim() else add_call(node, aten.to.dtype, number, other.dtype))


def as_tensors(program):
    for module in program.graph_module.modules():
        tensors = {}
        nodes = list(getattr(module, "graph", torch.fx.Graph()).nodes)
        for node in nodes:
            if node.target in (aten.item.default, torch.sym_float, *_OF_ONE, *_OF_TWO):
                tensor = _convert(node, tensors)
                if tensor is not None:
                    tensors[node] = tensor
            elif node.target in _WITH_TENSORS and len(node.args) > 1 and node.args[1] in tensors:
                _meet(node, tensors)
        for node in reversed(nodes):
            if node in tensors and not node.users:
                node.graph.erase_node(node)
    return program

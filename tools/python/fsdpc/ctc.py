"""What torch.export needs for ctc_loss: a rule of shapes, lengths that are tensors, and targets of a fixed number. The models
of transformers select targets by a mask, whose number is known at run time alone."""

import torch

from .graphs import add_call

aten = torch.ops.aten
#: Of one tensor, with its values.
_CASTS = (aten.to.dtype, aten.to.device, aten.to.dtype_layout, aten._to_copy.default)


def shapes_of_losses(mode, operator, log_probs, targets, input_lengths, target_lengths, blank=0, zero_infinity=False):
    """torch has no rule, since the shape of the second result depends on the lengths. Only the derivative reads it."""
    with mode:
        return log_probs.new_empty(log_probs.shape[1]), log_probs.new_empty(0)


def ctc_loss(log_probs, targets, input_lengths, target_lengths, *arguments, **options):
    """torch would put lengths that are numbers into a tensor that has no values while it exports."""
    input_lengths, target_lengths = map(torch.as_tensor, (input_lengths, target_lengths))
    return aten.ctc_loss(log_probs, targets, input_lengths, target_lengths, *arguments, **options)


def _without_casts(node):
    while node.target in _CASTS:
        node = node.args[0]
    return node


def _selects_targets(loss):
    """True if the targets are masked_select(labels, mask) of rows, as many of each row as the mask selects."""
    if len(loss.args) < 4:
        return False
    targets, lengths = loss.args[1], _without_casts(loss.args[3])
    if targets.target is not aten.masked_select.default or lengths.target is not aten.sum.dim_IntList:
        return False
    if len(targets.args) != 2 or len(lengths.args) != 2:
        return False
    labels, mask = targets.args
    return (labels.meta["val"].dim() == 2 and labels.meta["val"].shape == mask.meta["val"].shape
            and lengths.args[0] is mask and list(lengths.args[1]) in ([-1], [1]))  # fmt: skip


def pad_targets(program):
    """Puts the labels that a mask selects to the front of their rows, which have a fixed size, in the place of all labels
    in one row, which have none: ctc_loss takes both."""
    for loss in program.graph.nodes:
        if loss.target is aten.ctc_loss.Tensor and _selects_targets(loss):
            labels, mask = loss.args[1].args
            order = add_call(loss, aten.argsort.stable, mask, stable=True, dim=1, descending=True)
            loss.update_arg(1, add_call(loss, aten.gather.default, labels, 1, order))
    return program

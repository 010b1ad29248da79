"""Values of the batch with which a model is exported. A branch, a number or a shape that depends on values of the batch is
that of this batch, if the export is told so, and the step checks for each batch that it has the same."""

import torch
from torch._subclasses.fake_tensor import is_fake
from torch.fx.experimental import proxy_tensor
from torch.utils._python_dispatch import _disable_current_modes

from . import checks, graphs
from .errors import ExportError, note

#: How messages of the assertions begin that the step keeps.
_MESSAGE = "fsdpc.export(specialize=True) specialized the step to "
_MOST_NOTES = 8
#: How often a number is computed that depends on random numbers.
_DRAWS = 8


def is_check(node):
    """True for a node that checks whether a batch agrees with that of the export."""
    return str(node.target) == "aten._assert_async.msg" and str(node.args[1]).startswith(_MESSAGE)


class Example:
    """The batch of the export, and the model's parameters and buffers. `batch`: None if the step is not specialized."""

    def __init__(self, model, batch):
        self._batch = batch
        self._held = graphs.held_by(model)
        self._numbers = {}  # by lines of the model

    def _find_values(self, placeholders):
        """The values of inputs, parameters and buffers by node."""
        values = {node: self._held[name] for node, name in placeholders.held.items() if name in self._held}
        values.update((node, graphs.tensors_of(self._batch[name])[position])
                      for node, (name, position) in placeholders.inputs.items())  # fmt: skip
        return {node: value for node, value in values.items() if not value.is_meta and not is_fake(value)}

    def _find_number(self, node, tracer, placeholders):
        """The number that a node has for this batch; None if it is not known, or if it differs with the random numbers."""
        leaves, computation = self._find_values(placeholders), graphs.find_computation(node)
        for source in computation:
            if graphs.is_literal(source):
                leaves[source] = getattr(tracer.root, source.target)
            elif source not in leaves and placeholders.name(source):
                raise ExportError(f"specialize=True takes numbers that depend on '{placeholders.name(source)}' from the values "
                                  "of the batch, of parameters and of buffers, and this one is on meta")  # fmt: skip
        if not all(source in leaves or graphs.is_aten(source) for source in computation):
            return None
        times = _DRAWS if any(map(graphs.is_random, computation)) else 1
        placeholders.decide(computation)
        with torch.random.fork_rng(devices=[]):
            numbers = {self._evaluate(node, computation, leaves) for _ in range(times)}
        return numbers.pop() if len(numbers) == 1 else None

    @staticmethod
    def _evaluate(node, computation, leaves):
        with _disable_current_modes():
            values = {source: value.clone() for source, value in leaves.items() if source in computation}
            return graphs.evaluate(node, computation, values).item()

    def read(self, tensor, placeholders):
        """The whole number or truth value that a tensor has for this batch, which the step will check; None if the step is
        not specialized, or the number is not known. Called while torch records operators."""
        if self._batch is None or tensor.is_floating_point() or tensor.is_complex():
            return None
        tracer = proxy_tensor.get_proxy_mode().tracer
        slot = proxy_tensor.get_proxy_slot(tensor, tracer, None)
        number = self._find_number(slot.proxy.node, tracer, placeholders) if slot else None
        if number is not None:
            self._numbers.setdefault(checks.find_place(), number)
            torch.ops.aten._assert_async.msg(tensor == number, f"{_MESSAGE}{number} here, and this batch has another value")
        return number

    def print_notes(self):
        """Says which numbers are assumed."""
        for place, number in list(self._numbers.items())[:_MOST_NOTES]:
            note(f"{place}: specialized to {number}, the number of this batch, and each step checks that it has the same")
        if len(self._numbers) > _MOST_NOTES:
            note(f"{len(self._numbers) - _MOST_NOTES} further lines of the model are specialized to numbers of this batch")

"""Values that a model computes only from constants, such as the positions of its tokens. They are the same in every
step, so a branch on them is decided when the model is exported, and so are shapes that depend on them."""

import contextlib
import sys

from torch.fx.experimental import proxy_tensor

from . import graphs
from .replacing import replaced
from .state import memory


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
    """The constants of one model, while torch exports it."""

    def __init__(self, model, placeholders):
        self._buffers = _transient_buffers(model)
        self._placeholders = placeholders
        #: Tensors of the code and of attributes whose values have decided a branch or a shape.
        self.decisive = []

    def _is_buffer(self, node):
        return self._placeholders.held.get(node) in self._buffers

    def _find_sources(self, tensor, tracer):
        """The node of a tensor that is computed only from constants, and all nodes of that computation; else None."""
        slot = proxy_tensor.get_proxy_slot(tensor, tracer, None)
        if slot is None or tensor.device.type == "meta":
            return None
        node = slot.proxy.node
        sources = graphs.find_sources([node])
        if not all(graphs.is_literal(source) or self._is_buffer(source) or graphs.is_aten(source) for source in sources):
            return None
        if any(map(graphs.is_random, sources)):
            return None
        return (node, sources) if not graphs.find_writers(tracer.graph, sources) else None

    def _is_constant(self, tensor):
        mode = proxy_tensor.get_proxy_mode()
        return mode is not None and self._find_sources(tensor, mode.tracer) is not None

    def _decide_by(self, source, tracer):
        """The value of a literal or a buffer, which counts as decisive from now on."""
        if self._is_buffer(source):
            self._placeholders.decide([source])
            return self._buffers[self._placeholders.held[source]]
        self.decisive.append(getattr(tracer.root, source.target))
        return self.decisive[-1]

    def find(self, tensor, tracer):
        """The value of a tensor that is computed only from constants, else None."""
        found = self._find_sources(tensor, tracer)
        if found is None:
            return None
        node, sources = found
        values = {source: self._decide_by(source, tracer)
                  for source in sources if graphs.is_literal(source) or self._is_buffer(source)}  # fmt: skip
        return graphs.evaluate(node, sources, values)

    @contextlib.contextmanager
    def as_real_tensors(self):
        """In this context transformers does not treat a tensor of constants as traced: it reads the values, as in
        training, and omits a mask that masks nothing. A tensor that depends on inputs still counts as traced, and as a mask
        that may mask something."""
        utilities = sys.modules.get("transformers.utils.import_utils")
        is_traced = getattr(utilities, "is_fake_tensor", None)
        if is_traced is None:
            yield
            return

        def depends_on_inputs(tensor):
            return is_traced(tensor) and not self._is_constant(tensor)

        with contextlib.ExitStack() as stack:
            stack.enter_context(replaced(utilities, "is_fake_tensor", depends_on_inputs))
            masks = sys.modules.get("transformers.masking_utils")
            if masks_nothing := getattr(masks, "fast_all", None):
                stack.enter_context(replaced(masks, "fast_all", lambda x: not depends_on_inputs(x) and masks_nothing(x)))
            yield

"""Parameters that are tensor subclasses, such as quantized weights: the tensors inside become the parameters of the step, and
the forward finds the subclass, made from them anew."""

import contextlib
import inspect
import types

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from .errors import ExportError


def is_subclass(value):
    """True for a tensor subclass around plain tensors, but a sharded tensor (DTensor), which an export refuses anyway."""
    return is_traceable_wrapper_subclass(value) and not hasattr(value, "device_mesh")


def flatten(value):
    """The plain tensors in a subclass, a dict, and a function that makes the subclass of other tensors in this order."""
    names, context = value.__tensor_flatten__()
    kind, size, stride, needs_gradient = type(value), value.size(), value.stride(), value.requires_grad
    tensors, makers = {}, {}
    for name in names:
        inner = getattr(value, name)
        if is_subclass(inner):
            within, makers[name] = flatten(inner)
            tensors.update({f"{name}_{key}": tensor for key, tensor in within.items()})
        else:
            tensors[name] = inner

    def make(parts):
        parts = iter(parts)
        inner = {name: makers[name](parts) if name in makers else next(parts) for name in names}
        made = kind.__tensor_unflatten__(inner, context, size, stride)
        return made.requires_grad_() if needs_gradient else made

    return tensors, make


class Parts(torch.nn.Module):
    """The plain tensors in one parameter, as parameters. It stands where the parameter stood."""

    def __init__(self, outer, name):
        super().__init__()
        tensors, make = flatten(outer)
        if any(tensor.is_complex() for tensor in tensors.values()):
            raise ExportError(f"parameter '{name}' is a {type(outer).__name__} of complex tensors: use a plain complex parameter")
        self.held = types.SimpleNamespace(outer=outer, name=name, make=make)
        trained = self._find_trained(tensors)
        for key, tensor in tensors.items():
            self._parameters[key] = torch.nn.Parameter(tensor.detach(), requires_grad=key == trained)

    def _find_trained(self, tensors):
        """The tensor that the optimizer changes: the only one, of the same shape and dtype as the parameter."""
        outer = self.held.outer
        if not outer.requires_grad:
            return None
        first = next(iter(tensors))
        if len(tensors) == 1 and (tensors[first].shape, tensors[first].dtype) == (outer.shape, outer.dtype):
            return first
        raise ExportError(
            f"parameter '{self.held.name}' is trained, and is a {type(outer).__name__} of {', '.join(tensors)}, which the "
            "class itself changes when the optimizer writes to it: a step cannot. Freeze it, or train a plain tensor"
        )

    def make(self):
        return self.held.make(self._parameters.values())

    def trained(self):
        """The parameter that is trained, or None."""
        return next((part for part in self._parameters.values() if part.requires_grad), None)

    def check(self, policy):
        """Checks that FSDP2, too, gathers these tensors. policy: FSDP2's of the parameter, or None."""
        hooked = hasattr(self.held.outer, "fsdp_pre_all_gather")
        if not hooked and self.trained() is None:
            return
        dtype = policy and policy.param_dtype
        if type(self.held.outer).__name__ == "WeightWithDynamicFloat8CastTensor":  # of torchao
            raise ExportError(
                f"parameter '{self.held.name}' is cast to float8 before its gathers (enable_fsdp_float8_all_gather): convert the "
                "model without this option, and compile it with mixed_precision: {gather_dtype: float8_e4m3fn}"
            )
        if not hooked:
            reason = "which has no fsdp_pre_all_gather"
        elif not self._is_gathered_as_it_is(policy):
            reason = "whose fsdp_pre_all_gather hands over other tensors" + (f" with param_dtype={dtype}" if dtype else "")
        else:
            return
        raise ExportError(
            f"parameter '{self.held.name}' is a {type(self.held.outer).__name__}, {reason}: a step gathers the tensors inside, "
            "cast to param_dtype if they are trained. Use a plain parameter, or a class that quantizes where it is used"
        )

    def _is_gathered_as_it_is(self, policy):
        dtype, trained = policy and policy.param_dtype, self.trained()
        parts = [_with_values(part) for part in self._parameters.values()]
        expected = [part.to(dtype) if dtype and own is trained else part
                    for own, part in zip(self._parameters.values(), parts)]  # fmt: skip
        try:
            with torch.no_grad():
                gathered = _call_hook(self.held.make(parts), policy)
            return all(any(_are_same(tensor, part) for part in expected) for tensor in gathered)
        except Exception:  # hooks may ask anything of a mesh
            return False


def _with_values(tensor):
    """The tensor, or one with values if it is on meta."""
    return torch.rand(tensor.shape).to(tensor.dtype) if tensor.is_meta else tensor.detach()


def _are_same(left, right):
    return left.dtype == right.dtype and left.shape == right.shape and torch.equal(left, right)


class _OneRank:
    """What hooks ask of a mesh."""

    def get_group(self):
        return self

    def size(self, dim=None):
        return 1


def _call_hook(value, policy):
    """What FSDP2 would gather on one rank."""
    from torch.distributed.fsdp import MixedPrecisionPolicy

    hook = value.fsdp_pre_all_gather
    if len(inspect.signature(hook).parameters) == 1:
        return hook(_OneRank())[0]
    return hook(_OneRank(), value.size(), value.stride(), None, policy or MixedPrecisionPolicy())[0]


class Unwrapped:
    """The parameters of a model that are subclasses, while Parts stand for them."""

    def __init__(self):
        self.places = []  # (module, name, Parts)

    def parts(self):
        return {id(parts): parts for _, _, parts in self.places}.values()

    def stand_in(self):
        """By the parameter's identity, what stands for it in an optimizer."""
        return {id(parts.held.outer): parts.trained() for parts in self.parts() if parts.trained() is not None}

    def check(self, mixed):
        """Checks that FSDP2, too, gathers these tensors. mixed: precision.Precision, or None."""
        for parts in self.parts():
            parts.check(mixed and next((mixed.policies.get(id(part)) for part in parts.parameters()), None))

    @contextlib.contextmanager
    def made(self):
        """In this context modules have the subclasses, made from the current parameters of their Parts."""
        made = {id(parts): parts.make() for parts in self.parts()}
        for module, name, parts in self.places:
            vars(module)[name] = made[id(parts)]
        try:
            yield
        finally:
            for module, name, _ in self.places:
                del vars(module)[name]


@contextlib.contextmanager
def unwrapped(model):
    """In this context Parts stand for the parameters that are subclasses. Yields an Unwrapped."""
    for name, buffer in model.named_buffers():
        if is_subclass(buffer):
            raise ExportError(f"buffer '{name}' is a {type(buffer).__name__}: make it a frozen parameter")
    found, by_id, orders = Unwrapped(), {}, []
    for path, module in model.named_modules():
        if not any(value is not None and is_subclass(value) for value in module._parameters.values()):
            continue
        orders.append((module, dict(module._parameters)))
        for name, value in orders[-1][1].items():
            if value is not None and is_subclass(value):
                if id(value) not in by_id:
                    by_id[id(value)] = Parts(value, f"{path}.{name}" if path else name)
                found.places.append((module, name, by_id[id(value)]))
    for module, name, parts in found.places:
        del module._parameters[name]
        module._modules[name] = parts
    try:
        yield found
    finally:
        for module, name, _ in found.places:
            del module._modules[name]
        for module, parameters in orders:
            module._parameters.clear()
            module._parameters.update(parameters)

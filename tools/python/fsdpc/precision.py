"""FSDP2's MixedPrecisionPolicy as a part of the exported program: casts of parameters, of the
arguments of modules and of their results, under autograd, where FSDP2's hooks make them."""

import contextlib
import functools

import torch
from torch.distributed.fsdp import MixedPrecisionPolicy
from torch.distributed.utils import _apply_to_tensors

from .errors import ExportError
from .patterns import matches
from .subclasses import Parts

_NAMES = {
    torch.float64: "f64", torch.float32: "f32", torch.float16: "f16", torch.bfloat16: "bf16",
}  # fmt: skip


def _cast(dtype, value):
    """torch.distributed.fsdp's _cast_fp_tensor."""
    if not torch.is_floating_point(value) or value.dtype == dtype:
        return value
    return value.to(dtype)


def _cast_all(dtype, values):
    return _apply_to_tensors(functools.partial(_cast, dtype), values)


def _check(key, policy):
    """Checks that it is a policy with dtypes that a step may have."""
    if not isinstance(policy, MixedPrecisionPolicy):
        raise ExportError(
            f"mixed_precision: {key!r} has a {type(policy).__name__}, expected torch.distributed."
            "fsdp.MixedPrecisionPolicy"
        )
    for name in ("param_dtype", "reduce_dtype", "output_dtype"):
        dtype = getattr(policy, name)
        if dtype is not None and dtype not in _NAMES:
            raise ExportError(
                f"mixed_precision: {name} of {key!r} is {dtype}, expected one of "
                + ", ".join(str(known) for known in _NAMES)
            )


class _Group:
    """The modules of one call of fully_shard. If there are several, the arguments of the first and
    the results of the last are cast, as in FSDP2."""

    def __init__(self, modules, policy):
        self.modules, self.policy = modules, policy
        self.begin()

    def enter(self, module, arguments, named):
        if not self.waiting:
            self.waiting = set(self.modules)
            return cast_arguments(self.policy, arguments, named)
        return arguments, named

    def begin(self):
        """Called when a forward begins; forgets the state of a forward that has failed before."""
        self.waiting = set()

    def leave(self, module, arguments, result):
        self.waiting.discard(module)
        return cast_result(self.policy, result) if not self.waiting else result


def cast_arguments(policy, arguments, named):
    if policy.cast_forward_inputs and policy.param_dtype:
        return _cast_all(policy.param_dtype, arguments), _cast_all(policy.param_dtype, named)
    return arguments, named


def cast_result(policy, result):
    return _cast_all(policy.output_dtype, result) if policy.output_dtype else result


def _is_frozen_part(module, parameter):
    """True for tensors in a frozen subclass, which decides by itself what FSDP2 casts (Parts.check)."""
    return isinstance(module, Parts) and not parameter.requires_grad


class Precision:
    """The option `mixed_precision` of fsdpc.export for a model.

    policies: from patterns of modules, or tuples of paths that are one group, to policies, in the
        order in which fully_shard is called; "" is the model itself.
    """

    def __init__(self, model, policies):
        modules = dict(model.named_modules())
        self.model, self.groups, self.root = model, [], None
        self.policies = {}  # of parameters, by id
        seen = {}
        for key, policy in policies.items():
            _check(key, policy)
            for names in self._groups_of(key, modules):
                for name in names:
                    if name in seen:
                        raise ExportError(
                            f"module '{name}' has two policies: by {seen[name]!r} and by {key!r}"
                        )
                    seen[name] = key
                held = [modules[name] for name in names]
                for module in held:
                    for parameter in module.parameters():
                        self.policies.setdefault(id(parameter), policy)
                if names == [""]:
                    self.root = policy
                else:
                    self.groups.append(_Group(held, policy))

    def describe(self, policies):
        """The form that lib/Frontend/ExportedProgram.cpp reads."""
        modules, facts = dict(self.model.named_modules()), []
        for key, policy in policies.items():
            dtypes = {
                name: _NAMES[dtype]
                for name in ("param_dtype", "reduce_dtype")
                if (dtype := getattr(policy, name)) is not None
            }
            facts += [{"modules": names, **dtypes} for names in self._groups_of(key, modules)]
        return facts

    def _groups_of(self, key, modules):
        if isinstance(key, tuple):
            missing = [name for name in key if name not in modules]
            if missing:
                raise ExportError(f"mixed_precision: the model has no module '{missing[0]}'")
            if "" in key:
                raise ExportError(f"mixed_precision: {key!r} holds the model itself, \"\"")
            return [list(key)]
        if key == "":
            return [[""]]
        found = [[name] for name in modules if name and matches(key, name)]
        if not found:
            raise ExportError(f"mixed_precision: '{key}' matches no module of the model")
        return found

    @contextlib.contextmanager
    def hooks(self):
        """In this context modules cast their arguments and results."""
        handles = []
        for group in self.groups:
            for module in group.modules:
                handles.append(
                    module.register_forward_pre_hook(group.enter, prepend=True, with_kwargs=True)
                )
                handles.append(module.register_forward_hook(group.leave))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def begin(self):
        """Called when a forward of the model begins."""
        for group in self.groups:
            group.begin()

    def places(self):
        """Where modules hold parameters to cast: (dict, name, dtype)."""
        for module in self.model.modules():
            for name, parameter in module._parameters.items():
                dtype = getattr(self.policies.get(id(parameter)), "param_dtype", None)
                if dtype is not None and torch.is_floating_point(parameter) and not _is_frozen_part(module, parameter):
                    if parameter.dtype != dtype:
                        yield module._parameters, name, dtype


@contextlib.contextmanager
def cast_parameters(places):
    """In this context each parameter is replaced by its cast, which is made once."""
    casts, originals = {}, []
    for held, name, dtype in places:
        parameter = held[name]
        originals.append((held, name, parameter))
        if id(parameter) not in casts:
            casts[id(parameter)] = parameter.to(dtype)
        held[name] = casts[id(parameter)]
    try:
        yield
    finally:
        for held, name, parameter in originals:
            held[name] = parameter

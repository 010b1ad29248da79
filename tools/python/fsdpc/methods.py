"""Methods that count as forwards of their modules, as with FSDP2's register_fsdp_forward_method."""

import contextlib
import functools

import torch

from .errors import ExportError
from .patterns import matches


def _calls_as_forward(module, name, method):
    """Wraps the method so that it is called like the module itself: its operators belong to the
    module."""

    @functools.wraps(method)
    def call(*arguments, **named):
        held = module.__dict__

        def forward(*arguments, **named):
            restore()
            return method(*arguments, **named)

        def restore(before=held.get("forward")):
            held.pop("forward", None)
            if before is not None:
                held["forward"] = before

        held["forward"] = forward
        try:
            return torch.nn.Module.__call__(module, *arguments, **named)
        finally:
            restore()

    return call


def _find(model, methods):
    """(module, name of a method) for the modules of each pattern."""
    modules = dict(model.named_modules())
    for pattern, names in methods.items():
        if pattern == "":
            raise ExportError(
                'forward_methods: "" is the model itself, whose method that takes the batch method= '
                "names; others that it calls belong to it anyway"
            )
        found = [path for path in modules if path and matches(pattern, path)]
        if not found:
            raise ExportError(f"forward_methods: '{pattern}' matches no module of the model")
        for path in found:
            module = modules[path]
            for name in [names] if isinstance(names, str) else names:
                if not callable(getattr(module, name, None)):
                    raise ExportError(f"forward_methods: module '{path}' has no method '{name}'")
                if module._forward_hooks or module._forward_pre_hooks:
                    raise ExportError(
                        f"forward_methods: module '{path}' has hooks of its forward, which a method "
                        "does not run: remove them before the export"
                    )
                yield module, name


@contextlib.contextmanager
def as_forwards(model, methods):
    """In this context calls of these methods are calls of their modules.

    methods: from patterns of modules to names of methods, as {"vae": ["encode", "decode"]}.
    """
    replaced = []
    try:
        for module, name in _find(model, methods):
            method = getattr(module, name)
            replaced.append((module.__dict__, name, module.__dict__.get(name)))
            module.__dict__[name] = _calls_as_forward(module, name, method)
        yield
    finally:
        for held, name, before in replaced:
            held.pop(name)
            if before is not None:
                held[name] = before

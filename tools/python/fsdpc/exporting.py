"""From a module and a batch to a .pt2 file and the initial weights beside it."""

import contextlib
import copy
import inspect
import json
import os
import pathlib
import sys
import types

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from . import optimizers, precision
from . import weights as weights_file

#: In the archive: what torch.export does not keep (lib/Frontend/ExportedProgram.cpp reads it).
FACTS = "fsdpc.json"


class ExportError(RuntimeError):
    """A model that cannot be exported; the text names the reason and what to do."""


@contextlib.contextmanager
def meta_parameters():
    """Modules built in this context have parameters without values, on the meta device. Buffers
    keep theirs: tables that a module computes when it is made."""
    register = torch.nn.Module.register_parameter

    def register_on_meta(module, name, parameter):
        if parameter is not None and not parameter.is_meta:
            kind = type(parameter)
            parameter = kind(parameter.detach().to("meta"), requires_grad=parameter.requires_grad)
        register(module, name, parameter)

    torch.nn.Module.register_parameter = register_on_meta
    try:
        yield
    finally:
        torch.nn.Module.register_parameter = register


def find_loss(output):
    """The scalar that a forward returns: itself, `.loss` or ["loss"] of an output of transformers,
    or the first of a tuple."""
    if isinstance(output, dict) and "loss" in output:
        output = output["loss"]
    elif getattr(output, "loss", None) is not None:
        output = output.loss
    elif isinstance(output, (tuple, list)) and output:
        output = output[0]
    if not isinstance(output, torch.Tensor) or output.dim() != 0:
        what = list(output.shape) if isinstance(output, torch.Tensor) else type(output).__name__
        raise ExportError(
            f"the forward returns {what}, no scalar loss: give labels in the batch, or "
            "loss=function of (output, batch)"
        )
    return output


def name_batch(model, batch):
    """The batch as a dict by the names of forward's arguments."""
    if isinstance(batch, dict) or hasattr(batch, "items"):
        return dict(batch.items())
    if isinstance(batch, torch.Tensor):
        batch = (batch,)
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = inspect.signature(model.forward).parameters.values()
    names = [p.name for p in parameters if p.kind in kinds]
    if len(batch) > len(names):
        raise ExportError(
            f"the batch has {len(batch)} values, but forward takes {len(names)}: {', '.join(names)}"
        )
    return dict(zip(names, batch))


def as_step(model, batch, loss=None, mixed=None):
    """A module that is `model` (the same parameters, buffers and submodules under the same names),
    whose forward takes the batch by name and returns the scalar loss. Also what FSDP2 may run, if it
    does not cast itself (`mixed`)."""
    step = copy.copy(model)  # shares what __dict__ refers to: _parameters, _modules, ...
    forward = model.forward
    if getattr(forward, "__self__", None) is model:
        forward = types.MethodType(forward.__func__, step)
    parameters = inspect.signature(model.forward).parameters
    takes_all = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
    names = list(batch)
    given = [name for name in names if takes_all or name in parameters]
    if loss is None and len(given) < len(names):
        unknown = [name for name in names if name not in given]
        raise ExportError(f"forward takes no {', '.join(unknown)}; only a loss= could use them")
    positional = {
        name
        for name, p in parameters.items()
        if p.kind in (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.VAR_POSITIONAL)
    }

    places = list(mixed.places()) if mixed else []
    root = mixed.root if mixed else None

    def run_mixed(leading, rest):
        mixed.begin()
        with precision.cast_parameters(places):
            if root is not None:
                leading, rest = precision.cast_arguments(root, leading, rest)
            output = forward(*leading, **rest)
        return output if root is None else precision.cast_result(root, output)

    def run(self, *values, **named):
        batch = {**dict(zip(names, values)), **named}
        leading = [batch[name] for name in given if name in positional]
        rest = {name: batch[name] for name in given if name not in positional}
        if mixed is None:
            output = forward(*leading, **rest)
        else:
            output = run_mixed(leading, rest)
        return find_loss(output if loss is None else loss(output, batch))

    step.forward = types.MethodType(run, step)
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    run.__signature__ = inspect.Signature(
        [inspect.Parameter("self", kind), *(inspect.Parameter(name, kind) for name in names)]
    )
    return step


@contextlib.contextmanager
def _without_cache(model):
    """transformers: keys and values of a training step are for nobody later."""
    config = getattr(model, "config", None)
    before = getattr(config, "use_cache", None)
    if before:
        config.use_cache = False
    try:
        yield
    finally:
        if before:
            config.use_cache = before


@contextlib.contextmanager
def _refusing_functions():
    """torch.export keeps the forward of a torch.autograd.Function and drops its backward."""
    apply = torch.autograd.Function.__dict__["apply"]

    def refuse(cls, *arguments, **options):
        if not cls.__module__.startswith("torch."):
            raise ExportError(
                f"torch.autograd.Function '{cls.__module__}.{cls.__qualname__}' has a backward of "
                "its own, which torch.export drops: make it an operator with "
                "torch.library.custom_op and register_autograd, or write the forward so that "
                "autograd's backward is wanted"
            )
        return apply.__func__(cls, *arguments, **options)

    torch.autograd.Function.apply = classmethod(refuse)
    try:
        yield
    finally:
        torch.autograd.Function.apply = apply


@contextlib.contextmanager
def _as_in_training():
    """The model is told that nobody compiles or exports it, and takes the path that it takes in
    training; else it may prepare for other shapes and consumers (a mask that attends to everything,
    say, where eager attention gets none), and other kernels run. torch itself is told the truth."""
    asked = {name: getattr(torch.compiler, name) for name in ("is_exporting", "is_compiling")}

    def hide(function):
        def answer():
            asking = sys._getframe(1).f_globals.get("__name__", "")
            return asking.split(".")[0] == "torch" and function()

        return answer

    for name, function in asked.items():
        setattr(torch.compiler, name, hide(function))
    try:
        yield
    finally:
        for name, function in asked.items():
            setattr(torch.compiler, name, function)


def _run_export(step, batch, quiet):
    try:
        with _as_in_training():
            return torch.export.export(step, (), batch, strict=False)
    except ExportError:
        raise
    except Exception as error:
        first = error
    # Some models leave out checks of values where they are exported.
    try:
        program = torch.export.export(step, (), batch, strict=False)
    except ExportError:
        raise
    except Exception as error:
        raise ExportError(_explain(error)) from error
    if not quiet:
        print("fsdpc.export: note: the path of training cannot be exported, that of exports is taken, "
              f"whose numbers may round differently: {str(first).splitlines()[0]}",
              file=sys.stderr)  # fmt: skip
    return program


#: What torch.export refuses, and the usual remedy: words of its error, advice.
_REMEDIES = (
    ("data-dependent", "the shape or the path depends on values: write it with torch.where and "
     "fixed shapes; mixtures of experts of transformers: model.set_experts_implementation("
     "'batched_mm')"),
    ("unbacked", "a shape depends on values: write the model with fixed shapes"),
    ("vmap", "build the model with attn_implementation='eager' or 'sdpa'"),
    ("Mutating", "a buffer or attribute is assigned in forward: register it as a buffer and write "
     "it in place, or compute it before"),
)  # fmt: skip


def _explain(error):
    text = str(error).strip() or type(error).__name__
    advice = next((advice for words, advice in _REMEDIES if words in text), None)
    first = text.splitlines()[0]
    return f"torch.export refuses the model: {first}" + (f"\n  remedy: {advice}" if advice else "")


def _check_operators(program):
    """The binary has no Python: an operator that is defined in Python has no kernel there."""
    for module in program.graph_module.modules():
        for node in getattr(module, "graph", torch.fx.Graph()).nodes:
            if getattr(node.target, "_defined_in_python", False):
                text = f"operator '{node.target}' is defined in Python, and the training binary has none"
                if "grouped_mm" in str(node.target):
                    text += (
                        "\n  remedy: model.set_experts_implementation('batched_mm') (transformers)"
                    )
                raise ExportError(text)


def _aliases(model):
    """Further names of parameters and buffers, each with the first."""
    first, aliases = {}, {}
    for listing in (model.named_parameters, model.named_buffers):
        for name, tensor in listing(remove_duplicate=False):
            if id(tensor) in first:
                aliases[name] = first[id(tensor)]
            else:
                first[id(tensor)] = name
    return aliases


def _strip(program):
    """Takes the values of the state_dict out of the program: they go to a file of their own."""
    parameters = set(program.graph_signature.parameters)
    for name, tensor in list(program.state_dict.items()):
        bare = torch.empty_strided(
            tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta"
        )
        if name in parameters:
            bare = torch.nn.Parameter(bare, requires_grad=tensor.requires_grad)
        program.state_dict[name] = bare
    program._example_inputs = None


@contextlib.contextmanager
def _standing_in(model, batch):
    """While torch exports, fake tensors on a CPU stand in for parameters and buffers on meta, so that
    they meet other buffers and inputs there; yields the batch to export with."""
    if not any(parameter.is_meta for parameter in model.parameters()):
        yield batch
        return
    mode = FakeTensorMode(allow_non_fake_inputs=True)

    def fake(tensor):
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")

    originals, fakes = [], {}
    with mode:
        for module in model.modules():
            for held in (module._parameters, module._buffers):
                for name, tensor in held.items():
                    if tensor is None or not tensor.is_meta:
                        continue
                    originals.append((held, name, tensor))
                    if id(tensor) not in fakes:
                        fakes[id(tensor)] = fake(tensor)
                        if held is module._parameters:
                            fakes[id(tensor)] = torch.nn.Parameter(
                                fakes[id(tensor)], requires_grad=tensor.requires_grad
                            )
        batch = {name: fake(value) if isinstance(value, torch.Tensor) else value
                 for name, value in batch.items()}  # fmt: skip
    for held, name, tensor in originals:
        held[name] = fakes[id(tensor)]
    try:
        with mode:
            yield batch
    finally:
        for held, name, tensor in originals:
            held[name] = tensor


def _separate(batch):
    """The batch with each tensor once: torch.export takes two names of one tensor for one input."""
    seen, separate = set(), {}
    for name, value in batch.items():
        if isinstance(value, torch.Tensor):
            if id(value) in seen:
                value = value.clone()
            seen.add(id(batch[name]))
        separate[name] = value
    return separate


def _check_buffers(model):
    stored = model.state_dict().keys()
    for name, buffer in model.named_buffers():
        if buffer.is_meta and name not in stored:
            raise ExportError(
                f"'{name}' is no part of the state_dict and has no values (it is on meta): build "
                "the model inside fsdpc.meta_parameters(), which leaves buffers real"
            )


def _facts(model, optimizer):
    facts = {"aliases": _aliases(model)}
    if optimizer is not None:
        try:
            facts["optimizer"] = optimizers.describe(model, optimizer)
        except optimizers.OptimizerError as error:
            raise ExportError(str(error)) from error
    return facts


def _precision(model, policies):
    if policies is None:
        return None
    try:
        return precision.Precision(model, policies)
    except precision.PrecisionError as error:
        raise ExportError(str(error)) from error


def export(model, batch, path, loss=None, *, optimizer=None, mixed_precision=None, weights=None,
           shard_bytes=5 << 30, quiet=False):  # fmt: skip
    """Writes `model`'s training step to `path` (.pt2), and its parameters and buffers beside it.

    batch: a dict by the names of forward's arguments, a tuple in their order, or one tensor; its
        shapes and dtypes are those of the step. Values may be on meta.
    loss: function of (output, batch) that returns a scalar. Absent: the forward returns the loss,
        alone, as `.loss` (transformers, with labels in the batch) or as the first of a tuple.
        What forward does not take of the batch is the loss's alone.
    optimizer: torch.optim.SGD, Adam or AdamW of the model's parameters. Its values and those of its
        parameter groups become the step's; flags of fsdpc and its --config win over them.
    mixed_precision: torch.distributed.fsdp.MixedPrecisionPolicy of the model, or a dict of them from
        patterns of modules ("layers.*", "**.norm"; "" is the model; a tuple of paths is one group) in
        the order in which FSDP2's fully_shard is called. Casts of parameters, of modules' arguments
        and of their results become operators of the program; the groups of these modules take
        reduce_dtype from here, too, unless fsdpc's --config says otherwise.
    weights: where parameters and persistent buffers go, as safetensors; default: `path` with
        .safetensors, or shards and an index if they have more than `shard_bytes`. They are written
        one by one. Where parameters are on meta, there is none.

    Returns the paths written. Raises ExportError.
    """
    path = pathlib.Path(path)
    if path.suffix != ".pt2":
        raise ExportError(f"'{path}' does not end in .pt2")
    if not model.training and not quiet:
        print("fsdpc.export: note: the model is in eval mode: no dropout, frozen statistics; "
              "model.train() changes that", file=sys.stderr)  # fmt: skip
    if mixed_precision is not None and not isinstance(mixed_precision, dict):
        mixed_precision = {"": mixed_precision}
    _check_buffers(model)
    batch = name_batch(model, batch)
    batch = _separate(batch)
    has_values = not any(parameter.is_meta for parameter in model.parameters())
    facts = _facts(model, optimizer)
    with contextlib.ExitStack() as stack:
        stack.enter_context(_without_cache(model))
        stack.enter_context(_refusing_functions())
        batch = stack.enter_context(_standing_in(model, batch))
        mixed = _precision(model, mixed_precision)
        if mixed:
            facts["mixed_precision"] = mixed.describe(mixed_precision)
            stack.enter_context(mixed.hooks())
        program = _run_export(as_step(model, batch, loss, mixed), batch, quiet)
    _check_operators(program)
    tensors = dict(program.state_dict) if has_values else {}
    _strip(program)
    partial = path.with_name(path.name + ".partial.pt2")
    torch.export.save(program, partial, extra_files={FACTS: json.dumps(facts)})
    os.replace(partial, path)
    written = [path]
    if tensors:
        unique = {name: t for name, t in tensors.items() if name not in facts["aliases"]}
        target = pathlib.Path(weights or path.with_suffix(".safetensors"))
        written += weights_file.save(target, unique, shard_bytes, quiet)
    return written

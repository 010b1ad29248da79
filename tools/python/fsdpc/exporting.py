"""From a module and a batch to a .pt2 file and the initial weights beside it."""

import contextlib
import gc
import io
import json
import pathlib

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from . import effects, methods, optimizers, output, pairs, precision, shared_memory, specialization, subclasses, tracing
from . import weights as weights_file
from .errors import ExportError, note
from .ranks import Ranks, note_stored_ranks
from .state import memory
from .steps import name_batch, running_as_step

#: File in the archive for facts that torch.export does not keep (lib/Frontend/ExportedProgram.cpp
#: reads it).
FACTS = "fsdpc.json"


@contextlib.contextmanager
def meta_parameters():
    """Modules built in this context have parameters without values, on the meta device. Buffers
    keep their values, for example tables that a module computes when it is made, and so do tensor subclasses."""
    register = torch.nn.Module.register_parameter

    def register_on_meta(module, name, parameter):
        if parameter is not None and not parameter.is_meta and not subclasses.is_subclass(parameter):
            kind = type(parameter)
            parameter = kind(parameter.detach().to("meta"), requires_grad=parameter.requires_grad)
        register(module, name, parameter)

    torch.nn.Module.register_parameter = register_on_meta
    try:
        yield
    finally:
        torch.nn.Module.register_parameter = register


def _aliases(model):
    """Further names of shared parameters and buffers, each with the first name."""
    first, aliases = {}, {}
    for listing in (model.named_parameters, model.named_buffers):
        for name, tensor in listing(remove_duplicate=False):
            if id(tensor) in first:
                aliases[name] = first[id(tensor)]
            else:
                first[id(tensor)] = name
    return aliases


def _strip(program):
    """Removes the values of the state_dict from the program: they go to a separate file."""
    parameters = set(program.graph_signature.parameters)
    for name, tensor in list(program.state_dict.items()):
        bare = torch.empty_strided(
            tensor.shape, tensor.stride(), dtype=tensor.dtype, device="meta"
        )
        if name in parameters:
            bare = torch.nn.Parameter(bare, requires_grad=tensor.requires_grad)
        program.state_dict[name] = bare
    program._example_inputs = None


def _separate_constants(program):
    """Copies constants that are different views of one memory, so that the file has a record for each of them, and dense ones
    that are parts of a memory, of which torch warns."""
    first = {}
    for name, tensor in program.constants.items():
        if isinstance(tensor, torch.Tensor) and not tensor.is_meta:
            storage = tensor.untyped_storage()
            view = (tensor.storage_offset(), tensor.shape, tensor.stride())
            is_part = tensor.is_contiguous() and tensor.nbytes < storage.nbytes()
            if first.setdefault(storage.data_ptr(), view) != view or is_part:
                program.constants[name] = tensor.clone()


@contextlib.contextmanager
def _standing_in(model, batch):
    """While torch exports, fake CPU tensors replace parameters and buffers on meta, so that they are
    on the same device as other buffers and inputs. Yields the batch to export with."""
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
    """The batch with a copy of each repeated tensor, since torch.export takes two names of one
    tensor for one input."""
    seen, separate = set(), {}
    for name, value in batch.items():
        if isinstance(value, torch.Tensor):
            if id(value) in seen:
                value = value.clone()
            seen.add(id(batch[name]))
        separate[name] = value
    return separate


def _input_names(program, batch):
    """The batch's names of tensors by torch.export's names, where these differ: torch.export changes capitals."""
    tensors = [name for name, value in batch.items() if isinstance(value, torch.Tensor)]
    made = [node.name for node in program.graph.nodes
            if node.name in program.graph_signature.user_inputs and isinstance(node.meta["val"], torch.Tensor)]  # fmt: skip
    if len(made) != len(tensors):
        return {}  # tensors in lists or dicts of the batch have names of torch.export
    return {new: name for new, name in zip(made, tensors) if new != name}


def _check_dense(name, tensor):
    if tensor.layout is not torch.strided:
        raise ExportError(
            f"'{name}' is a sparse tensor, and a step has dense ones only: make it dense, or compute with its indices and "
            "values"
        )


def _check_inputs(batch):
    for name, value in batch.items():
        if isinstance(value, torch.Tensor) and value.is_complex():
            raise ExportError(
                f"input '{name}' is {value.dtype}, and a step has real ones only: make it torch.view_as_real of its values, "
                "and let the forward take torch.view_as_complex of that"
            )


def _check_buffers(model):
    stored = model.state_dict().keys()
    for name, buffer in model.named_buffers():
        _check_dense(name, buffer)
        if buffer.is_meta and name not in stored:
            raise ExportError(
                f"'{name}' is no part of the state_dict and has no values (it is on meta): build "
                "the model inside fsdpc.meta_parameters(), which leaves buffers real"
            )


def _check_constants(program):
    """Refuses constants that are sparse, or memory of a tensor which requires a gradient: a parameter of the loss, for
    example, or what another forward has left. torch.export detaches constants, so such tensors are found among all that
    exist."""
    constants = {name: value for name, value in program.constants.items() if isinstance(value, torch.Tensor)}
    for name, value in constants.items():
        _check_dense(name, value)
    names = {memory(value): name for name, value in constants.items()}
    for value in gc.get_objects() if names else []:
        if issubclass(type(value), torch.Tensor) and value.requires_grad:
            name = names.get(memory(value))
            if name is not None:
                raise ExportError(
                    f"the step uses a tensor {list(value.shape)} ('{name}' in torch.export's program) that requires a "
                    "gradient and is no parameter of the model: it would be a constant. Make it a parameter, with the "
                    "loss as a submodule that the model's forward calls; or detach it"
                )


def _facts(model, optimizer, grad_scaler, stand_in):
    facts = {"aliases": _aliases(model)}
    scaling = optimizers.describe_scaler(grad_scaler)
    if scaling is not None:
        facts["loss_scale"] = scaling
    if optimizer is not None:
        facts["optimizer"] = optimizers.describe(model, optimizer, stand_in)
    return facts


def _print_notes(model, batch, optimizer):
    """Notes inputs that a training binary will refuse, and facts that are not exported."""
    if not model.training:
        note("the model is in eval mode: no dropout, frozen statistics; model.train() changes that")
    samples = {name: list(value.shape[:1]) for name, value in batch.items() if isinstance(value, torch.Tensor)}
    first = next(iter(samples), None)
    for name, size in samples.items():
        if not size or size != samples[first]:
            have = f"'{name}' of the batch has " + (f"{size[0]} samples, '{first}' {samples[first][0]}" if size else "no dimension")
            note(f"{have}: a training binary reads inputs whose first dimension counts samples, the same number in "
                  "each. Make a tensor for all samples a buffer, and give several rows of one sample a second dimension")  # fmt: skip
            break
    # Adagrad has its state before the first step.
    if optimizer is not None and any(state.get("step", 1) for state in optimizer.state.values()):
        note("the optimizer's state is not exported: training begins with a new state. --resume takes a checkpoint")


def export(model, batch, path, loss=None, *, method="forward", forward_methods=None,
           optimizer=None, grad_scaler=None, mixed_precision=None, specialize=False, ranks=None, weights=None,
           shard_bytes=5 << 30, quiet=False):  # fmt: skip
    """Writes `model`'s training step to `path` (.pt2), and its parameters and buffers beside it.

    batch: a dict by the names of forward's arguments, a tuple in their order, or one tensor; its
        shapes and dtypes are those of the step. Values may be on meta.
    loss: function of (output, batch) that returns a scalar. Absent: the forward returns the loss,
        alone, as `.loss` (transformers, with labels in the batch) or as the first of a tuple.
        Tensors of the batch that forward does not take are for the loss only.
    method: the model's method that takes the batch in forward's place, by name; or a function of
        (model, ...) that calls several of them, as a training loop does.
    forward_methods: methods that are forwards of their modules, beside forward itself: names by
        patterns of modules, {"vae": ["encode", "decode"]}. Operators of such a method belong to
        its module, whose group is gathered for it (FSDP2's register_fsdp_forward_method).
    optimizer: torch.optim.SGD, Adam, AdamW, RMSprop, Adagrad, Adamax, NAdam, RAdam or Adadelta of the
        model's parameters. Its values and those of its parameter groups become the step's; flags of
        fsdpc and its --config override them.
    grad_scaler: torch.amp.GradScaler. The step scales its loss as this one does, from its present
        scale on.
    mixed_precision: torch.distributed.fsdp.MixedPrecisionPolicy of the model, or a dict of them from
        patterns of modules ("layers.*", "**.norm"; "" is the model; a tuple of paths is one group) in
        the order in which FSDP2's fully_shard is called. Casts of parameters, of modules' arguments
        and of their results become operators of the program; the groups of these modules take
        reduce_dtype from here, too, unless fsdpc's --config says otherwise.
    specialize: branches, whole numbers and shapes that depend on values of the batch are those of this
        batch. A step of the training binary ends with an error if its batch has others.
    ranks: the number of ranks of the run, if the forward has collectives (torch.distributed) or asks for it.
    weights: where parameters and persistent buffers go, as safetensors; default: `path` with
        .safetensors, or shards and an index if they have more than `shard_bytes`. They are written
        one by one. If parameters are on meta, no weights are written.

    Returns the paths written. The files are put in place when all of them are complete. Raises ExportError,
    and OSError where a path cannot be written.
    """
    path = pathlib.Path(path)
    if path.suffix != ".pt2":
        raise ExportError(f"'{path}' does not end in .pt2")
    for name, value, kind in (("model", model, torch.nn.Module), ("optimizer", optimizer, torch.optim.Optimizer)):
        if not isinstance(value, kind) and (name, value) != ("optimizer", None):
            raise ExportError(f"{name} is {type(value).__name__} {value!r:.60}, expected a torch {kind.__name__}")
    if ranks is not None and (type(ranks) is not int or ranks < 1):
        raise ExportError(f"ranks is {ranks!r:.60}, expected a whole number of at least 1")
    weights = pathlib.Path(weights or path.with_suffix(".safetensors"))
    has_values = not any(parameter.is_meta for parameter in model.parameters())
    for file in (path, weights) if has_values else (path,):
        output.find_target(file)  # refuses a bad path before the work
    if mixed_precision is not None and not isinstance(mixed_precision, dict):
        mixed_precision = {"": mixed_precision}
    batch = name_batch(model, batch, method)
    _check_inputs(batch)
    effects.check_parameters(model)
    if not quiet:
        _print_notes(model, batch, optimizer)
        if ranks is not None and ranks > 1:
            note_stored_ranks(model)
    batch = _separate(batch)
    with contextlib.ExitStack() as stack:
        unwrapped = stack.enter_context(subclasses.unwrapped(model))
        paired = stack.enter_context(pairs.standing_in(model))
        if not quiet:
            paired.print_note()
        _check_buffers(model)
        shared_memory.check_parameters(model)
        facts = _facts(model, optimizer, grad_scaler, unwrapped.stand_in() | paired.stand_in)
        example = specialization.Example(model, batch if specialize else None)
        stack.enter_context(tracing.without_cache(model))
        stack.enter_context(methods.as_forwards(model, forward_methods or {}))
        batch = stack.enter_context(_standing_in(model, batch))
        mixed = None
        if mixed_precision is not None:
            mixed = precision.Precision(model, mixed_precision)
            facts["mixed_precision"] = mixed.describe(mixed_precision)
            stack.enter_context(mixed.hooks())
        unwrapped.check(mixed)
        paired.check(mixed)
        stack.enter_context(running_as_step(model, batch, loss, mixed, method, (unwrapped.made, paired.made)))
        program = tracing.run_export(model, batch, example, Ranks(ranks), quiet)
    if ranks is not None:
        facts["ranks"] = ranks
    tracing.check_operators(program)
    _check_constants(program)
    shared_memory.check_buffers(model, program)
    facts["inputs"] = _input_names(program, batch)
    tensors = dict(program.state_dict) if has_values else {}
    _strip(program)
    _separate_constants(program)
    archive = io.BytesIO()
    torch.export.save(program, archive, extra_files={FACTS: json.dumps(facts)})
    with output.Files() as files:
        files.open(path).write(archive.getbuffer())
        written = [path]
        if tensors:
            unique = {name: t for name, t in tensors.items() if facts["aliases"].get(name) not in tensors}
            written += weights_file.save(files, weights, unique, shard_bytes, quiet)
    return written

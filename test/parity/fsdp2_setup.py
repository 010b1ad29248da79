"""The optimizer and the calls of FSDP2 that a run of the oracle (oracle.Run) asks for."""

import fnmatch
import functools

import torch
import torch.distributed as dist

import extensions_of_fsdp2
from state_dtypes_of_torch import StateInDtypes


def matches_path(pattern, path):
    """As the patterns of a config file: `**` stands for any number of components."""
    if not pattern or not path:
        return all(part == "**" for part in pattern) and not path
    if pattern[0] == "**":
        return matches_path(pattern[1:], path) or matches_path(pattern, path[1:])
    return fnmatch.fnmatchcase(path[0], pattern[0]) and matches_path(pattern[1:], path[1:])


def matching_modules(model, pattern):
    """Modules but the root, in the model's order; there is one at least."""
    found = [
        module
        for name, module in model.named_modules()
        if name and matches_path(pattern.split("."), name.split("."))
    ]
    if not found:
        raise SystemExit(f"oracle: no module matches '{pattern}'")
    return found


def parameter_groups(run, named):
    """torch's parameter groups: a parameter belongs to the first of run's that names it."""

    def matches(group, name, parameter):
        return parameter.dim() <= group.get("max_dims", parameter.dim()) and any(
            matches_path(pattern.split("."), name.split("."))
            for pattern in group.get("parameters", ["**"])
        )

    members = [[] for _ in range(len(run.optimizer_groups) + 1)]
    for name, parameter in named:
        found = [i for i, g in enumerate(run.optimizer_groups) if matches(g, name, parameter)]
        members[found[0] if found else -1].append(parameter)
    values = [
        {key: value for key, value in group.items() if key not in ("parameters", "max_dims")}
        for group in run.optimizer_groups
    ]
    return [{"params": own, **value} for own, value in zip(members, [*values, {}]) if own]


OPTIMIZERS = {kind.__name__.lower(): kind for kind in (
    torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, torch.optim.Adagrad,
    torch.optim.Adamax, torch.optim.NAdam, torch.optim.RAdam, torch.optim.Adadelta)}  # fmt: skip


def make_optimizer(run, named):
    options = {
        "weight_decay": run.weight_decay,
        "momentum": run.momentum,
        "betas": run.betas,
        "eps": run.eps,
        "lr": run.lr,
    }
    options = {name: value for name, value in options.items() if value is not None}
    kind, groups = OPTIMIZERS[run.optimizer], parameter_groups(run, named)
    options |= {"foreach": False, **run.optimizer_options}
    if run.state_dtype is None:
        return kind(groups, **options)
    return StateInDtypes(kind, groups, run.state_dtype, **options)


def matching_groups(model, patterns):
    """fully_shard's calls, in order: each module that matches, or those of a,b,c together."""
    for pattern in patterns:
        if "," in pattern:
            yield [model.get_submodule(name) for name in pattern.split(",")]
            continue
        for module in matching_modules(model, pattern):
            yield module


def rank_ordered_reduce_scatter():
    """FSDP2's reduce-scatter with sums in rank order, which gloo promises for two ranks only."""
    from torch.distributed.fsdp._fully_shard._fsdp_collectives import DefaultReduceScatter

    class RankOrdered(DefaultReduceScatter):
        def __call__(self, output_tensor, input_tensor, group, op, async_op=False):
            parts = [torch.empty_like(input_tensor) for _ in range(group.size())]
            dist.all_gather(parts, input_tensor, group=group)
            count = output_tensor.numel()
            mine = slice(group.rank() * count, (group.rank() + 1) * count)
            # A PREMUL_SUM tells its factor where it is pickled only.
            factor = op.__getstate__()[1] if op == dist.ReduceOp.PREMUL_SUM else 1
            total = parts[0][mine] * factor
            for part in parts[1:]:
                total += part[mine] * factor
            if op == dist.ReduceOp.AVG:
                total /= group.size()
            output_tensor.copy_(total)

    return RankOrdered()


def axes_of(run):
    """Names and sizes of the model's mesh."""
    if run.replicas == 1 and not run.two_axes:
        return {"dp": run.ranks}
    return {"replicate": run.replicas, "shard": run.ranks // run.replicas}


@functools.cache
def mesh_of(names, sizes):
    """A process that runs several runs makes each mesh once, with its process groups."""
    from torch.distributed.device_mesh import init_device_mesh

    return init_device_mesh("cpu", sizes, mesh_dim_names=names)


def make_mesh(axes):
    return mesh_of(tuple(axes), tuple(axes.values()))


class OrderedAllReduce:
    """Takes the place of dist.all_reduce. While it `is_on`, it sums as rank_ordered_reduce_scatter() does."""

    def __init__(self):
        self.original, self.is_on = dist.all_reduce, False
        dist.all_reduce = self

    def __call__(self, tensor, op=dist.ReduceOp.SUM, group=None, **options):
        is_sum = op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG) and tensor.is_floating_point()
        if not (self.is_on and is_sum):
            return self.original(tensor, op=op, group=group, **options)
        parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size(group))]
        dist.all_gather(parts, tensor, group=group)
        total = sum(parts[1:], parts[0])
        tensor.copy_(total / len(parts) if op == dist.ReduceOp.AVG else total)


@functools.cache
def ordered_all_reduce():
    """The process's one: it is there before the recorder, which records the calls of it."""
    return OrderedAllReduce()


def reshard_of(text):
    return int(text) if text.isdigit() else {"true": True, "false": False, "none": None}[text]


def apply_checkpoints(run, model):
    """torch.utils.checkpoint around the forwards of modules, inside the hooks of FSDP2."""
    from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

    for pattern, kept in run.checkpoint.items():
        options = {"use_reentrant": False}
        if kept:
            operators = [getattr(torch.ops.aten, name).default for name in kept]
            options["context_fn"] = functools.partial(
                create_selective_checkpoint_contexts, operators
            )
        for module in matching_modules(model, pattern):
            module.forward = functools.partial(checkpoint, module.forward, **options)


def policy_of(fields):
    from torch.distributed.fsdp import MixedPrecisionPolicy

    return MixedPrecisionPolicy(**{
        key: getattr(torch, value) if isinstance(value, str) else value
        for key, value in fields.items()
    })  # fmt: skip


def placement_fn(named, asked, shards):
    """`shard_placement:` as FSDP2's shard_placement_fn of parameters that have these names."""
    from torch.distributed.tensor import Shard

    names = {id(parameter): name for name, parameter in named}
    rules = asked if isinstance(asked, dict) else {"**": asked}

    def place(parameter):
        path = names[id(parameter)].split(".")
        found = [dim for pattern, dim in rules.items() if matches_path(pattern.split("."), path)]
        if not found or found[0] != "largest":
            return Shard(found[0]) if found else None
        sizes = list(parameter.shape)
        even = [size for size in sizes if size % shards == 0]
        return Shard(sizes.index(max(even)) if even else 0)

    return place


def by_mesh(parameters):
    """Those that have gradients, by the mesh that they are on."""
    found = {}
    for parameter in parameters:
        if parameter.grad is not None:
            found.setdefault(getattr(parameter, "device_mesh", None), []).append(parameter)
    return list(found.values())


def norm_of(parameters, norm_type):
    """torch's norm of all gradients. Of parameters on several meshes, which torch does not stack, each
    mesh's norm is taken by itself."""
    norms = [
        torch.nn.utils.get_total_norm([parameter.grad for parameter in own], norm_type)
        for own in by_mesh(parameters)
    ]
    norms = [norm.full_tensor() if hasattr(norm, "full_tensor") else norm for norm in norms]
    return norms[0] if len(norms) == 1 else torch.linalg.vector_norm(torch.stack(norms), norm_type)


def clip_gradients(parameters, max_norm, norm_type):
    """torch.nn.utils.clip_grad_norm_, also of parameters on several meshes."""
    meshes = by_mesh(parameters)
    if len(meshes) == 1:
        return torch.nn.utils.clip_grad_norm_(parameters, max_norm, norm_type)
    total = norm_of(parameters, norm_type)
    for own in meshes:
        torch.nn.utils.clip_grads_with_norm_(own, max_norm, total)
    return total


def share_above(parameters, value):
    """The share of this rank's gradients whose absolute value is above `value`."""
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    local = [gradient.to_local() if hasattr(gradient, "to_local") else gradient for gradient in gradients]
    count = sum(gradient.numel() for gradient in local)
    return sum(int((gradient.abs() > value).sum()) for gradient in local) / max(count, 1)


def shard(run, model, meshes):
    """`meshes`: that of run's mesh_of of each pattern, and the model's, of None."""
    from torch.distributed.fsdp import (
        CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, fully_shard, register_fsdp_forward_method,
    )  # fmt: skip

    options = {
        "mesh": meshes[None],
        "reshard_after_forward": reshard_of(run.reshard_after_forward),
    }
    if run.ignored:
        options["ignored_params"] = {
            parameter
            for name, parameter in model.named_parameters()
            if any(matches_path(p.split("."), name.split(".")) for p in run.ignored)
        }
    if run.mixed:
        options["mp_policy"] = MixedPrecisionPolicy(
            param_dtype=torch.bfloat16,
            reduce_dtype=run.reduce_dtype and getattr(torch, run.reduce_dtype),
        )
    named, shards = list(model.named_parameters()), run.ranks // run.replicas
    placements = {
        key: {"shard_placement_fn": placement_fn(named, asked, shards)}
        for key, asked in run.placement_of.items()
    }
    if run.placement is not None:
        options["shard_placement_fn"] = placement_fn(named, run.placement, shards)
    policies = {key: {"mp_policy": policy_of(p)} for key, p in (run.policies or {}).items()}
    # No device, nothing to pin for.
    offload = {key: {"offload_policy": CPUOffloadPolicy(pin_memory=False)} for key in run.cpu_offload}
    own_mesh = {key: {"mesh": meshes[key]} for key in run.mesh_of}
    of_call = lambda key: own_mesh.get(key, {}) | policies.get(key, {}) | placements.get(key, {}) | offload.get(key, {})
    for pattern in run.int8_gathers:
        found = [model] if not pattern else matching_modules(model, pattern)
        extensions_of_fsdp2.wrap_parameters(model, found)
    for pattern in run.group:
        own = options | of_call(pattern) | (
            {"reshard_after_forward": reshard_of(run.reshard_of[pattern])}
            if pattern in run.reshard_of
            else {}
        )
        for modules in matching_groups(model, [pattern]):
            fully_shard(modules, **own)
    if not run.stages:  # which are roots themselves
        fully_shard(model, **options | of_call(""))
    for module in model.modules():
        for method in getattr(module, "forward_methods", ()):
            register_fsdp_forward_method(module, method)
    for path, targets in run.forward_prefetch.items():
        targets = [model.get_submodule(target) for target in targets]
        model.get_submodule(path).set_modules_to_forward_prefetch(targets)
    for path, targets in run.backward_prefetch.items():
        targets = [model.get_submodule(target) for target in targets]
        model.get_submodule(path).set_modules_to_backward_prefetch(targets)
    extensions_of_fsdp2.set_rows(model, shards)
    model.noted_collectives = notes = []
    for name, module in model.named_modules():
        if not isinstance(module, FSDPModule):
            continue
        if run.det_rs:
            module.set_custom_reduce_scatter(rank_ordered_reduce_scatter())
        factor = run.divide_factor_of.get(name, run.gradient_divide_factor)
        if factor is not None:
            module.set_gradient_divide_factor(factor)
        if run.all_reduce_hook:
            module.set_all_reduce_hook(extensions_of_fsdp2.HOOKS[run.all_reduce_hook])
        if run.note_collectives:
            module.set_custom_all_gather(extensions_of_fsdp2.NotedAllGather(notes))
            module.set_custom_reduce_scatter(extensions_of_fsdp2.NotedReduceScatter(notes))
        if run.force_sum:
            module.set_force_sum_reduction_for_comms(True)
    return model


def set_communication(run, module, microbatch):
    """What FSDP2 does behind the backward of a microbatch; `module` is one of its roots."""
    is_last = microbatch + 1 == run.microbatches
    if run.mode != "fsdp2" or run.microbatches == 1:
        return
    if run.gradient_sync == "last":
        module.set_requires_gradient_sync(is_last)
    elif run.gradient_sync == "reduce_scatter":
        module.set_requires_all_reduce(is_last)
    if not run.reshard_after_backward:
        module.set_reshard_after_backward(is_last)

#!/usr/bin/env python3
"""The reference: trains a model with PyTorch itself on CPU and writes down what happened.

    oracle.py --model '{"model": "llama", "dim": 64, "batch": 2}' --data FILE.safetensors \
              --ranks 2 --steps 10 --group 'layers.*' --optimizer adamw --lr 1e-3 \
              --out run.json --save end.safetensors

--mode fsdp2 (default) runs torch.distributed.fsdp.fully_shard on spawned processes with gloo, ddp
runs DistributedDataParallel on the same, single one process on the batches of all ranks together.
--model holds fields of Config in test/models/models.py. The model's inputs are looked up by name in
the data file. With B samples per batch, rank r reads at step t (from 0) samples (t * ranks + r) * B
and following, modulo their number.

The JSON: `losses` (per rank, a C hex float per step), `grad_norms`, and of one steady-state step of
fsdp2 `events` and `collectives` in the words of fsdpc's report. Elements are those of the
collective's input. With --time, `step_ms`; with --memory, `peak_bytes` of the allocator in rank 0.
"""

import argparse
import dataclasses
import fnmatch
import functools
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools" / "python"), str(ROOT / "test" / "models")]

import models  # noqa: E402
import safetensors_io  # noqa: E402
from recorder import AllocationRecorder, step_recorder  # noqa: E402


@dataclasses.dataclass
class Run:
    """One training run; the command line's options under the same names."""

    model: dict
    data: str
    mode: str = "fsdp2"
    ranks: int = 2
    replicas: int = 1
    steps: int = 10
    group: list = dataclasses.field(default_factory=list)
    reshard_after_forward: str = "none"  # or a number
    reshard_of: dict = dataclasses.field(default_factory=dict)  # by pattern of `group`
    optimizer: str = "adamw"
    lr: float = 1e-3
    weight_decay: float | None = None
    momentum: float | None = None
    betas: tuple | None = None
    eps: float | None = None
    optimizer_options: dict = dataclasses.field(default_factory=dict)  # amsgrad, nesterov, ...
    #: Parameter groups, as `optimizer: groups:` of a config file.
    optimizer_groups: list = dataclasses.field(default_factory=list)
    clip_grad_norm: float | None = None
    clip_norm_type: str = "2"
    init: str | None = None
    det_rs: bool = False
    microbatches: int = 1
    microbatch_loss: str = "mean"
    gradient_sync: str = "each"
    reshard_after_backward: bool = True
    #: Paths of modules, "" the root, and of those that they prefetch.
    forward_prefetch: dict = dataclasses.field(default_factory=dict)
    backward_prefetch: dict = dataclasses.field(default_factory=dict)
    #: By pattern of modules: activation checkpointing, of all but these operators' results.
    checkpoint: dict = dataclasses.field(default_factory=dict)
    mixed: bool = False  # param_dtype bf16
    #: By pattern of `group`, "" the root: fields of MixedPrecisionPolicy, dtypes by name.
    policies: dict | None = None
    reduce_dtype: str | None = "float32"  # of `mixed`
    threads: int = 1
    time: bool = False
    memory: bool = False

    @property
    def config(self):
        return models.Config(**self.model)


def make_model(run):
    model = models.build(run.config)
    if run.init:
        values = safetensors_io.load(run.init)
        with torch.no_grad():
            for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
                if name in values:
                    tensor.copy_(values[name])
    return model


def matches_path(pattern, path):
    """As the patterns of a config file: `**` stands for any number of components."""
    if not pattern or not path:
        return all(part == "**" for part in pattern) and not path
    if pattern[0] == "**":
        return matches_path(pattern[1:], path) or matches_path(pattern, path[1:])
    return fnmatch.fnmatchcase(path[0], pattern[0]) and matches_path(pattern[1:], path[1:])


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


def make_optimizer(run, named):
    options = {
        "weight_decay": run.weight_decay,
        "momentum": run.momentum,
        "betas": run.betas,
        "eps": run.eps,
    }
    options = {name: value for name, value in options.items() if value is not None}
    kind = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    return kind[run.optimizer](
        parameter_groups(run, named), lr=run.lr, foreach=False, **options, **run.optimizer_options
    )


def matching_groups(model, patterns):
    """fully_shard's calls, in order: each module that matches, or those of a,b,c together."""
    names = [name for name, _ in model.named_modules() if name]

    def matches(name, pattern):
        parts, wanted = name.split("."), pattern.split(".")
        return len(parts) == len(wanted) and all(map(fnmatch.fnmatchcase, parts, wanted))

    for pattern in patterns:
        if "," in pattern:
            yield [model.get_submodule(name) for name in pattern.split(",")]
            continue
        found = [name for name in names if matches(name, pattern)]
        if not found:
            raise SystemExit(f"oracle: no module matches '{pattern}'")
        for name in found:
            yield model.get_submodule(name)


def rank_ordered_reduce_scatter():
    """FSDP2's reduce-scatter with sums in rank order, which gloo promises for two ranks only."""
    from torch.distributed.fsdp._fully_shard._fsdp_collectives import DefaultReduceScatter

    class RankOrdered(DefaultReduceScatter):
        def __call__(self, output_tensor, input_tensor, group, op, async_op=False):
            parts = [torch.empty_like(input_tensor) for _ in range(group.size())]
            dist.all_gather(parts, input_tensor, group=group)
            count = output_tensor.numel()
            mine = slice(group.rank() * count, (group.rank() + 1) * count)
            total = parts[0][mine].clone()
            for part in parts[1:]:
                total += part[mine]
            if op == dist.ReduceOp.AVG:
                total /= group.size()
            output_tensor.copy_(total)

    return RankOrdered()


def make_mesh(run):
    from torch.distributed.device_mesh import init_device_mesh

    if run.replicas == 1:
        return init_device_mesh("cpu", (run.ranks,), mesh_dim_names=("dp",))
    sizes = run.replicas, run.ranks // run.replicas
    return init_device_mesh("cpu", sizes, mesh_dim_names=("replicate", "shard"))


def reshard_of(text):
    return int(text) if text.isdigit() else {"true": True, "false": False, "none": None}[text]


def apply_checkpoints(run, model):
    """torch.utils.checkpoint around the forwards of modules, inside the hooks of FSDP2."""
    from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts

    for pattern, kept in run.checkpoint.items():
        found = [
            module
            for name, module in model.named_modules()
            if name and matches_path(pattern.split("."), name.split("."))
        ]
        assert found, pattern
        options = {"use_reentrant": False}
        if kept:
            operators = [getattr(torch.ops.aten, name).default for name in kept]
            options["context_fn"] = functools.partial(
                create_selective_checkpoint_contexts, operators
            )
        for module in found:
            module.forward = functools.partial(checkpoint, module.forward, **options)


def policy_of(fields):
    from torch.distributed.fsdp import MixedPrecisionPolicy

    return MixedPrecisionPolicy(**{
        key: getattr(torch, value) if isinstance(value, str) else value
        for key, value in fields.items()
    })  # fmt: skip


def shard(run, model, mesh):
    from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

    options = {
        "mesh": mesh,
        "reshard_after_forward": reshard_of(run.reshard_after_forward),
    }
    if run.mixed:
        options["mp_policy"] = MixedPrecisionPolicy(
            param_dtype=torch.bfloat16,
            reduce_dtype=run.reduce_dtype and getattr(torch, run.reduce_dtype),
        )
    policies = {key: {"mp_policy": policy_of(p)} for key, p in (run.policies or {}).items()}
    for pattern in run.group:
        own = options | policies.get(pattern, {}) | (
            {"reshard_after_forward": reshard_of(run.reshard_of[pattern])}
            if pattern in run.reshard_of
            else {}
        )
        for modules in matching_groups(model, [pattern]):
            fully_shard(modules, **own)
    fully_shard(model, **options | policies.get("", {}))
    for path, targets in run.forward_prefetch.items():
        targets = [model.get_submodule(target) for target in targets]
        model.get_submodule(path).set_modules_to_forward_prefetch(targets)
    for path, targets in run.backward_prefetch.items():
        targets = [model.get_submodule(target) for target in targets]
        model.get_submodule(path).set_modules_to_backward_prefetch(targets)
    if run.det_rs:
        for module in model.modules():
            if isinstance(module, FSDPModule):
                module.set_custom_reduce_scatter(rank_ordered_reduce_scatter())
    return model


class Batches:
    """The samples of each rank and step, in the order of fsdpc's training binary."""

    def __init__(self, run):
        data = safetensors_io.load(run.data)
        names = list(models.input_specs(run.config))
        missing = [name for name in names if name not in data]
        if missing:
            raise SystemExit(f"oracle: {run.data} lacks {missing}; it has {list(data)}")
        self.run, self.data = run, [data[name] for name in names]

    def __call__(self, rank, step):
        run = self.run  # `step` counts microbatches
        ranks = [rank] if run.mode != "single" else range(run.ranks)
        size = run.config.batch
        rows = [(step * run.ranks + r) * size + i for r in ranks for i in range(size)]
        return [tensor[torch.tensor(rows) % len(tensor)] for tensor in self.data]


def full(norm):
    return norm.full_tensor() if hasattr(norm, "full_tensor") else norm


def gradient_norm(parameters):
    grads = [p.grad for p in parameters if p.grad is not None]
    return full(torch.nn.utils.get_total_norm(grads)).item()


def set_communication(run, model, microbatch):
    """What FSDP2 does behind the backward of a microbatch."""
    is_last = microbatch + 1 == run.microbatches
    if run.mode != "fsdp2" or run.microbatches == 1:
        return
    if run.gradient_sync == "last":
        model.set_requires_gradient_sync(is_last)
    elif run.gradient_sync == "reduce_scatter":
        model.set_requires_all_reduce(is_last)
    if not run.reshard_after_backward:
        model.set_reshard_after_backward(is_last)


def train(run, rank):
    """Trains, as rank `rank` of run.ranks processes or alone; returns figures and parameters."""
    torch.set_num_threads(run.threads)
    allocations = AllocationRecorder() if run.memory else None
    model = make_model(run)
    apply_checkpoints(run, model)
    batches = Batches(run)
    if run.mode == "fsdp2":
        mesh = make_mesh(run)
        model = shard(run, model, mesh)
    network = model
    if run.mode == "ddp":
        network = torch.nn.parallel.DistributedDataParallel(model)
    parameters = list(model.parameters())
    optimizer = make_optimizer(run, list(model.named_parameters()))
    recorder = None
    if run.mode == "fsdp2" and not (run.time or run.memory):
        recorder = step_recorder()
        recorder.name_axes(mesh)

    losses, norms, step_ms = [], [], []
    for step in range(run.steps):
        batch = batches(rank, step * run.microbatches)
        if allocations:
            allocations.begin_step()
        begin = time.perf_counter()
        if recorder:
            recorder.begin_step()
        total = None
        for microbatch in range(run.microbatches):
            set_communication(run, model, microbatch)
            if recorder:
                recorder.phase = "forward"
            loss = network(*(batch or batches(rank, step * run.microbatches + microbatch)))
            batch = None
            if run.microbatches > 1 and run.microbatch_loss == "mean":
                loss = loss / run.microbatches
            if recorder:
                recorder.phase = "backward"
            loss.backward()
            total = loss.detach() if total is None else total + loss.detach()
        loss = total
        if recorder:
            recorder.end_step()
        if run.clip_grad_norm is not None:
            norm = torch.nn.utils.clip_grad_norm_(
                parameters, run.clip_grad_norm, float(run.clip_norm_type)
            )
            norms.append(full(norm).item())
        elif not (run.time or run.memory):
            norms.append(gradient_norm(parameters))
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item().hex())
        step_ms.append((time.perf_counter() - begin) * 1e3)
        del loss
    result = {"losses": losses, "grad_norms": norms}
    if allocations:
        result["peak_bytes"] = allocations.peak()
    if run.time:
        result["step_ms"] = step_ms
    if recorder:
        result |= {"events": recorder.events, "collectives": recorder.collectives}
    tensors = dict(model.named_parameters())
    if run.mode == "fsdp2":
        tensors = {name: tensor.full_tensor() for name, tensor in tensors.items()}
    tensors |= dict(model.named_buffers())
    return result, {name: tensor.detach().clone() for name, tensor in tensors.items()}


def worker(rank, runs, port, path):
    ranks = runs[0].ranks
    store = dist.TCPStore("127.0.0.1", port, ranks, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    results = []
    for run in runs:
        result, tensors = train(run, rank)
        everyone = [None] * ranks
        dist.all_gather_object(everyone, result)
        for other in everyone:
            for key in ("events", "collectives"):
                if other.get(key) != result.get(key):
                    raise SystemExit(f"oracle: ranks differ in their {key}")
        results.append((everyone, tensors))
    if rank == 0:
        torch.save(results, path)
    dist.barrier()
    sys.stdout.flush()
    sys.stderr.flush()
    # Tearing down gloo's threads at interpreter exit now and then aborts the process.
    os._exit(0)


def execute(runs):
    """Executes runs of one number of ranks, in the same processes one after another.

    Returns one (record, final parameters and buffers by name) per run.
    """
    if runs[0].mode == "single":
        results = []
        for run in runs:
            result, tensors = train(run, 0)
            results.append(([result], tensors))
    else:
        # A store on a port of the system's choice, served by this process.
        ranks = runs[0].ranks
        store = dist.TCPStore("127.0.0.1", 0, ranks, is_master=True, wait_for_workers=False)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "results.pt")
            torch.multiprocessing.spawn(worker, (runs, store.port, path), nprocs=ranks)
            results = torch.load(path, weights_only=False)
    return [
        (make_record(run, everyone), tensors) for run, (everyone, tensors) in zip(runs, results)
    ]


def make_record(run, everyone):
    record = dict(everyone[0], config=dataclasses.asdict(run), torch=torch.__version__)
    record["losses"] = [result["losses"] for result in everyone]
    if run.time:
        per_step = [max(times) for times in zip(*(result["step_ms"] for result in everyone))]
        record["step_ms"] = per_step
        record["median_step_ms"] = statistics.median(per_step[1:] or per_step)
    return record


def parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--model", type=json.loads, required=True, help="JSON object: fields of models.Config")
    add("--data", required=True, help="safetensors, one tensor per input of the model")
    add("--mode", choices=["fsdp2", "ddp", "single"], default="fsdp2")
    add("--ranks", type=int, default=2)
    add("--replicas", type=int, default=1, help="a mesh of replicas x shards; divides --ranks")
    add("--steps", type=int, default=10)
    add("--group", action="append", default=[], help="module pattern, or a,b,c for one group")
    add("--reshard-after-forward", default="none", metavar="true|false|none|RANKS")
    add("--optimizer", choices=["sgd", "adam", "adamw"], default="adamw")
    add("--lr", type=float, default=1e-3)
    add("--weight-decay", type=float)
    add("--momentum", type=float)
    add("--betas", type=lambda text: tuple(map(float, text.split(","))))
    add("--eps", type=float)
    add("--clip-grad-norm", type=float, help="clip_grad_norm_ before each optimizer's step")
    add("--init", help="safetensors with initial parameters and buffers")
    add("--det-rs", action="store_true", help="sum gradients in rank order")
    add("--threads", type=int, default=1, help="intra-op threads per process")
    add("--time", action="store_true", help="measure; record nothing else")
    add("--memory", action="store_true", help="trace the allocator; measure no time")
    add("--out", help="JSON record; standard output if absent")
    add("--save", help="safetensors with the final parameters and buffers")
    return parser.parse_args(arguments)


def main(arguments=None):
    options = vars(parse(arguments))
    out, save = options.pop("out"), options.pop("save")
    [(record, tensors)] = execute([Run(**options)])
    if save:
        safetensors_io.save(save, tensors)
    text = json.dumps(record, indent=1)
    if out:
        pathlib.Path(out).write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()

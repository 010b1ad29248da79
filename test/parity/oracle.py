#!/usr/bin/env python3
"""The reference: trains a model with PyTorch itself on CPU and writes down what happened.

    oracle.py --model '{"model": "llama", "dim": 64, "batch": 2}' --data FILE.safetensors \
              --ranks 2 --steps 10 --group 'layers.*' --optimizer adamw --lr 1e-3 \
              --out run.json --save end.safetensors

--mode fsdp2 (default) runs torch.distributed.fsdp.fully_shard on processes with gloo, ddp
runs DistributedDataParallel on the same, single one process on the batches of all ranks together.
--model holds fields of test/models/config.py. The model's inputs are looked up by name in
the data file. With B samples per batch, rank r reads at step t (from 0) samples (t * ranks + r) * B
and following, modulo their number.

The JSON: `losses` (per rank, a C hex float per step), `grad_norms`, and of one steady-state step of
fsdp2 `events` and `collectives` in the words of fsdpc's report. Elements are those of the collective's
input. Both leave out the gathers that no computation waits for: `dropped` names their groups. With
--time, `step_ms`; with --memory, `peak_bytes` of the allocator in rank 0.
"""

import argparse
import dataclasses
import json
import pathlib
import statistics
import sys
import time

import torch
import torch._dynamo  # which the first optimizer imports, with 200 others: before ranks are forked
import torch.distributed as dist
import torch.distributed.fsdp

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools" / "python"), str(ROOT / "test" / "models")]

import models  # noqa: E402
import safetensors_io  # noqa: E402
from fsdp2_setup import (  # noqa: E402
    OPTIMIZERS, apply_checkpoints, axes_of, clip_gradients, make_mesh, make_optimizer, matching_modules, norm_of,
    share_above,
    ordered_all_reduce, set_communication, shard,
)  # fmt: skip
import rank_processes  # noqa: E402
import stages_of_fsdp2  # noqa: E402
from recorder import AllocationRecorder, step_recorder  # noqa: E402

#: What a StepRecorder notes of a step, the same on every rank.
RECORDED = ("events", "collectives", "dropped", "whole")


@dataclasses.dataclass
class Run:
    """One training run; the command line's options under the same names."""

    model: dict
    data: str
    mode: str = "fsdp2"
    ranks: int = 2
    replicas: int = 1
    two_axes: bool = False  # also with one replica
    #: Of patterns of `group`, "" the root: a mesh of its own, sizes by axis, of names that no other has.
    mesh_of: dict = dataclasses.field(default_factory=dict)
    steps: int = 10
    group: list = dataclasses.field(default_factory=list)
    reshard_after_forward: str = "none"  # or a number
    reshard_of: dict = dataclasses.field(default_factory=dict)  # by pattern of `group`
    optimizer: str = "adamw"
    lr: float | None = None  # torch's default
    weight_decay: float | None = None
    momentum: float | None = None
    betas: tuple | None = None
    eps: float | None = None
    optimizer_options: dict = dataclasses.field(default_factory=dict)  # amsgrad, nesterov, ...
    state_dtype: dict | str | None = None  # as `optimizer: state_dtype:` of a config file
    #: Parameter groups, as `optimizer: groups:` of a config file.
    optimizer_groups: list = dataclasses.field(default_factory=list)
    #: Of all groups, and by path of a module that has a group, "" the root.
    gradient_divide_factor: float | None = None
    divide_factor_of: dict = dataclasses.field(default_factory=dict)
    force_sum: bool = False
    ignored: list = dataclasses.field(default_factory=list)  # patterns of parameters
    #: As `shard_placement:` of a config file; and by pattern of `group`, "" the root.
    placement: dict | int | str | None = None
    placement_of: dict = dataclasses.field(default_factory=dict)
    cpu_offload: list = dataclasses.field(default_factory=list)  # patterns of `group`, "" the root
    #: Patterns of `group`, "" the root, whose parameters travel as 8 bits with a scale.
    int8_gathers: list = dataclasses.field(default_factory=list)
    all_reduce_hook: str | None = None  # of extensions_of_fsdp2.HOOKS
    note_collectives: bool = False  # by set_custom_all_gather and set_custom_reduce_scatter
    clip_grad_norm: float | None = None
    clip_norm_type: str = "2"
    clip_grad_value: float | None = None
    loss_scale: float | None = None  # of torch.amp.GradScaler
    loss_scale_growth_factor: float = 2.0
    loss_scale_backoff_factor: float = 0.5
    loss_scale_growth_interval: int = 2000
    skip: list = dataclasses.field(default_factory=list)  # steps, from 0, without optimizer.step()
    #: Of a moving average of the parameters; the result has it as `ema.NAME`.
    ema_decay: float | None = None
    init: str | None = None
    det_rs: bool = False
    microbatches: int = 1
    microbatch_loss: str = "mean"
    gradient_sync: str = "each"
    reshard_after_backward: bool = True
    stages: list = dataclasses.field(default_factory=list)  # modules, interleaved in 1F1B order
    #: Paths of modules, "" the root, and of those that they prefetch.
    forward_prefetch: dict = dataclasses.field(default_factory=dict)
    backward_prefetch: dict = dataclasses.field(default_factory=dict)
    #: By pattern of modules: activation checkpointing, of all but these operators' results.
    checkpoint: dict = dataclasses.field(default_factory=dict)
    mixed: bool = False  # param_dtype bf16
    #: By pattern of `group`, "" the root: fields of MixedPrecisionPolicy, dtypes by name.
    policies: dict | None = None
    reduce_dtype: str | None = "float32"  # of `mixed`
    #: torch.compile of the modules of `group`, each by itself, as torchtitan does it.
    compile: bool = False
    threads: int = 1
    time: bool = False
    memory: bool = False

    @property
    def config(self):
        return models.Config(**self.model)


def as_in_file(tensor):
    """Complex tensors are pairs of reals in files."""
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def make_model(run):
    model = models.build(run.config)
    if run.init:
        values = safetensors_io.load(run.init)
        with torch.no_grad():
            for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
                if name in values:
                    as_in_file(tensor).copy_(values[name])
    return model


class Average:
    """As torch.optim.swa_utils.AveragedModel with get_ema_multi_avg_fn averages parameters. (AveragedModel
    copies the module, which FSDP2's modules refuse.)"""

    def __init__(self, decay):
        self.values, self.take = None, torch.optim.swa_utils.get_ema_multi_avg_fn(decay)

    def update(self, model):
        current = [parameter.detach() for parameter in model.parameters()]
        if self.values is None:
            self.values = [parameter.clone() for parameter in current]
        else:
            self.take(self.values, current, None)

    def tensors(self, model):
        names = [name for name, _ in model.named_parameters()]
        return {f"ema.{name}": full(value) for name, value in zip(names, self.values)}


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
    return full(norm_of(parameters, 2.0)).item()


def train(run, rank):
    """Trains, as rank `rank` of run.ranks processes or alone; returns figures and parameters."""
    torch.set_num_threads(run.threads)
    allocations = AllocationRecorder() if run.memory else None
    model = make_model(run)
    apply_checkpoints(run, model)
    if run.compile:
        if torch.backends.cpu.get_cpu_capability() == "AVX2":  # inductor asks the processor
            from torch._inductor import config

            config.cpp.simdlen = 256
        for pattern in run.group:
            for module in matching_modules(model, pattern):
                module.compile()
    batches = Batches(run)
    if run.mode != "single":
        ordered_all_reduce().is_on = run.det_rs and bool(run.mesh_of)
    if run.mode == "fsdp2":
        meshes = {None: make_mesh(axes_of(run))}
        meshes |= {pattern: make_mesh(axes) for pattern, axes in run.mesh_of.items()}
        model = shard(run, model, meshes)
        if run.stages:
            stages_of_fsdp2.share_communication(run, model)
    network = getattr(model, getattr(model, "entry", "__call__"))
    if run.mode == "ddp":
        network = torch.nn.parallel.DistributedDataParallel(model)
    parameters = list(model.parameters())
    optimizer = make_optimizer(run, list(model.named_parameters()))
    average = Average(run.ema_decay) if run.ema_decay else None
    # Without a scale it does nothing.
    scaler = torch.amp.GradScaler(
        "cpu", enabled=run.loss_scale is not None, init_scale=run.loss_scale or 1.0,
        growth_factor=run.loss_scale_growth_factor, backoff_factor=run.loss_scale_backoff_factor,
        growth_interval=run.loss_scale_growth_interval,
    )  # fmt: skip
    scales, skipped = [], []
    recorder = None
    if run.mode == "fsdp2" and not (run.time or run.memory):
        recorder = step_recorder()

    losses, norms, shares, step_ms = [], [], [], []
    for step in range(run.steps):
        batch = batches(rank, step * run.microbatches)
        if allocations:
            allocations.begin_step()
        begin = time.perf_counter()
        if recorder:
            recorder.begin_step()
        total = None
        if run.stages:
            microbatches = [batch] + [
                batches(rank, step * run.microbatches + m) for m in range(1, run.microbatches)
            ]
            total = stages_of_fsdp2.run_1f1b(run, model, microbatches, scaler, recorder)
        for microbatch in range(0 if run.stages else run.microbatches):
            set_communication(run, model, microbatch)
            if recorder:
                recorder.phase = "forward"
            loss = network(*(batch or batches(rank, step * run.microbatches + microbatch)))
            batch = None
            if run.microbatches > 1 and run.microbatch_loss == "mean":
                loss = loss / run.microbatches
            if recorder:
                recorder.phase = "backward"
            scaler.scale(loss).backward()
            total = loss.detach() if total is None else total + loss.detach()
        loss = total
        if recorder:
            recorder.end_step()
        scales.append(scaler.get_scale())
        if scaler.is_enabled():
            scaler.unscale_(optimizer)
            found = scaler._found_inf_per_device(optimizer).values()
            found_inf = sum(value.item() for value in found) > 0
        if run.clip_grad_norm is not None:
            norm = clip_gradients(parameters, run.clip_grad_norm, float(run.clip_norm_type))
            norms.append(full(norm).item())
        elif not (run.time or run.memory):
            norms.append(gradient_norm(parameters))
        if run.clip_grad_value is not None:
            shares.append(share_above(parameters, run.clip_grad_value))
            torch.nn.utils.clip_grad_value_(parameters, run.clip_grad_value)
        if step not in run.skip:
            scaler.step(optimizer)
            scaler.update()
            skipped.append(scaler.is_enabled() and found_inf)
            if average and not skipped[-1]:
                average.update(model)
        optimizer.zero_grad()
        losses.append(loss.item().hex())
        step_ms.append((time.perf_counter() - begin) * 1e3)
        del loss
    result = {"losses": losses, "grad_norms": norms}
    if scaler.is_enabled():
        result |= {"scales": scales, "skipped": skipped}
    if shares:
        result["clipped_shares"] = shares
    if run.note_collectives:
        result["noted"] = model.noted_collectives
    if allocations:
        result["peak_bytes"] = allocations.peak()
    if run.time:
        result["step_ms"] = step_ms
    if recorder:
        result |= {name: getattr(recorder, name) for name in RECORDED}
    tensors = dict(model.named_parameters())
    if run.mode == "fsdp2":
        tensors = {name: full(tensor) for name, tensor in tensors.items()}
    tensors |= dict(model.named_buffers())
    if average:
        tensors |= average.tensors(model)
    return result, {name: as_in_file(tensor.detach()).clone() for name, tensor in tensors.items()}


def train_on_rank(rank, runs):
    """Per run, what train() says on each rank, and the tensors, which are the same on all."""
    results = []
    for run in runs:
        result, tensors = train(run, rank)
        everyone = [None] * run.ranks
        dist.all_gather_object(everyone, result)
        for other in everyone:
            for key in RECORDED:
                if other.get(key) != result.get(key):
                    raise SystemExit(f"oracle: ranks differ in their {key}")
        results.append((everyone, tensors))
    return results


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
        is_measured = any(run.time or run.memory or run.compile for run in runs)
        results = rank_processes.call_on_ranks(
            runs[0].ranks, train_on_rank, runs, in_new_processes=is_measured
        )
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
    add("--optimizer", choices=list(OPTIMIZERS), default="adamw")
    add("--lr", type=float)
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


rank_processes.start_server()

if __name__ == "__main__":
    main()

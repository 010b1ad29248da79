"""What the parity tests share: a model's way through the tools, and the oracle's answers."""

import dataclasses
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

import torch

import oracle
from oracle import ROOT, models, safetensors_io

sys.path.insert(0, str(ROOT / "test" / "models"))
import export  # noqa: E402

#: The build folder's bin/, handed over by ctest.
TOOLS = pathlib.Path(os.environ.get("FSDP_TOOLS", ROOT / "build" / "release" / "bin"))

#: A run that takes longer than this hangs.
TIMEOUT_SECONDS = 300


def train_eagerly(model, optimizer, batches):
    """One step of a process that plays all ranks, each with its batch: their losses. Gradients are
    averaged in rank order."""
    losses, gradients = [], []
    for batch in batches:
        loss = model(*batch)
        losses.append(loss.item())
        gradients.append(torch.autograd.grad(loss, list(model.parameters())))
    for parameter, *parts in zip(model.parameters(), *gradients):
        parameter.grad = sum(parts[1:], parts[0]) / len(parts)
    optimizer.step()
    return losses


class CommandFailed(AssertionError):
    """A command's exit status or output is not what the test needs; holds the whole output."""


class Case(unittest.TestCase):
    def assert_fails(self, message, command, *arguments, **options):
        """Calls `command`, which must fail with `message` in what is said of it."""
        with self.assertRaises(CommandFailed) as raised:
            command(*arguments, **options)
        self.assertIn(message, str(raised.exception))


def describe(command, process):
    line = " ".join(map(str, command))
    return f"$ {line}\nexit status {process.returncode}\n{process.stdout}{process.stderr}"


def run(command, environment=None, check=True, timeout=TIMEOUT_SECONDS):
    """Runs a command; with check, a failure raises CommandFailed with all it printed."""
    process = subprocess.run(
        list(map(str, command)),
        env={**clean_environment(), **(environment or {})},
        capture_output=True,
        text=True,
        timeout=timeout,
    )
    if check and process.returncode != 0:
        raise CommandFailed(describe(command, process))
    return process


def clean_environment():
    """The environment without a launcher's variables, which would make a run part of another."""
    launchers = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "TORCHELASTIC_", "OMPI_", "SLURM_",
                 "PMI_")  # fmt: skip
    return {name: value for name, value in os.environ.items() if not name.startswith(launchers)}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@dataclasses.dataclass
class Optimizer:
    """A torch.optim optimizer and what differs from its defaults."""

    kind: str
    options: dict

    def flags(self):
        pairs = ((f"--{name.replace('_', '-')}", value) for name, value in self.options.items())
        return ["--optimizer", self.kind, *(str(text) for pair in pairs for text in pair)]


SGD = Optimizer("sgd", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01})
ADAMW = Optimizer("adamw", {"lr": 1e-3, "weight_decay": 0.1})


class Workspace:
    """One model in a folder of its own: its file, data, captured step and training binaries."""

    def __init__(self, config, optimizer=ADAMW, samples=52, folder=None):
        self.folder = pathlib.Path(folder or tempfile.mkdtemp(prefix="fsdpc-parity-"))
        self.config, self.optimizer = config, optimizer
        self.data = self.folder / "data.safetensors"
        safetensors_io.save(self.data, models.example_inputs(config, batch=samples))
        self.captured = self.folder / "captured.mlir"
        self.weights = self.folder / "initial.safetensors"

    def remove(self):
        shutil.rmtree(self.folder)

    def capture(self, form="script", flags=()):
        model = self.folder / ("model.pt2" if form == "pt2" else "model.pt")
        export.export(self.config, form, str(model))
        inputs = [] if form == "pt2" else models.input_flags(self.config)
        run([TOOLS / "fsdp-capture", model, *inputs, *flags, *self.optimizer.flags(),
             "--weights", self.weights, "-o", self.captured])  # fmt: skip

    def plan(self, ranks, reshard="none", layout="flat", config=None, more=""):
        """The captured step through the pipeline; returns the planned module and the report. `ranks`
        is their number, or a mesh as replicate=2,shard=2; `more` are further options of the
        pipeline."""
        mesh = ranks if isinstance(ranks, str) else f"dp={ranks}"
        name = re.sub("[ =,]", "-", f"{ranks}-{reshard}-{layout}{more}")
        planned, report = self.folder / f"{name}.mlir", self.folder / f"{name}.json"
        options = f"mesh={mesh} reshard-after-forward={reshard} layout={layout}"
        if config:
            options += f" config={config}"
        if more:
            options += f" {more}"
        options += f" report={report}"
        run([TOOLS / "fsdp-opt", self.captured, f"--fsdp-pipeline={options}", "-o", planned])
        return planned, report

    def compile(self, ranks, reshard="none", layout="flat", config=None, more=""):
        planned, _ = self.plan(ranks, reshard, layout, config, more)
        binary = planned.with_suffix("")
        run([TOOLS / "fsdp-compile", planned, "-o", binary])
        return binary

    def oracle_run(self, groups, ranks=2, **options):
        return oracle.Run(
            model=dataclasses.asdict(self.config),
            data=str(self.data),
            ranks=ranks,
            group=groups,
            optimizer=self.optimizer.kind,
            **self.optimizer.options,
            **options,
        )


def training_arguments(workspace, log, save, steps, extra=()):
    return ["--data", workspace.data, "--init", workspace.weights, "--steps", steps,
            "--log", log, "--save", save, *extra]  # fmt: skip


def start_ranks(binary, ranks, arguments):
    """Starts one process per rank, as a shell loop would: plain RANK, WORLD_SIZE, MASTER_*."""
    port = free_port()
    processes = []
    for rank in range(ranks):
        environment = {
            **clean_environment(),
            "RANK": str(rank),
            "WORLD_SIZE": str(ranks),
            "LOCAL_RANK": str(rank),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port),
        }
        processes.append(
            subprocess.Popen(
                [str(binary), *map(str, arguments)],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    return processes


def finish(processes, timeout=TIMEOUT_SECONDS):
    """Waits for all; returns (exit status, output) per rank. Kills what is left after timeout."""
    try:
        outputs = [process.communicate(timeout=timeout) for process in processes]
    except subprocess.TimeoutExpired as late:
        for process in processes:
            process.kill()
        rest = [process.communicate() for process in processes]
        raise CommandFailed(f"a rank did not end within {timeout} s: {rest}") from late
    return [(p.returncode, out + err) for p, (out, err) in zip(processes, outputs)]


def train(workspace, binary, ranks, steps, communicator="local", extra=()):
    """Runs the binary from the workspace's weights on its data: the log's lines of steps, and the weights at
    the end. The log stays in the workspace, as log.jsonl."""
    log, save = (workspace.folder / name for name in ("log.jsonl", "final.safetensors"))
    for path in (log, save):
        path.unlink(missing_ok=True)
    arguments = training_arguments(workspace, log, save, steps, ["--communicator", communicator, *extra])
    if communicator == "local":
        run([binary, "--ranks", ranks, *arguments])
    else:
        for rank, (status, output) in enumerate(finish(start_ranks(binary, ranks, arguments))):
            if status != 0:
                raise CommandFailed(f"rank {rank} ended with {status}:\n{output}")
    return read_log(log), safetensors_io.load(save)


def read_log(path):
    """The lines of steps."""
    lines = [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]
    return [line for line in lines if "loss" in line]


def bits(tensor):
    return tensor.contiguous().view(-1).view(torch.uint8)


def bitwise_difference(expected, actual):
    """None, or a sentence on the first tensor whose bits differ."""
    if set(expected) != set(actual):
        return f"names differ: {sorted(set(expected) ^ set(actual))}"
    for name, tensor in expected.items():
        other = actual[name]
        if (tensor.dtype, tensor.shape) != (other.dtype, other.shape):
            shapes = [f"{t.dtype}{list(t.shape)}" for t in (tensor, other)]
            return f"{name}: {shapes[0]}, got {shapes[1]}"
        if not torch.equal(bits(tensor), bits(other)):
            gap = (tensor.double() - other.double()).abs().max().item()
            return f"{name}: bits differ, by {gap:.3g} at most"
    return None

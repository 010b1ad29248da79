"""What the parity tests share: a model's way through the tools, and the oracle's answers."""

import dataclasses
import itertools
import json
import os
import pathlib
import re
import socket
import subprocess
import tempfile
import unittest

import torch

import oracle  # adds the folders of export and fsdpc
from oracle import ROOT, models, safetensors_io

import export
import fsdp2_setup
import fsdpc

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
    """A command's exit status or output is not what the test needs. The text is what was printed; the
    command itself is a note, so that no expected message is found in the command's own words."""

    def __init__(self, text, status=None):
        super().__init__(text)
        self.status = status


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
        failed = CommandFailed(process.stdout + process.stderr, process.returncode)
        failed.add_note(f"exit status {process.returncode} of: {' '.join(map(str, command))}")
        raise failed
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


#: Contents of files by what they were made of, see make_once().
MADE = {}


def make_once(key, paths, make):
    """Calls `make`, which writes these files, or writes what it wrote when it was called for this key. The key is all
    that the files depend on: no flags that name files."""
    if key in MADE:
        for path, content in zip(paths, MADE[key]):
            path.write_bytes(content)
    else:
        make()
        MADE[key] = [path.read_bytes() for path in paths]


@dataclasses.dataclass
class Optimizer:
    """A torch.optim optimizer and what differs from its defaults."""

    kind: str
    options: dict

    def flags(self):
        flags = ["--optimizer", self.kind]
        for name, value in self.options.items():
            flag = f"--{name.replace('_', '-')}"
            text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
            flags += [flag] if value is True else [flag, text]
        return flags


SGD = Optimizer("sgd", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01})
ADAMW = Optimizer("adamw", {"lr": 1e-3, "weight_decay": 0.1})


class Workspace:
    """One model in a folder of its own: its file, data, captured step and training binaries."""

    def __init__(self, config, optimizer=ADAMW, samples=52, folder=None):
        #: Removed by remove(), or at exit at the latest. A folder that the caller gives is the caller's.
        self.temporary = None if folder else tempfile.TemporaryDirectory(prefix="fsdpc-parity-")
        self.folder = pathlib.Path(folder or self.temporary.name)
        self.config, self.optimizer = config, optimizer
        self.data = self.folder / "data.safetensors"
        safetensors_io.save(self.data, models.example_inputs(config, batch=samples))
        self.captured = self.folder / "captured.mlir"
        self.weights = self.folder / "initial.safetensors"

    def remove(self):
        if self.temporary:
            self.temporary.cleanup()

    def capture(self, form="script", flags=()):
        model = self.folder / ("model.pt2" if form == "pt2" else "model.pt")
        inputs = [] if form == "pt2" else models.input_flags(self.config)
        flags = [*inputs, *flags, *self.optimizer.flags()]

        def make():
            export.export(self.config, form, str(model))
            run([TOOLS / "fsdp-capture", model, *flags, "--weights", self.weights, "-o", self.captured])

        make_once((repr(self.config), form, *map(str, flags)), (model, self.captured, self.weights), make)

    def export_package(self, name="model.pt2", model=None, policies=None, **options):
        """Exports the model (by default the configuration's) by the package fsdpc, with the workspace's
        weights; the file. `policies`: fields of FSDP2's policies by pattern, as of oracle.Run."""
        path = self.folder / name
        if policies is not None:
            options["mixed_precision"] = {
                tuple(pattern.split(",")) if "," in pattern else pattern: fsdp2_setup.policy_of(fields)
                for pattern, fields in policies.items()
            }
        fsdpc.export(model or models.build(self.config), models.example_inputs(self.config), path,
                     weights=self.weights, quiet=True, **options)  # fmt: skip
        return path

    def capture_package(self, **options):
        """Captures what export_package writes."""
        path = self.export_package(**options)
        run([TOOLS / "fsdp-capture", path, *self.optimizer.flags(), "-o", self.captured])

    def plan(self, ranks, reshard="none", layout="flat", config=None, more=""):
        """The captured step through the pipeline; returns the planned module and the report. `ranks`
        is their number, or a mesh as replicate=2,shard=2; `more` are further options of the
        pipeline."""
        mesh = ranks if isinstance(ranks, str) else f"dp={ranks}"
        name = re.sub("[ =,/]", "-", f"{ranks}-{reshard}-{layout}{more}")
        planned, report = self.folder / f"{name}.mlir", self.folder / f"{name}.json"
        options = f"mesh={mesh} reshard-after-forward={reshard} layout={layout}"
        if config:
            options += f" config={config}"
        if more:
            options += f" {more}"
        options += f" report={report}"
        run([TOOLS / "fsdp-opt", self.captured, f"--fsdp-pipeline={options}", "-o", planned])
        return planned, report

    def link(self, planned):
        """The training binary of a planned module."""
        binary = planned.with_suffix("")
        make = lambda: run([TOOLS / "fsdp-compile", planned, "-o", binary])
        make_once(planned.read_bytes(), [binary], make)
        binary.chmod(0o755)
        return binary

    def compile(self, ranks, reshard="none", layout="flat", config=None, more=""):
        planned, _ = self.plan(ranks, reshard, layout, config, more)
        return self.link(planned)

    def oracle_run(self, groups, ranks=2, optimizer_options=None, **options):
        """`optimizer_options`: beside those of the workspace's optimizer."""
        known = {field.name for field in dataclasses.fields(oracle.Run)}
        own = self.optimizer.options
        more = {name: value for name, value in own.items() if name not in known}
        return oracle.Run(
            model=dataclasses.asdict(self.config),
            data=str(self.data),
            ranks=ranks,
            group=groups,
            optimizer=self.optimizer.kind,
            optimizer_options=more | (optimizer_options or {}),
            **{name: value for name, value in own.items() if name in known},
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
    """Runs the binary from the workspace's weights on its data: the log's lines of the steps, of which there
    must be `steps`, and the weights at the end. The log stays in the workspace, as log.jsonl."""
    log, save = (workspace.folder / name for name in ("log.jsonl", "final.safetensors"))
    for path in (log, save):
        path.unlink(missing_ok=True)
    arguments = training_arguments(workspace, log, save, steps, ["--communicator", communicator, *extra])
    if communicator == "local":
        run([binary, "--ranks", ranks, *arguments])
    else:
        for rank, (status, output) in enumerate(finish(start_ranks(binary, ranks, arguments))):
            if status != 0:
                failed = CommandFailed(output, status)
                failed.add_note(f"exit status {status} of rank {rank}")
                raise failed
    lines = read_log(log)
    if len(lines) != steps:
        raise CommandFailed(f"the log has {len(lines)} steps of {steps}")
    return lines, safetensors_io.load(save)


def read_log(path):
    """The lines of steps."""
    lines = [json.loads(line) for line in pathlib.Path(path).read_text().splitlines()]
    return [line for line in lines if "loss" in line]


def bits(tensor):
    return tensor.contiguous().view(-1).view(torch.uint8)


def bitwise_difference(expected, actual):
    """None, or a sentence on the first tensor whose bits differ."""
    if not expected:
        return "there are no tensors to compare"
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


def lines(records):
    """One line per record, which makes unittest's difference of two lists readable."""
    return [" ".join(f"{key}={value}" for key, value in sorted(record.items())) for record in records]


def between_ranks(record, run):
    """The events and collectives that FSDP2 has in common with a compiled step: over an axis of one rank
    nothing is sent, and no group is gathered that is whole on its rank."""
    shards = run.ranks // run.replicas
    sizes = {"replicate": run.replicas, "shard": shards, "dp": run.ranks}
    for axes in run.mesh_of.values():
        sizes |= axes
    events = record["events"]
    if run.mesh_of:
        events = [e for e in events if e["event"] == "post_backward" or e["group"] not in record["whole"]]
    elif shards == 1:
        events = [e for e in events if e["event"] == "post_backward" and run.ranks > 1]
    return events, [c for c in record["collectives"] if sizes[c["axis"]] > 1]


def losses_of(steps):
    """The losses of each step by rank, whose texts are hexadecimal numbers."""
    return [[float.fromhex(text) for text in step] for step in steps]


class Case(unittest.TestCase):
    maxDiff = None

    def assert_fails(self, message, command, *arguments, **options):
        """Calls `command`, which must end with an error that has `message`."""
        with self.assertRaises(CommandFailed) as raised:
            command(*arguments, **options)
        self.assertEqual(raised.exception.status, 1, raised.exception)
        self.assertIn(message, str(raised.exception))


def pairs(first, second, turn=0):
    """Pairs that have each value of both at least once; over the turns all pairs have theirs."""
    count = max(len(first), len(second))
    return [(first[i % len(first)], second[(i + turn) % len(second)]) for i in range(count)]


class WorkspaceCase(Case):
    """A case with workspaces, which are removed when it ends."""

    samples = 52

    def workspace(self, config, optimizer=ADAMW, capture=(), samples=None):
        """One with a captured step; `capture`: flags of the capture; `samples`: another number of them."""
        workspace = Workspace(config, optimizer, samples or self.samples)
        self.addCleanup(workspace.remove)
        workspace.capture(flags=capture)
        return workspace


class Comparison(WorkspaceCase):
    """Compares compiled steps with FSDP2."""

    samples = 26
    #: How often layouts and communicators have been paired, in all cases of a script.
    turns = itertools.count()

    def expect(self, workspace, ranks=2, groups=("layers.*",), steps=4, **options):
        """The run of FSDP2, and its outcome: what oracle.execute says of it."""
        run = workspace.oracle_run(
            list(groups), ranks, steps=steps, init=str(workspace.weights), **options
        )
        return run, oracle.execute([run])[0]

    def check_report(self, run, record, report, dropped=(), are_reductions_mixed=False):
        """The report of a step has FSDP2's events and collectives. `dropped`: the groups that FSDP2 gathers
        for nothing, in their order. `are_reductions_mixed`: all-reduces may stand elsewhere among the others."""
        self.assertEqual(record["dropped"], list(dropped))
        events, collectives = between_ranks(record, run)
        report = json.loads(report.read_text())
        # The recorder sees forward and backward alone.
        found = [c for c in report["collectives"] if c.get("of") != "gradient norm"]
        norms = len(report["collectives"]) - len(found)
        if run.cpu_offload:  # where a rank holds a group whole, its gather is a copy from the host
            of_step = {**report, "collectives": found, "whole": record["whole"]}
            report["events"], found = between_ranks(of_step, run)
        has_norm = run.clip_grad_norm is not None or run.loss_scale is not None
        self.assertEqual(norms, int(has_norm and run.ranks > run.replicas))
        if run.det_rs:  # by torch's all_gather, which is not recorded
            found = [c for c in found if c["kind"] != "reduce_scatter"]
        if are_reductions_mixed:
            found, collectives = (
                sorted(some, key=lambda c: c["kind"] == "all_reduce") for some in (found, collectives)
            )
        self.assertEqual(lines(events), lines(report["events"]))
        self.assertEqual(lines(collectives), lines(found))

    def check_bits(self, run, outcome, log, saved):
        """Losses and parameters are FSDP2's, bit for bit."""
        record, final = outcome
        self.assertEqual(losses_of(line["loss_hex"] for line in log), losses_of(zip(*record["losses"])))
        if run.config.model == "gpt2":  # a binary saves the shared weight under both of its names
            saved = dict(saved)
            self.assertIsNone(bitwise_difference({"": saved["wte.weight"]}, {"": saved.pop("head.weight")}))
        self.assertIsNone(bitwise_difference(final, saved))

    def check(self, workspace, run, outcome, mesh, layouts=("flat", "per-param"), more="",
              communicators=("local", "shm", "gloo"), config=None, dropped=()):  # fmt: skip
        """The compiled step of each layout is FSDP2's; only `per-param` has FSDP2's numbers of elements. Of several
        layouts and communicators, each is run with each other by the first check of a script alone."""
        runs = list(itertools.product(layouts, communicators))
        if min(len(layouts), len(communicators)) > 1:
            turn = next(Comparison.turns)
            runs = pairs(layouts, communicators, turn) if turn else runs
        for layout in layouts:
            planned, report = workspace.plan(mesh, run.reshard_after_forward, layout, config, more)
            if layout == "per-param":
                self.check_report(run, outcome[0], report, dropped)
            binary = workspace.link(planned)
            for communicator in (own for of, own in runs if of == layout):
                with self.subTest(layout=layout, communicator=communicator, more=more):
                    log, saved = train(workspace, binary, run.ranks, run.steps, communicator)
                    self.check_bits(run, outcome, log, saved)

#!/usr/bin/env python3
"""Compares runs that are killed at random times and resumed with the same runs uninterrupted, bit
for bit.

    tools/fuzz/resume.py BIN [--cases N] [--first SEED]

Each case draws a model, a mesh, a layout, features and times of kills by its seed. The run is killed (all
ranks, or one of them) and started again by the same command until it ends; then losses and norms of each
step, and the weights, must equal those of the uninterrupted run. Every second case resumes with another
mesh or layout instead: a checkpoint that it saves at once must equal the state of the first one, and the
rest of its run, which is killed, too, must equal an uninterrupted run from there.

Status 1 if a case fails; its folder stays, and its seed repeats it.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time
import traceback

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test" / "parity"))

STEPS = 24
MESHES = {"dp=1": 1, "dp=2": 2, "dp=3": 3, "dp=4": 4, "replicate=2,shard=2": 4}
OPTIONS = ["", "microbatches=2", "microbatches=2 gradient-sync=last", "offload-optimizer=all",
           "schedule=auto", "recompute=full"]  # fmt: skip
FLAGS = [[], ["--shuffle"], ["--lr-schedule", "cosine", "--warmup-steps", 3], ["--save-in-place"],
         ["--keep", 2], ["--shuffle", "--seed", 9, "--loss-lag", 2], ["--kernels", "torch"]]  # fmt: skip


class Pool:
    """Models, binaries and uninterrupted runs, each made when a case first needs it."""

    def __init__(self, harness, models):
        self.harness, self.models = harness, models
        self.workspaces, self.binaries, self.references = {}, {}, {}
        self.configs = {
            "llama": models.Config("llama", dim=24, heads=2, ffn=40, vocab=50, batch=2),
            "gpt2": models.Config("gpt2", dim=20, heads=2, vocab=50, batch=2, dropout=0.1),
            "convnet": models.Config("convnet", dim=8, batch=2),
            "mlp": models.Config("mlp", dim=16, layers=3, batch=2),
            "frozen": models.Config("llama", dim=24, heads=2, vocab=50, batch=2,
                                    frozen=["layers.*.attn.*"]),  # fmt: skip
        }

    def workspace(self, model, optimizer, clip, mixed):
        key = model, optimizer, clip, mixed
        if key not in self.workspaces:
            chosen = {
                "adamw": self.harness.ADAMW,
                "sgd": self.harness.SGD,
                "amsgrad": self.harness.Optimizer("adam", {"lr": 1e-3}),
            }[optimizer]
            workspace = self.harness.Workspace(self.configs[model], chosen)
            flags = ["--amsgrad"] if optimizer == "amsgrad" else []
            flags += ["--clip-grad-norm", clip] if clip else []
            workspace.capture(flags=flags + (["--param-dtype", "bfloat16"] if mixed else []))
            self.workspaces[key] = workspace
        return self.workspaces[key]

    def binary(self, key, mesh, layout, more):
        where = key, mesh, layout, more
        if where not in self.binaries:
            if key[3]:
                more += " param-dtype=bfloat16 reduce-dtype=float32"
            self.binaries[where] = self.workspace(*key).compile(mesh, "none", layout, more=more.strip())
        return self.binaries[where]

    def remove(self):
        for workspace in self.workspaces.values():
            workspace.remove()


class Run:
    """One command that is started, killed and started again."""

    def __init__(self, pool, folder, binary, ranks, processes, workspace, flags):
        self.harness, self.binary, self.ranks, self.processes = pool.harness, binary, ranks, processes
        self.log, self.save = folder / "log.jsonl", folder / "final.safetensors"
        self.arguments = ["--data", workspace.data, "--steps", STEPS, "--log-file", self.log, "--save",
                          self.save, *flags]  # fmt: skip

    def start(self):
        if self.processes:
            return self.harness.start_ranks(self.binary, self.ranks, ["--timeout", 20, *self.arguments])
        command = [self.binary, "--ranks", self.ranks, *self.arguments]
        return [subprocess.Popen(list(map(str, command)), stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE, text=True,
                                 env=self.harness.clean_environment())]  # fmt: skip

    def whole(self):
        """Runs until the end; returns the time."""
        begin = time.monotonic()
        for status, output in self.harness.finish(self.start()):
            assert status == 0, output
        return time.monotonic() - begin

    def killed(self, rng, seconds):
        """Kills the run within about that time; returns True if it had not ended before."""
        ranks = self.start()
        victims = ranks if rng.random() < 0.5 else [rng.choice(ranks)]
        try:
            ranks[0].wait(timeout=rng.uniform(0.05, seconds))
        except subprocess.TimeoutExpired:
            pass
        alive = any(rank.poll() is None for rank in ranks)
        for rank in victims:
            rank.send_signal(signal.SIGKILL)
        self.harness.finish(ranks)
        return alive

    def lines(self):
        """For each step, its last line in the log."""
        found = {}
        for text in self.log.read_text().splitlines():
            try:
                line = json.loads(text)
            except ValueError:
                continue  # the run was killed while it wrote the line
            if "loss" in line:
                found[line["step"]] = (line["loss_hex"], line["grad_norm"], line["lr"],
                                       line.get("skipped"))  # fmt: skip
        return found


def state(checkpoints, folder):
    """The state of a checkpoint, without tensors of single ranks."""
    return {name: tensor for name, tensor in checkpoints.assemble(folder).items()
            if not name.startswith("fsdpc.")}  # fmt: skip


def check(pool, seed, folder):
    """Runs one case; returns its description, and how often it was killed."""
    import checkpoints
    from oracle import safetensors_io

    rng = random.Random(seed)
    model = rng.choice(list(pool.configs))
    mixed = model == "mlp" and rng.random() < 0.5
    clip = rng.choice([None, 0.1, 1e30])
    key = model, rng.choice(["adamw", "sgd", "amsgrad"]), clip, mixed
    workspace = pool.workspace(*key)

    def draw():
        mesh = rng.choice(list(MESHES))
        more = rng.choice(OPTIONS)
        if mesh == "dp=1" and "gradient-sync" in more:
            more = "microbatches=2"
        layout = rng.choice(["flat", "per-param"])
        if layout == "per-param" and rng.random() < 0.5:
            more = f"{more} shard-placement=largest".strip()
        return mesh, layout, more

    def run(place, chosen, processes, *more):
        place.mkdir(parents=True, exist_ok=True)
        mesh = chosen[0]
        return Run(pool, place, pool.binary(key, *chosen), MESHES[mesh], processes and MESHES[mesh] > 1,
                   workspace, [*flags, *more])  # fmt: skip

    flags = list(rng.choice(FLAGS))
    if clip and "--loss-lag" not in flags and rng.random() < 0.5:
        flags += ["--skip-outliers", 2]
    chosen, processes = draw(), rng.random() < 0.4
    every = rng.randint(1, 6)
    init = ["--init", workspace.weights]
    saving = lambda place: ["--checkpoint-dir", place / "run", "--save-every", every, "--resume"]
    if "--keep" in flags and seed % 2:
        flags = []  # the checkpoint from which the other mesh resumes is compared later
    # The uninterrupted run saves nothing, if possible.
    plain = [word for word in flags if word != "--save-in-place"]
    plain = plain[: plain.index("--keep")] if "--keep" in plain else plain
    text = f"{key} {chosen} {'processes' if processes else 'threads'} every {every} {flags}"
    kills = 0

    def interrupted(one, seconds):
        nonlocal kills
        for _ in range(rng.randint(1, 3)):
            kills += one.killed(rng, seconds)
        one.whole()

    flags, with_saves = plain, flags
    reference = run(folder / "reference", chosen, False, *init)
    seconds = reference.whole()
    flags = with_saves
    place = folder / "killed"
    if seed % 2 == 0:
        one = run(place, chosen, processes, *init, *saving(place))
        interrupted(one, seconds * 1.5)
        expected = reference
    else:
        # Runs up to some step on this mesh, then the rest on another mesh.
        first = run(place, chosen, processes, *init, *saving(place))
        middle = rng.randint(4, STEPS - 1)  # after the warm-up
        first.arguments[first.arguments.index("--steps") + 1] = middle
        first.whole()
        source = checkpoints.latest(place / "run")
        other = draw()
        text += f" -> step {middle} -> {other}"
        again = folder / "again"
        here = run(again, other, False, "--resume", source, "--checkpoint-dir", again / "run")
        here.arguments[here.arguments.index("--steps") + 1] = middle
        here.arguments += ["--save-every", 1]
        here.whole()
        difference = pool.harness.bitwise_difference(
            state(checkpoints, source), state(checkpoints, checkpoints.latest(again / "run"))
        )
        assert difference is None, difference
        flags = plain
        expected = run(folder / "rest", other, False, "--resume", source)
        flags = with_saves
        seconds = expected.whole()
        # The checkpoint is copied as the first one in the folder of the resumed run.
        place = folder / "other"
        shutil.copytree(source, place / "run" / source.name)
        one = run(place, other, processes, *saving(place))
        interrupted(one, seconds * 1.5)
    lines, others = expected.lines(), one.lines()
    assert lines == others, {step: (line, others.get(step)) for step, line in lines.items()
                             if others.get(step) != line}  # fmt: skip
    difference = pool.harness.bitwise_difference(
        safetensors_io.load(expected.save), safetensors_io.load(one.save)
    )
    assert difference is None, difference
    partial = [path.name for path in (place / "run").iterdir() if path.suffix == ".partial"]
    assert not partial, partial
    return text, kills


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("bin", help="folder of the build's tools")
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--first", type=int, default=0, help="seed of the first case")
    options = parser.parse_args()
    os.environ["FSDP_TOOLS"] = str(pathlib.Path(options.bin).resolve())
    import harness
    from oracle import models

    pool = Pool(harness, models)
    failed = kills = 0
    for seed in range(options.first, options.first + options.cases):
        folder = pathlib.Path(harness.tempfile.mkdtemp(prefix=f"fsdpc-resume-{seed}-"))
        try:
            text, own = check(pool, seed, folder)
            kills += own
            shutil.rmtree(folder)
            print(f"case {seed}: killed {own} times: {text}", flush=True)
        except Exception:
            failed += 1
            print(f"case {seed} FAILED, in {folder}:\n{traceback.format_exc()}", flush=True)
    pool.remove()
    print(f"{options.cases} cases, {kills} kills, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

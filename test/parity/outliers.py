#!/usr/bin/env python3
"""--skip-outliers beside FSDP2 that leaves out the optimizer's step where the guard does: the same losses
and parameters, bit for bit. So is a run that goes on from a checkpoint, whose guard has seen what the
first run saw."""

import json
import math
import shutil
import unittest

import harness
import oracle
from oracle import models, safetensors_io

CONFIG = models.Config("mlp", dim=16, layers=2, batch=2)
RANKS, STEPS, SAVED, WINDOW = 2, 170, 140, 128
#: Standard deviations; a norm that clips nothing.
LIMIT, NEVER = 0.6, 1e30
#: Steps, from 1, with a NaN among the samples of one rank.
SPOILED = {3: 1, 135: 0}
FLAGS = ["--skip-outliers", LIMIT]


def outliers(log, name):
    """The steps, from 1, that are outliers by this figure."""
    before, found = [], set()
    for line in log:
        value = line[name]  # None: not finite
        if value is None:
            found.add(line["step"])
            continue
        if len(before) == WINDOW:
            mean = sum(before) / WINDOW
            deviation = math.sqrt(sum((x - mean) ** 2 for x in before) / WINDOW)
            if value - mean > LIMIT * deviation:
                found.add(line["step"])
            before.pop(0)
        before.append(value)
    return found


class Outliers(harness.Case):
    def prepare(self, optimizer=harness.ADAMW, norm=NEVER):
        options = dict(optimizer.options, **({"clip_grad_norm": norm} if norm else {}))
        workspace = harness.Workspace(
            CONFIG, harness.Optimizer(optimizer.kind, options), samples=STEPS * RANKS * CONFIG.batch
        )
        self.addCleanup(workspace.remove)
        data = safetensors_io.load(workspace.data)
        for step, rank in SPOILED.items():
            data["x"][((step - 1) * RANKS + rank) * CONFIG.batch, 0] = math.nan
        safetensors_io.save(workspace.data, data)
        workspace.capture()
        return workspace

    def check(self, optimizer, layout, more="", communicator="local"):
        workspace = self.prepare(optimizer)
        binary = workspace.compile(RANKS, layout=layout, more=more)
        log, final = harness.train(workspace, binary, RANKS, STEPS, communicator, FLAGS)
        skipped = [line["step"] for line in log if line.get("skipped")]
        by_loss, by_norm = outliers(log, "loss"), outliers(log, "grad_norm")
        self.assertEqual(skipped, sorted(by_loss | by_norm))
        self.assertLess(set(SPOILED), by_loss & by_norm)
        # Steps are left out for either reason alone.
        self.assertTrue(by_loss - by_norm)
        self.assertTrue(by_norm - by_loss)
        [(expected, parameters)] = oracle.execute([
            workspace.oracle_run(["layers.*"], RANKS, steps=STEPS, init=str(workspace.weights),
                                 skip=[step - 1 for step in skipped])])  # fmt: skip
        self.assertEqual([line["loss_hex"] for line in log],
                         [list(step) for step in zip(*expected["losses"])])  # fmt: skip
        self.assertIsNone(harness.bitwise_difference(parameters, final))
        self.assertTrue(all(tensor.isfinite().all() for tensor in final.values()))
        return workspace, binary, log, final

    def test_steps_without_update_are_fsdp2s(self):
        self.check(harness.SGD, "flat")
        self.check(harness.ADAMW, "per-param")
        self.check(harness.ADAMW, "flat", "offload-optimizer=all", communicator="shm")

    def test_a_run_goes_on_with_what_its_guard_has_seen(self):
        workspace, binary, log, final = self.check(harness.ADAMW, "flat")
        folder = workspace.folder / "run"
        saving = ["--checkpoint-dir", folder, "--save-every", SAVED]
        harness.train(workspace, binary, RANKS, STEPS, extra=[*saving, *FLAGS])
        shutil.rmtree(folder / f"step-{STEPS:09}")
        manifest = json.loads((folder / f"step-{SAVED:09}" / "checkpoint.json").read_text())
        before = [line["step"] for line in log if line.get("skipped") and line["step"] <= SAVED]
        self.assertEqual(manifest["skipped_steps"], len(before))
        state = safetensors_io.load(
            folder / f"step-{SAVED:09}" / "shard-00001-model-00001-of-00001.safetensors"
        )
        updates = {float(t) for name, t in state.items() if name.endswith(".step")}
        self.assertEqual(updates, {SAVED - len(before)})
        # The checkpoint says what is skipped; no flag is needed.
        path, save = workspace.folder / "again.jsonl", workspace.folder / "again.safetensors"
        harness.run([binary, "--ranks", RANKS, "--data", workspace.data, "--log", path, "--save", save,
                     *saving, "--resume"])  # fmt: skip
        again = harness.read_log(path)
        skipped = [line["step"] for line in again if line.get("skipped")]
        self.assertTrue(skipped)
        for one, other in zip(log[SAVED:], again, strict=True):
            for name in ("step", "loss_hex", "grad_norm", "skipped"):
                self.assertEqual(one.get(name), other.get(name), name)
        self.assertIsNone(harness.bitwise_difference(final, safetensors_io.load(save)))
        # Unless a flag says otherwise: then the losses are others behind the first step that was left out.
        shutil.rmtree(folder / f"step-{STEPS:09}")
        path = workspace.folder / "unguarded.jsonl"
        process = harness.run([binary, "--ranks", RANKS, "--data", workspace.data, "--resume", folder,
                               "--skip-outliers", 0, "--log", path])  # fmt: skip
        self.assertIn("--skip-outliers: 0, the checkpoint has 0.6", process.stdout)
        unguarded = harness.read_log(path)
        self.assertFalse(any(line.get("skipped") for line in unguarded))
        alike = [one["loss_hex"] == other["loss_hex"] for one, other in zip(again, unguarded, strict=True)]
        self.assertEqual(alike.index(False), skipped[0] - SAVED)

    def test_what_cannot_skip(self):
        workspace = self.prepare(norm=None)
        binary = workspace.compile(RANKS)
        self.assert_fails("--skip-outliers 3: this binary is compiled without clipping", harness.train, workspace,
                          binary, RANKS, 2, extra=["--skip-outliers", 3])  # fmt: skip
        clips = self.prepare()
        binary = clips.compile(RANKS)
        train = lambda *flags: harness.train(clips, binary, RANKS, 2, extra=["--skip-outliers", 3, *flags])
        self.assert_fails("--stop-outliers 3 and --skip-outliers 3: a run either ends at an outlier or goes on",
                          train, "--stop-outliers", 3)  # fmt: skip
        self.assert_fails("--skip-outliers 3 is for --device cpu without --loss-lag", train, "--loss-lag", 1)
        process = harness.run([binary, "--ranks", RANKS, "--data", clips.data, "--init",
                               clips.weights, "--steps", 3, *FLAGS])  # fmt: skip
        self.assertIn("step 3: the loss is nan (--skip-outliers 0.6): no update", process.stdout)


if __name__ == "__main__":
    unittest.main()

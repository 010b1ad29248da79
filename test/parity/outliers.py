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


def outliers(log):
    """The steps that are outliers by loss or norm, from 1."""
    seen, found = {"loss": [], "grad_norm": []}, []
    for line in log:
        for name, before in seen.items():
            value = line[name]  # None: not finite
            if value is None:
                found.append(line["step"])
                continue
            if len(before) == WINDOW:
                mean = sum(before) / WINDOW
                deviation = math.sqrt(sum((x - mean) ** 2 for x in before) / WINDOW)
                if value - mean > LIMIT * deviation:
                    found.append(line["step"])
                before.pop(0)
            before.append(value)
    return sorted(set(found))


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
        self.assertEqual(skipped, outliers(log))
        self.assertLess(set(SPOILED), set(skipped))
        self.assertGreater(len(skipped), len(SPOILED) + 2)
        [(expected, parameters)] = oracle.execute([
            workspace.oracle_run(["layers.*"], RANKS, steps=STEPS, init=str(workspace.weights),
                                 skip=[step - 1 for step in skipped])])  # fmt: skip
        self.assertEqual([line["loss_hex"] for line in log],
                         [list(step) for step in zip(*expected["losses"])])  # fmt: skip
        self.assertIsNone(harness.bitwise_difference(parameters, final))
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
        self.assertTrue(any(line.get("skipped") for line in again))
        for one, other in zip(log[SAVED:], again, strict=True):
            for name in ("step", "loss_hex", "grad_norm", "skipped"):
                self.assertEqual(one.get(name), other.get(name), name)
        self.assertIsNone(harness.bitwise_difference(final, safetensors_io.load(save)))
        # Unless a flag says otherwise: then the NaN's step spoils the rest.
        shutil.rmtree(folder / f"step-{STEPS:09}")
        process = harness.run([binary, "--ranks", RANKS, "--data", workspace.data, "--resume", folder,
                               "--skip-outliers", 0])  # fmt: skip
        self.assertIn("--skip-outliers: 0, the checkpoint has 0.6", process.stdout)

    def test_what_cannot_skip(self):
        workspace = self.prepare(norm=None)
        binary = workspace.compile(RANKS)
        train = lambda *flags: harness.train(workspace, binary, RANKS, 2, extra=flags)
        self.assert_fails("compiled without clipping", train, "--skip-outliers", 3)
        clips = self.prepare()
        binary = clips.compile(RANKS)
        self.assert_fails("either ends at an outlier or goes on", train, "--skip-outliers", 3,
                          "--stop-outliers", 3)  # fmt: skip
        self.assert_fails("without --loss-lag", train, "--skip-outliers", 3, "--loss-lag", 1)
        process = harness.run([binary, "--ranks", RANKS, "--data", clips.data, "--init",
                               clips.weights, "--steps", 3, *FLAGS])  # fmt: skip
        self.assertIn("step 3: the loss is nan (--skip-outliers 0.6): no update", process.stdout)


if __name__ == "__main__":
    unittest.main()

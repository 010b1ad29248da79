#!/usr/bin/env python3
"""Buffers that are no part of the state_dict: literals of a step that only reads them, else state that
checkpoints hold and results do not."""

import json
import shutil
import sys
import unittest

import torch

import checkpoints
import harness
import resume
from oracle import ROOT, models, safetensors_io

sys.path.insert(0, str(ROOT / "tools" / "python"))
import fsdpc  # noqa: E402
import fsdpc.checkpoints  # noqa: E402

CODEC = models.Config("counting", dim=16, layers=2, batch=2)
WRITTEN = ("codec.mean", "codec.calls")
STEPS, SAVED = resume.STEPS, resume.SAVED


def build(training=True):
    return models.build(CODEC).train(training)


class Transient(resume.Case):
    def export(self, workspace, name, training=True):
        path = workspace.folder / name
        batch = models.example_inputs(CODEC, batch=CODEC.batch)
        fsdpc.export(build(training), batch, path, method="training_step", quiet=True,
                     weights=workspace.weights, forward_methods={"codec": models.Codec.forward_methods})  # fmt: skip
        return path

    def prepare(self):
        workspace = harness.Workspace(CODEC)
        self.addCleanup(workspace.remove)
        model = self.export(workspace, "model.pt2")
        harness.run([harness.TOOLS / "fsdp-capture", model, *workspace.optimizer.flags(),
                     "-o", workspace.captured])  # fmt: skip
        return workspace

    def test_resume(self):
        """Checkpoints have them under names that a state_dict never has, results do not."""
        workspace = self.prepare()
        step = workspace.captured.read_text()
        self.assertIn("fsdp.buffer @codec.calls : tensor<i64> init dense<1> : tensor<i64>", step)
        self.assertNotIn("fsdp.buffer @codec.slope", step)
        self.check(workspace, "dp=2", 2)
        self.check(workspace, "replicate=2,shard=2", 4, ["flat"])
        state = checkpoints.assemble(checkpoints.latest(workspace.folder / "run"))
        for name in WRITTEN:
            self.assertNotIn(name, state)
            self.assertIn(f"fsdpc.rank3.{name}", state)
        self.assertEqual(state["fsdpc.rank0.codec.calls"], STEPS + 1)
        self.assertFalse(
            torch.equal(state["fsdpc.rank0.codec.mean"], state["fsdpc.rank1.codec.mean"])
        )
        for file in (workspace.weights, workspace.folder / "final.safetensors"):
            build().load_state_dict(safetensors_io.load(file), strict=True)

    def test_other_ranks_and_torch(self):
        """On another mesh all begin with rank 0's; torch's checkpoints have none, and the module's count."""
        workspace = self.prepare()
        run = workspace.folder / "run"
        self.train(workspace, workspace.compile("dp=2"), 2, "--steps", STEPS, "--checkpoint-dir",
                   run, "--save-every", STEPS)  # fmt: skip
        first = checkpoints.assemble(checkpoints.latest(run))
        alone, converted = workspace.compile("dp=1"), workspace.folder / "converted"
        fsdpc.checkpoints.convert(checkpoints.latest(run), workspace.folder / "dcp")
        fsdpc.checkpoints.convert(workspace.folder / "dcp", converted)
        own = dict(build().named_buffers())
        for source, values in ((run, {name: first[f"fsdpc.rank0.{name}"] for name in WRITTEN}),
                               (converted, {name: own[name] for name in WRITTEN})):  # fmt: skip
            target = workspace.folder / "one"
            shutil.rmtree(target, ignore_errors=True)
            self.train(workspace, alone, 1, "--steps", STEPS, "--resume", source,
                       "--checkpoint-dir", target, "--save-every", STEPS, init=False)  # fmt: skip
            state = checkpoints.assemble(checkpoints.latest(target))
            for name, value in values.items():
                self.assertTrue(torch.equal(state[f"fsdpc.rank0.{name}"], value), name)

    def test_evaluation(self):
        """Evaluations read what training has written."""
        workspace = self.prepare()
        binary, run = workspace.folder / "train", workspace.folder / "run"
        harness.run([harness.TOOLS / "fsdpc", workspace.folder / "model.pt2", "--eval-model",
                     self.export(workspace, "eval.pt2", training=False), "--mesh", "dp=2",
                     *workspace.optimizer.flags(), "-o", binary])  # fmt: skip
        self.train(workspace, binary, 2, "--steps", STEPS, "--eval-data", workspace.data,
                   "--eval-steps", 1, "--checkpoint-dir", run, "--save-every", STEPS)  # fmt: skip
        log = (workspace.folder / "log.jsonl").read_text().splitlines()
        line = next(line for line in map(json.loads, log) if "eval_loss" in line)
        state = checkpoints.assemble(checkpoints.latest(run))
        data, model = safetensors_io.load(workspace.data), build(training=False)
        model.load_state_dict({name: state[name] for name in model.state_dict()})
        for rank, expected in enumerate(line["loss_hex"]):
            for name in WRITTEN:
                model.get_buffer(name).copy_(state[f"fsdpc.rank{rank}.{name}"])
            first = rank * CODEC.batch
            with torch.no_grad():
                loss = model.training_step(*(t[first : first + CODEC.batch] for t in data.values()))
            self.assertEqual(loss.item(), float.fromhex(expected))


if __name__ == "__main__":
    unittest.main()

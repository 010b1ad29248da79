#!/usr/bin/env python3
"""Transient buffers, which are no part of the state_dict. A buffer that the step only reads is a literal of the
step. A buffer that the step writes is state: checkpoints have it, saved weights do not."""

import json
import shutil
import unittest

import torch

import checkpoints
import harness
import resume
from oracle import models, safetensors_io

import fsdpc.checkpoints

CODEC = models.Config("counting", dim=16, layers=2, batch=2)
METHODS = {"method": "training_step", "forward_methods": {"codec": models.Codec.forward_methods}}
WRITTEN = ("codec.mean", "codec.calls")
STEPS, SAVED = resume.STEPS, resume.SAVED


def build(training=True):
    return models.build(CODEC).train(training)


class Transient(resume.Case):
    def prepare(self):
        workspace = harness.Workspace(CODEC)
        self.addCleanup(workspace.remove)
        workspace.capture_package(**METHODS)
        return workspace

    def test_resume(self):
        """A checkpoint has each rank's buffers, under names that no state_dict has. Saved weights have none."""
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
        """On another mesh all ranks begin with rank 0's buffers. A checkpoint in torch's format has no such
        buffers: they begin with the module's values."""
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
        """An evaluation reads the buffers that training has written."""
        workspace = self.prepare()
        binary, run = workspace.folder / "train", workspace.folder / "run"
        harness.run([harness.TOOLS / "fsdpc", workspace.folder / "model.pt2", "--eval-model",
                     workspace.export_package("eval.pt2", build(training=False), **METHODS), "--mesh", "dp=2",
                     *workspace.optimizer.flags(), "-o", binary])  # fmt: skip
        self.train(workspace, binary, 2, "--steps", STEPS, "--eval-data", workspace.data,
                   "--eval-steps", 1, "--checkpoint-dir", run, "--save-every", STEPS)  # fmt: skip
        log = (workspace.folder / "log.jsonl").read_text().splitlines()
        (line,) = [line for line in map(json.loads, log) if "eval_loss" in line]
        self.assertEqual(len(line["loss_hex"]), 2)
        state = checkpoints.assemble(checkpoints.latest(run))
        data, model = safetensors_io.load(workspace.data), build(training=False)
        model.load_state_dict({name: state[name] for name in model.state_dict()})
        for rank, expected in enumerate(line["loss_hex"]):
            batch = [tensor[rank * CODEC.batch :][: CODEC.batch] for tensor in data.values()]
            with torch.no_grad():
                for name, initial in build(training=False).named_buffers():
                    model.get_buffer(name).copy_(initial)
                self.assertNotEqual(model.training_step(*batch).item(), float.fromhex(expected))
                for name in WRITTEN:
                    model.get_buffer(name).copy_(state[f"fsdpc.rank{rank}.{name}"])
                self.assertEqual(model.training_step(*batch).item(), float.fromhex(expected))


if __name__ == "__main__":
    unittest.main()

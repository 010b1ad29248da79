#!/usr/bin/env python3
"""The moving average of the weights beside that of torch.optim.swa_utils over FSDP2's parameters, bit for bit: in
weights files, evaluations and checkpoints."""

import dataclasses
import json
import shutil
import unittest

import torch

import checkpoints
import harness
from oracle import models, safetensors_io

LLAMA = models.Config("llama", dim=24, heads=2, ffn=40, layers=2, vocab=50, seq=16, batch=2)
CONVNET = models.Config("convnet", dim=8, layers=2, batch=2)
MLP = models.Config("mlp", dim=24, layers=2, batch=2)
BF16 = dataclasses.replace(MLP, dtype="bf16")
ADAMW = harness.Optimizer("adamw", {"lr": 1e-2})
DECAY = 0.9
STEPS = 5


class Averages(harness.Comparison):
    def capture(self, model, optimizer=ADAMW, flags=(), decay=DECAY):
        return self.workspace(model, optimizer, capture=["--ema-decay", decay, *flags])

    def train(self, workspace, binary, ranks=2, communicator="local", extra=()):
        """The log of the steps, the weights, and their average."""
        average = workspace.folder / "average.safetensors"
        average.unlink(missing_ok=True)
        log, saved = harness.train(workspace, binary, ranks, STEPS, communicator, ["--save-ema", average, *extra])
        return log, saved, safetensors_io.load(average)

    def compare(self, model, optimizer=ADAMW, layouts=("flat", "per-param"), more="", flags=(), decay=DECAY,
                communicators=("local",), **run):  # fmt: skip
        workspace = self.capture(model, optimizer, flags, decay)
        run, (record, final) = self.expect(workspace, steps=STEPS, ema_decay=decay, **run)
        expected = {name.removeprefix("ema."): final.pop(name) for name in list(final) if name.startswith("ema.")}
        buffers = {name: tensor for name, tensor in final.items() if name not in expected}
        for layout in layouts:
            binary = workspace.compile(2, "none", layout, more=more)
            for communicator in communicators:
                with self.subTest(model=model.model, layout=layout, more=more, communicator=communicator):
                    log, saved, average = self.train(workspace, binary, communicator=communicator)
                    self.check_bits(run, (record, final), log, saved)
                    self.assertIsNone(harness.bitwise_difference(expected | buffers, average))
                    self.assertIsNotNone(harness.bitwise_difference(saved, average))

    def test_averages(self):
        self.compare(LLAMA, communicators=("local", "shm"))
        self.compare(CONVNET, harness.Optimizer("sgd", {"lr": 0.1}), layouts=["flat"])  # without other states
        self.compare(MLP, harness.Optimizer("rmsprop", {"centered": True}), layouts=["per-param"])

    def test_low_decay(self):
        """Below 0.5 torch interpolates from the other end. With AMSGrad there are all states that a plan has."""
        self.compare(MLP, layouts=["flat"], flags=["--amsgrad"], optimizer_options={"amsgrad": True}, decay=0.25)

    def test_bf16(self):
        self.compare(BF16)

    def test_mixed_precision(self):
        self.compare(MLP, layouts=["flat"], flags=["--param-dtype", "bfloat16"], mixed=True, reduce_dtype="bfloat16",
                     more="param-dtype=bfloat16 reduce-dtype=bfloat16")  # fmt: skip

    def test_state_on_the_host(self):
        self.compare(LLAMA, layouts=["flat"], more="offload-optimizer=all")
        self.compare(LLAMA, layouts=["flat"], more="offload-policy=cpu", cpu_offload=["", "layers.*"])

    def test_fp32_average_of_bf16(self):
        """Of parameters in bf16 it keeps what bf16 would lose; `bfloat16` for all states leaves it alone."""
        for dtypes in ("ema=float32", "exp_avg=float32,ema=float32"):
            workspace = self.capture(BF16, flags=["--optimizer-state-dtype", dtypes])
            binary = workspace.compile(2)
            folder = workspace.folder / "run"
            saving = ["--checkpoint-dir", folder, "--save-every", 1]
            _, saved, average = self.train(workspace, binary, extra=saving)
            steps = [checkpoints.assemble(folder / f"step-{step:09}") for step in range(1, STEPS + 1)]
            for name in saved:
                expected = steps[0][name].float()
                for state in steps[1:]:
                    expected = expected.lerp(state[name].float(), 1 - DECAY)
                self.assertTrue(torch.equal(steps[-1][f"optim.state.{name}.ema"], expected), name)
                self.assertTrue(torch.equal(average[name], expected.bfloat16()), name)
        workspace = self.capture(MLP, flags=["--optimizer-state-dtype", "bfloat16"])
        self.assertIn("state_dtype = {exp_avg = bf16, exp_avg_sq = bf16}", workspace.captured.read_text())

    def test_resume(self):
        """By the binary itself, and by another number of ranks."""
        workspace = self.capture(MLP)
        binary = workspace.compile(2)
        folder = workspace.folder / "run"
        _, _, expected = self.train(workspace, binary, extra=["--checkpoint-dir", folder, "--save-every", 3])
        for ranks in (2, 3):
            other = workspace.compile(ranks)
            average = workspace.folder / "resumed.safetensors"
            harness.run([other, "--ranks", ranks, "--data", workspace.data, "--resume", folder / "step-000000003",
                         "--save-ema", average])  # fmt: skip
            if ranks == 2:
                self.assertIsNone(harness.bitwise_difference(expected, safetensors_io.load(average)))
        plain = self.workspace(MLP, ADAMW)
        without = plain.compile(2)
        with self.assertRaisesRegex(harness.CommandFailed, "ema' .*which this binary does not have"):
            harness.run([without, "--ranks", 2, "--data", plain.data, "--resume", folder])
        # A checkpoint without an average: it begins with the weights.
        saved = plain.folder / "run"
        _, weights = harness.train(plain, without, 2, 1, "local", ["--checkpoint-dir", saved, "--save-every", 1])
        average, after = plain.folder / "average.safetensors", plain.folder / "after.safetensors"
        resumed = harness.run([binary, "--ranks", 2, "--data", plain.data, "--resume", saved, "--steps", 2,
                               "--save", after, "--save-ema", average])  # fmt: skip
        self.assertIn("the checkpoint has no moving average of 12 parameters: it begins with the weights", resumed.stdout)
        after, average = safetensors_io.load(after), safetensors_io.load(average)
        for name in weights:
            self.assertTrue(torch.equal(average[name], weights[name].lerp(after[name], 1 - DECAY)), name)

    def test_evaluation(self):
        """--eval-ema evaluates the average, which changes nothing of the training."""
        workspace = harness.Workspace(MLP, samples=104)
        self.addCleanup(workspace.remove)
        model = workspace.folder / "model.pt"
        harness.export.export(MLP, "script", str(model))
        for flags in (["--param-dtype", "bfloat16"], ["--offload-policy", "cpu"]):
            binary = workspace.folder / "train"
            harness.run([harness.TOOLS / "fsdpc", model, *models.input_flags(MLP), "--eval-model", model,
                         "--mesh", "dp=2", *ADAMW.flags(), "--ema-decay", DECAY, *flags, "--weights", workspace.weights,
                         "-o", binary])  # fmt: skip
            with self.subTest(flags=flags):
                evaluate = ["--eval-data", workspace.data, "--eval-steps", 3]
                plain, weights, average = self.train(workspace, binary, extra=evaluate)
                log, again, average_again = self.train(
                    workspace, binary, extra=[*evaluate, "--eval-every", 2, "--eval-ema"])
                self.assertEqual([line["loss_hex"] for line in log], [line["loss_hex"] for line in plain])
                self.assertIsNone(harness.bitwise_difference(weights, again))
                self.assertIsNone(harness.bitwise_difference(average, average_again))
                lines = map(json.loads, (workspace.folder / "log.jsonl").read_text().splitlines())
                evaluations = [line for line in lines if "eval_loss" in line]
                self.assertEqual([(line["step"], line["ema"]) for line in evaluations],
                                 [(2, True), (4, True), (5, True)])
                # The file of the average evaluates alike, after a step at a learning rate of 0.
                harness.run([binary, "--ranks", 2, "--data", workspace.data, "--steps", 1, "--lr", 0, "--init",
                             workspace.folder / "average.safetensors", *evaluate, "--log",
                             workspace.folder / "again.jsonl"])  # fmt: skip
                lines = map(json.loads, (workspace.folder / "again.jsonl").read_text().splitlines())
                (line,) = [line for line in lines if "eval_loss" in line]
                self.assertNotIn("ema", line)
                self.assertEqual(line["loss_hex"], evaluations[-1]["loss_hex"])

    def test_refused(self):
        workspace = self.workspace(MLP, ADAMW)
        binary = workspace.compile(2)
        for flags, message in (
            (["--save-ema", "a.safetensors"], "--save-ema a.safetensors: this binary keeps no moving average"),
            (["--eval-ema"], "--eval-ema: this binary keeps no moving average"),
        ):
            with self.assertRaisesRegex(harness.CommandFailed, message):
                harness.run([binary, "--ranks", 2, "--data", workspace.data, *flags])
        for decay in (1, -0.5):
            with self.assertRaisesRegex(harness.CommandFailed, f"ema_decay is {decay}, expected"):
                self.workspace(MLP, ADAMW, capture=["--ema-decay", decay])


if __name__ == "__main__":
    unittest.main()

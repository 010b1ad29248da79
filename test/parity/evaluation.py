#!/usr/bin/env python3
"""Evaluations between updates beside eager ones: the same losses, and training that knows nothing of them.

After the last update the binary evaluates and saves its weights; eager torch loads these, in eval()
and without gradients, and reads the batches that each rank has read.
"""

import json
import math
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import unittest

import torch

import harness
from oracle import ROOT, models, safetensors_io

sys.path.insert(0, str(ROOT / "tools" / "python"))
import fsdpc  # noqa: E402

STEPS, EVERY, EVAL_STEPS = 5, 2, 3
MASK = 2**64 - 1
LLAMA = models.Config("llama", dim=64, layers=3, seq=32, batch=2)
GPT2 = models.Config("gpt2", dim=32, layers=3, batch=2, dropout=0.2)
CONVNET = models.Config("convnet", batch=2)


class Evaluation(unittest.TestCase):
    def setUp(self):
        torch.set_num_threads(1)

    def build(self, config, mesh, *flags, form="script", name="train", evaluates=True):
        """A workspace with a binary, and the binary."""
        workspace = harness.Workspace(config, samples=104)
        self.addCleanup(workspace.remove)
        # TorchScript holds both modes.
        model = workspace.folder / ("model.pt2" if form == "pt2" else "model.pt")
        harness.export.export(config, form, str(model))
        binary = workspace.folder / name
        inputs = [] if form == "pt2" else models.input_flags(config)
        evaluation = ["--eval-model", model] if evaluates else []
        harness.run([harness.TOOLS / "fsdpc", model, *evaluation, *inputs, "--mesh", mesh,
                     *workspace.optimizer.flags(), *flags, "--weights", workspace.weights,
                     "-o", binary])  # fmt: skip
        return workspace, binary

    def train(self, workspace, binary, ranks, *flags, communicator="local"):
        """The lines of the steps, those of the evaluations, and the weights."""
        steps, weights = harness.train(workspace, binary, ranks, STEPS, communicator, flags)
        lines = map(json.loads, (workspace.folder / "log.jsonl").read_text().splitlines())
        return steps, [line for line in lines if "eval_loss" in line], weights

    def eager(self, config, weights, data, rank, ranks):
        """The mean loss of the batches of one rank."""
        model = models.build(config)
        model.load_state_dict(weights, strict=False)
        model.eval()
        total = 0.0
        with torch.no_grad():
            for step in range(EVAL_STEPS):
                first = (step * ranks + rank) * config.batch
                batch = [tensor[first : first + config.batch] for tensor in data.values()]
                total += model(*batch).item()
        return total / EVAL_STEPS

    def check(self, config, mesh="dp=2", flags=(), form="script", communicators=("local",)):
        ranks = int(mesh.split("=")[-1]) * (2 if "," in mesh else 1)
        workspace, binary = self.build(config, mesh, *flags, form=form)
        evaluate = ["--eval-data", workspace.data, "--eval-every", EVERY, "--eval-steps", EVAL_STEPS]
        data = safetensors_io.load(workspace.data)
        # Batch statistics are each rank's own; rank 0's are saved.
        compared = 1 if config.model in ("convnet", "staged") else ranks
        plain = self.train(workspace, binary, ranks)
        self.assertEqual(plain[1], [])
        for communicator in communicators:
            with self.subTest(model=config.model, mesh=mesh, flags=flags, communicator=communicator):
                steps, evaluations, weights = self.train(
                    workspace, binary, ranks, *evaluate, communicator=communicator
                )
                self.assertEqual([line["loss_hex"] for line in steps],
                                 [line["loss_hex"] for line in plain[0]])  # fmt: skip
                self.assertIsNone(harness.bitwise_difference(plain[2], weights))
                self.assertEqual([line["step"] for line in evaluations], [2, 4, 5])
                losses = [float.fromhex(text) for text in evaluations[-1]["loss_hex"]]
                expected = [
                    self.eager(config, weights, data, rank, ranks) for rank in range(compared)
                ]
                self.assertEqual(losses[:compared], expected)
                self.assertEqual(evaluations[-1]["eval_loss"], sum(losses) / ranks)

    def test_tokens(self):
        self.check(LLAMA, flags=["--layout", "flat"], communicators=("local", "shm", "gloo"))
        self.check(LLAMA, flags=["--layout", "per-param"], communicators=("shm",))

    def test_perplexity(self):
        """The exponential of the loss of tokens is told as their perplexity, in the log as on the console."""
        workspace, binary = self.build(LLAMA, "dp=2")
        tokens = workspace.folder / "tokens.bin"
        values = torch.randint(LLAMA.vocab, (24 * LLAMA.seq + 1,), generator=torch.manual_seed(2))
        tokens.write_bytes(values.to(torch.uint16).numpy().tobytes())
        log = workspace.folder / "log.jsonl"
        for flags in ([workspace.data], [tokens, "--data-dtype", "u16"]):
            console = harness.run([binary, "--ranks", 2, "--init", workspace.weights, "--steps", 2,
                                   "--eval-data", flags[0], "--eval-steps", EVAL_STEPS, "--log", log,
                                   "--data", *flags]).stdout  # fmt: skip
            (line,) = [line for line in map(json.loads, log.read_text().splitlines())
                       if "eval_loss" in line]  # fmt: skip
            told = f"evaluation after step 2: loss {line['eval_loss']:.4f}"
            if flags[0] == tokens:
                self.assertEqual(line["perplexity"], math.exp(line["eval_loss"]))
                told += f"  perplexity {math.exp(line['eval_loss']):.5g}"
            else:  # samples, of which nothing says that they are tokens
                self.assertNotIn("perplexity", line)
            self.assertIn(told + "  on ", console)

    def test_modes(self):
        """No dropout, and running statistics in place of a batch's."""
        self.check(GPT2)
        self.check(CONVNET, flags=["--layout", "per-param", "--shard-placement", "largest"])

    def test_exported(self):
        """A file has the mode in which it was exported; dropout there is noted."""
        workspace = harness.Workspace(GPT2)
        self.addCleanup(workspace.remove)
        model = workspace.folder / "model.pt2"
        harness.export.export(GPT2, "pt2", str(model))
        compiled = harness.run([harness.TOOLS / "fsdpc", model, "--eval-model", model, "--mesh", "dp=2",
                                "-o", workspace.folder / "train"])  # fmt: skip
        self.assertIn("note: the evaluation draws random numbers", compiled.stderr)
        self.check(LLAMA, form="pt2", flags=["--reshard-after-forward", "true"])

    def test_meshes(self):
        self.check(LLAMA, "dp=1")
        self.check(LLAMA, "dp=4", flags=["--reshard-after-forward", "2"])
        self.check(LLAMA, "replicate=2,shard=2", flags=["--reshard-after-forward", "false"])

    def test_options(self):
        """What belongs to training alone does not reach the evaluation."""
        self.check(LLAMA, flags=["--microbatches", "2", "--clip-grad-norm", "0.5",
                                 "--offload-optimizer", "all", "--recompute", "full"])  # fmt: skip
        self.check(models.Config("staged", dim=16, batch=2),
                   flags=["--microbatches", "2", "--microbatch-order", "1f1b", "--stages", "stages.*"])
        self.check(LLAMA, flags=["--schedule", "auto"])
        self.check(LLAMA, flags=["--offload-policy", "cpu"])

    def test_without_a_step(self):
        """A resumed run that has no steps left evaluates the checkpoint, also where gathers read copies of the
        parameters in another dtype."""
        for flags in ([], ["--offload-policy", "cpu"]):
            with self.subTest(flags=flags):
                workspace, binary = self.build(GPT2, "dp=2", "--param-dtype", "bfloat16", *flags)
                folder = workspace.folder / "run"
                evaluate = ["--eval-data", workspace.data, "--eval-steps", EVAL_STEPS]
                _, expected, _ = self.train(workspace, binary, 2, *evaluate, "--checkpoint-dir", folder,
                                            "--save-every", STEPS)  # fmt: skip
                log = workspace.folder / "resumed.jsonl"
                harness.run([binary, "--ranks", 2, "--data", workspace.data, "--resume", folder, "--log", log,
                             *evaluate])  # fmt: skip
                lines = map(json.loads, log.read_text().splitlines())
                self.assertEqual([line["loss_hex"] for line in lines if "eval_loss" in line],
                                 [line["loss_hex"] for line in expected])  # fmt: skip

    def test_a_signal(self):
        """It ends an evaluation on all ranks, and the run saves at once."""
        workspace, binary = self.build(LLAMA, "dp=2")
        many, fifo, run, last = (workspace.folder / name for name in ("many.safetensors", "fifo", "run", "last.safetensors"))
        data = safetensors_io.load(workspace.data)
        safetensors_io.save(many, {key: torch.cat([rows] * 200) for key, rows in data.items()})
        common = ["--data", workspace.data, "--eval-data", many]
        stopping = ["--checkpoint-dir", run, "--save-on-exit"]
        for steps, message, saves in ((STEPS, "stopped by a signal", stopping),
                                      (EVERY, "done", ["--save", last])):  # fmt: skip
            with self.subTest(steps=steps):
                os.mkfifo(fifo)
                processes = harness.start_ranks(binary, 2, [
                    *common, *saves, "--init", workspace.weights, "--steps", steps,
                    "--eval-every", EVERY, "--log", fifo])  # fmt: skip
                with open(fifo) as lines:
                    for step in range(EVERY):
                        self.assertEqual(json.loads(lines.readline())["step"], step + 1)
                    processes[1].send_signal(signal.SIGTERM)
                    self.assertFalse([line for line in lines if "eval_loss" in line])
                ended = harness.finish(processes)
                self.assertEqual([status for status, _ in ended], [0, 0], ended)
                self.assertIn(f"a signal stopped the evaluation after step {EVERY}", ended[0][1])
                self.assertIn(message, ended[0][1])
                fifo.unlink()
        self.assertEqual([path.name for path in run.iterdir()], [f"step-{EVERY:09}"])
        self.assertTrue(last.exists())
        resumed = harness.run([binary, "--ranks", 2, *common, "--eval-steps", 1, "--resume", run]).stdout
        self.assertIn(f"evaluation after step {STEPS}", resumed)

    def test_what_an_evaluation_does_not_do(self):
        """Regions whose operators its forward does not call, and values of the optimizer."""
        config = self.enterContext(tempfile.NamedTemporaryFile("w", suffix=".yaml"))
        json.dump({
            "activation_checkpointing": [
                {"modules": ["h.*"], "recompute": "selected", "keep": ["addmm", "native_dropout"]}
            ],
            "optimizer": {"groups": [{"max_dims": 1, "weight_decay": 0.0, "lr": 1e-4}]},
        }, config)  # fmt: skip
        config.flush()
        self.check(GPT2, flags=["--config", config.name])

    def test_optimizer_of_the_file(self):
        """That of an evaluation's file counts for nothing, and flags are the training step's."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        train, evaluate = folder / "train.pt2", folder / "eval.pt2"
        model, batch = models.build(LLAMA), models.example_inputs(LLAMA, batch=LLAMA.batch)
        sgd = torch.optim.SGD(model.parameters(), lr=0.1)
        fsdpc.export(model, batch, train, optimizer=sgd, quiet=True)
        fsdpc.export(model.eval(), batch, evaluate, quiet=True)
        harness.run([harness.TOOLS / "fsdpc", train, "--eval-model", evaluate, "--mesh", "dp=2",
                     "--momentum", "0.9", "-o", folder / "binary"])  # fmt: skip
        described = harness.run([folder / "binary", "--describe"]).stdout
        self.assertIn("optimizer: sgd lr 0.1, weight decay 0, momentum 0.9\n", described)

    def test_one_binary_without(self):
        """A binary that does not evaluate trains the same; it refuses --eval-data."""
        workspace, binary = self.build(LLAMA, "dp=2")
        other, without = self.build(LLAMA, "dp=2", name="without", evaluates=False)
        self.assertIsNone(harness.bitwise_difference(
            self.train(workspace, binary, 2)[2], self.train(other, without, 2)[2]))  # fmt: skip
        described = [harness.run([one, "--describe"]).stdout for one in (binary, without)]
        self.assertIn("evaluation, over the same state\ninput: tokens i64[2,32]\n", described[0])
        self.assertNotIn("evaluation", described[1])
        with self.assertRaisesRegex(harness.CommandFailed, "compiled without an evaluation"):
            self.train(other, without, 2, "--eval-data", other.data)
        with self.assertRaisesRegex(harness.CommandFailed, "--eval-every 2 is for --eval-data"):
            self.train(workspace, binary, 2, "--eval-every", 2)
        with self.assertRaisesRegex(harness.CommandFailed, "--eval-steps 99 of 4 samples each"):
            self.train(workspace, binary, 2, "--eval-data", workspace.data, "--eval-steps", 99)

    def held_out(self, samples, fraction, seed):
        """As SampleSplit (runtime/data/SampleOrder.h) chooses."""

        def mix(x):
            x = (x + 0x9E3779B97F4A7C15) & MASK
            x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
            x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
            return x ^ (x >> 31)

        parts = int(samples * fraction)
        begins = [part * samples // parts for part in range(parts + 1)]
        key = mix(seed ^ 0x9D5C7A1B03E4F268)
        return [begin + mix((key + part) & MASK) % (end - begin)
                for part, (begin, end) in enumerate(zip(begins, begins[1:]))]  # fmt: skip

    def test_samples_that_are_held_out(self):
        """Training and evaluation are those of two files with what trains and what is held out."""
        workspace, binary = self.build(LLAMA, "dp=2")
        data = safetensors_io.load(workspace.data)
        held = self.held_out(104, 0.13, 7)
        trains = [i for i in range(104) if i not in held]
        self.assertEqual((len(held), len(trains)), (13, 91))
        parts = {"trains": trains, "held": held}
        for name, rows in parts.items():
            safetensors_io.save(workspace.folder / f"{name}.safetensors",
                                {key: tensor[rows] for key, tensor in data.items()})  # fmt: skip
        split = ["--eval-split", 0.13]
        common = ["--shuffle", "--eval-every", EVERY, "--seed", 7]
        steps, evaluations, weights = self.train(workspace, binary, 2, *split, *common)
        folder, whole = workspace.folder, workspace.data
        workspace.data = folder / "trains.safetensors"
        other = self.train(
            workspace, binary, 2, "--eval-data", folder / "held.safetensors", *common
        )
        workspace.data = whole
        losses = lambda lines: [(line["step"], line["loss_hex"]) for line in lines]
        self.assertEqual(losses(steps), losses(other[0]))
        self.assertEqual(losses(evaluations), losses(other[1]))
        self.assertEqual(len(evaluations), 3)
        self.assertIsNone(harness.bitwise_difference(weights, other[2]))
        # What is held out stays so when the run goes on, on other ranks and with another seed, too.
        run = folder / "run"
        saving = ["--checkpoint-dir", run, "--save-every", 2]
        self.train(workspace, binary, 2, *split, *common, *saving)
        shutil.rmtree(run / "step-000000004")
        shutil.rmtree(run / "step-000000005")
        log = folder / "again.jsonl"
        resumed = [binary, "--ranks", 2, "--data", whole, "--log", log, "--resume", run]
        told = harness.run([*resumed, "--eval-every", EVERY]).stdout
        self.assertIn("13 samples of --data are held out (--eval-split 0.13)", told)
        again = [json.loads(line) for line in log.read_text().splitlines()]
        self.assertEqual(losses(line for line in again if "eval_loss" in line), losses(evaluations[1:]))
        self.assertEqual(losses(line for line in again if "loss" in line), losses(steps[2:]))

        def evaluated(*flags):
            harness.run([*resumed, "--lr", 0, *flags])
            lines = map(json.loads, log.read_text().splitlines())
            return [line["loss_hex"] for line in lines if "eval_loss" in line][-1]

        expected = evaluated("--eval-data", folder / "held.safetensors")
        for flags in (["--seed", 8], ["--seed", 8, "--eval-split", 0.13]):
            self.assertEqual(evaluated(*flags), expected)
        self.assertNotEqual(evaluated("--seed", 8, "--eval-split", 0.2), expected)
        refused = lambda *flags: self.train(workspace, binary, 2, *flags)
        with self.assertRaisesRegex(harness.CommandFailed, "--eval-split 0.6: expected a fraction"):
            refused("--eval-split", 0.6)
        with self.assertRaisesRegex(harness.CommandFailed, "--eval-split 0.1 evaluates samples of"):
            refused("--eval-split", 0.1, "--eval-data", whole)
        with self.assertRaisesRegex(harness.CommandFailed, "1 samples that are held out"):
            refused("--eval-split", 0.01)

    def test_other_models(self):
        """The evaluation's state is the training step's."""
        workspace, _ = self.build(LLAMA, "dp=2")
        other, _ = self.build(models.Config("llama", dim=32, layers=3, seq=32, batch=2), "dp=2",
                              evaluates=False)
        with self.assertRaisesRegex(harness.CommandFailed, "is another model"):
            harness.run([harness.TOOLS / "fsdpc", workspace.folder / "model.pt", "--eval-model",
                         other.folder / "model.pt", *models.input_flags(LLAMA), "--mesh", "dp=2",
                         "-o", workspace.folder / "mixed"])  # fmt: skip


if __name__ == "__main__":
    unittest.main()

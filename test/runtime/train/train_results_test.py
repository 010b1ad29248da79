"""What the training binary computes, logs and saves is what torch computes, bit for bit.

Usage: train_results_test.py FOLDER, which holds tiny_train-RANKS-LAYOUT.
"""

import json
import shutil
import unittest

import torch

from tiny_run import LIBRARIES, TinyRunTest, safetensors_io

BATCH = 4


def read_log(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


class TinyModel(torch.nn.Module):
    """What TinyPlan.h computes."""

    def __init__(self):
        super().__init__()
        self.l = torch.nn.Module()
        self.l.w = torch.nn.Parameter(torch.zeros(5, 3))
        self.l.b = torch.nn.Parameter(torch.zeros(3))
        self.scale = torch.nn.Parameter(torch.zeros(3))
        self.tied = torch.nn.Module()
        self.tied.scale = self.scale
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x, t):
        d = (x @ self.l.w + self.l.b) * self.scale - t
        return (d * d).mean()


class TrainResultsTest(TinyRunTest):
    def reference(self, ranks, steps, lr=0.01):
        """Per-step losses of every rank and the final state, by torch: gradients are averaged in
        rank order, as the collectives do."""
        model = TinyModel()
        model.load_state_dict({**self.weights, "tied.scale": self.weights["scale"]})
        optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.0, foreach=False)
        losses = []
        for step in range(steps):
            rank_losses, sums = [], None
            for rank in range(ranks):
                begin = (step * ranks + rank) * BATCH
                rows = [(begin + i) % 40 for i in range(BATCH)]
                loss = model(self.data["x"][rows], self.data["t"][rows])
                gradients = torch.autograd.grad(loss, list(model.parameters()))
                sums = gradients if sums is None else [s + g for s, g in zip(sums, gradients)]
                rank_losses.append(loss.item())
            for parameter, total in zip(model.parameters(), sums):
                parameter.grad = total / ranks
            optimizer.step()
            model.count += 1
            losses.append(rank_losses)
        return losses, model.state_dict()

    def check_against_torch(self, ranks, layout, log, saved):
        losses, state = self.reference(ranks, 25)
        records = read_log(log)
        expected = [[loss.hex() for loss in step] for step in losses]
        self.assertEqual([r["loss_hex"] for r in records], expected)
        self.assertEqual([r["step"] for r in records], list(range(1, 26)))
        for record, step in zip(records, losses):
            self.assertEqual(record["loss"], sum(step) / ranks)
        tensors = safetensors_io.load(saved)
        self.assertEqual(sorted(tensors), sorted(state))
        for name, tensor in tensors.items():
            self.assertTrue(torch.equal(tensor, state[name]), name)
        TinyModel().load_state_dict(tensors)  # strict

    def test_threads_equal_torch(self):
        """Losses and saved parameters are torch's, bit for bit, for both layouts."""
        for ranks in (1, 2):
            for layout in ("Flat", "PerParam"):
                with self.subTest(ranks=ranks, layout=layout):
                    log, saved = self.path("log.jsonl"), self.path("saved.safetensors")
                    code, out, err = self.run_alone(ranks, layout, steps=25, log=log, save=saved)
                    self.assertEqual((code, err), (0, []))
                    self.assertIn("step  1/25", out)
                    self.assertIn("step 25/25", out)
                    self.assertIn("done: 25 steps", out)
                    self.check_against_torch(ranks, layout, log, saved)

    def test_lag_changes_no_number(self):
        """Results that come steps later are those of their own step, all of them, in order, on
        one rank and with the exchange of losses between several."""
        for ranks in (1, 2):
            logs = {}
            for lag in (0, 2, 40):  # 40: more than there are steps
                log, saved = self.path(f"log{lag}"), self.path(f"saved{lag}.safetensors")
                flags = dict(steps=25, log=log, save=saved, loss_lag=lag, lr_schedule="linear")
                code, out, err = self.run_alone(ranks, **flags)
                self.assertEqual((code, err), (0, []))
                self.assertIn("step 25/25", out)
                self.assertIn("done: 25 steps", out)
                keep = ("step", "loss", "loss_hex", "grad_norm", "lr")
                logs[lag] = [{name: r[name] for name in keep} for r in read_log(log)]
            self.assertEqual(len(logs[0]), 25)
            self.assertEqual(logs[0], logs[2])
            self.assertEqual(logs[0], logs[40])
            saved = [safetensors_io.load(self.path(f"saved{lag}.safetensors")) for lag in (0, 2)]
            for name, tensor in saved[0].items():
                self.assertTrue(torch.equal(tensor, saved[1][name]), name)

    def test_processes_equal_torch(self):
        """So are those of two processes, through shared memory (the default here) and gloo."""
        for communicator in (None, "shm", "gloo"):
            with self.subTest(communicator=communicator):
                log, saved = self.path("log.jsonl"), self.path("saved.safetensors")
                flags = self.flags(steps=25, log=log, save=saved, communicator=communicator)
                ranks = self.start_ranks(2, lambda rank: flags)
                out = self.succeed(ranks[0])
                self.assertIn(f"({communicator or 'shm'})", out)
                self.assertEqual(self.succeed(ranks[1]), "")
                self.check_against_torch(2, "Flat", log, saved)

    def test_ranks_in_wrappers_find_each_other(self):
        # The job's number is missing, so the launcher's process tells jobs apart.
        for rank, size in (("PMI_RANK", "PMI_SIZE"), ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS")):
            with self.subTest(rank=rank):
                command = ["timeout", "60", self.binary(2)] + self.flags(steps=2)
                ranks = [self.start(command, **{rank: str(r), size: "2"}) for r in range(2)]
                self.assertIn("step 2/2", self.succeed(ranks[0]))
                self.succeed(ranks[1])

    def test_grad_norm_is_that_of_the_averaged_gradient(self):
        self.run_alone(2, log=self.path("log.jsonl"), steps=1)
        model = TinyModel()
        model.load_state_dict({**self.weights, "tied.scale": self.weights["scale"]})
        model(self.data["x"][:8], self.data["t"][:8]).backward()
        norm = torch.linalg.vector_norm(torch.cat([p.grad.flatten() for p in model.parameters()]))
        record = read_log(self.path("log.jsonl"))[0]
        self.assertAlmostEqual(record["grad_norm"], norm.item(), places=5)

    def test_saved_weights_can_be_started_from(self):
        saved = self.path("saved.safetensors")
        self.assertEqual(self.run_alone(2, steps=5, save=saved)[0], 0)
        again = self.path("again.safetensors")
        log = self.path("log.jsonl")
        # The rate 0 moves nothing, on another number of ranks and in another layout.
        code, _, err = self.run_alone(1, "PerParam", steps=1, lr=0, init=saved, save=again, log=log)
        self.assertEqual((code, err), (0, []))
        first, second = safetensors_io.load(saved), safetensors_io.load(again)
        self.assertEqual((first.pop("count"), second.pop("count")), (5, 6))
        for name, tensor in first.items():
            self.assertTrue(torch.equal(tensor, second[name]), name)

    def test_one_pass_by_default_and_schedules_in_the_log(self):
        log = self.path("log.jsonl")
        flags = dict(lr=8, lr_schedule="linear", min_lr=4, warmup_steps=2)
        self.assertEqual(self.run_alone(2, log=log, **flags)[0], 0)
        self.assertEqual([r["lr"] for r in read_log(log)], [4, 8, 8 - 4 / 3, 8 - 8 / 3, 4])

    def test_shuffle_reads_every_sample_once_a_pass(self):
        logs = []
        for seed in (1, 1, 2):
            log = self.path("log.jsonl")
            command = [self.binary(1), "--shuffle"] + self.flags(lr=0, seed=seed, log=log)
            self.succeed(self.start(command))
            logs.append([r["loss_hex"] for r in read_log(log)])
        self.assertEqual(logs[0], logs[1])
        self.assertNotEqual(logs[0], logs[2])
        mean = lambda log: sum(float.fromhex(x) for (x,) in log) / len(log)
        self.assertAlmostEqual(mean(logs[0]), mean(logs[2]), places=4)

    def test_weights_beside_the_binary_are_the_default(self):
        copy = self.path("train")
        shutil.copy(self.binary(1), copy)
        command = [copy] + self.flags(init=None, steps=1)
        start = lambda: self.start(command, LD_LIBRARY_PATH=LIBRARIES)
        result = self.finish(start())
        self.assert_one_error(result, "--init", copy + ".safetensors")
        shutil.copy(self.path("init.safetensors"), copy + ".safetensors")
        self.assertIn(copy + ".safetensors", self.succeed(start()))

    def test_quiet_prints_nothing(self):
        out = self.succeed(self.start([self.binary(1), "--quiet"] + self.flags(steps=2)))
        self.assertEqual(out, "")

    def test_describe_needs_nothing_else(self):
        out = self.succeed(self.start([self.binary(2), "--describe"]))
        self.assertIn("tiny", out)
        self.assertIn("reduce_scatter", out)


if __name__ == "__main__":
    unittest.main()

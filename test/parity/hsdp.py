#!/usr/bin/env python3
"""Hybrid sharding on 2 replicas x 2 shards: losses and parameters are FSDP2's, bit for bit.

Sums of two numbers have one order, so this holds on all communicators, gloo too.
"""

import os
import signal
import unittest

import harness
import oracle
from oracle import models, safetensors_io

CONFIG = models.Config("llama", dim=64, layers=3, seq=32, batch=2)
MESH, RANKS, REPLICAS, STEPS = "replicate=2,shard=2", 4, 2, 10


class Case:
    """A captured model with one optimizer, and what FSDP2 makes of it."""

    def __init__(self, optimizer):
        self.workspace = harness.Workspace(CONFIG, optimizer)
        self.workspace.capture()
        run = self.workspace.oracle_run(
            ["layers.*"], RANKS, replicas=REPLICAS, steps=STEPS, init=str(self.workspace.weights)
        )
        [(self.expected, self.final)] = oracle.execute([run])


class Hsdp(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.cases = {"sgd": Case(harness.SGD), "adamw": Case(harness.ADAMW)}
        for case in cls.cases.values():
            cls.addClassCleanup(case.workspace.remove)

    def start(self, communicator, binary, arguments):
        """Exit status and output of each process."""
        arguments = ["--communicator", communicator, *arguments]
        if communicator == "local":
            process = harness.run([binary, "--ranks", RANKS, *arguments], check=False)
            return [(process.returncode, process.stdout + process.stderr)]
        return harness.finish(harness.start_ranks(binary, RANKS, arguments))

    def train(self, case, communicator, binary):
        log, save = (case.workspace.folder / name for name in ("log.jsonl", "final.safetensors"))
        for path in (log, save):
            path.unlink(missing_ok=True)
        arguments = harness.training_arguments(case.workspace, log, save, STEPS)
        for rank, (status, output) in enumerate(self.start(communicator, binary, arguments)):
            self.assertEqual(status, 0, f"rank {rank}:\n{output}")
        lines = harness.read_log(log)
        self.assertEqual(len(lines), STEPS)
        for step, line in enumerate(lines):
            losses = [float.fromhex(text) for text in line["loss_hex"]]
            expected = [float.fromhex(rank[step]) for rank in case.expected["losses"]]
            self.assertEqual(losses, expected, f"losses of step {step}, by rank")
            norm = case.expected["grad_norms"][step]
            self.assertAlmostEqual(line["grad_norm"], norm, delta=1e-5 * norm)
        final = safetensors_io.load(save)
        self.assertIsNone(harness.bitwise_difference(case.final, final))

    def test_bitwise_equal(self):
        """Each reshard mode, layout and communicator at least once with each of the others."""
        for optimizer, reshard, layout, communicators in (
            ("sgd", "true", "flat", ["local", "gloo"]),
            ("sgd", "none", "per-param", ["shm"]),
            ("adamw", "none", "flat", ["local", "shm"]),
            ("adamw", "false", "flat", ["gloo"]),
            ("adamw", "true", "per-param", ["local"]),
        ):
            case = self.cases[optimizer]
            binary = case.workspace.compile(MESH, reshard, layout)
            for communicator in communicators:
                with self.subTest(f"{optimizer} {reshard} {layout} {communicator}"):
                    self.train(case, communicator, binary)

    def test_schedules(self):
        """Schedules that are searched for change no bit."""
        case = self.cases["adamw"]
        for more in ("schedule=auto", "schedule=auto buckets=false", "schedule=asap device=h100"):
            binary = case.workspace.compile(MESH, "auto", more=more)
            with self.subTest(more):
                self.train(case, "local", binary)

    def test_killed_rank_ends_all(self):
        """Those of its replica, those of its shard, and the one that meets it on neither axis."""
        workspace = self.cases["sgd"].workspace
        binary = workspace.compile(MESH)
        for communicator in ("shm", "gloo"):
            with self.subTest(communicator):
                log = workspace.folder / f"killed-{communicator}.jsonl"
                os.mkfifo(log)  # reading it follows the run step by step
                arguments = ["--communicator", communicator, "--timeout", 10, "--data",
                             workspace.data, "--init", workspace.weights, "--steps", 1000000,
                             "--log", log]  # fmt: skip
                processes = harness.start_ranks(binary, RANKS, arguments)
                self.addCleanup(lambda started=processes: [p.kill() for p in started])
                with open(log) as lines:
                    for _ in range(3):
                        self.assertTrue(lines.readline(), "the run ended before its third step")
                    processes[3].send_signal(signal.SIGKILL)
                    ends = harness.finish(processes, timeout=60)
                for rank, (status, output) in enumerate(ends[:3]):
                    self.assertGreater(status, 0, f"rank {rank}: {output}")

    def test_other_numbers_of_ranks_are_refused(self):
        binary = self.cases["sgd"].workspace.compile(MESH)
        process = harness.run([binary, "--ranks", 2, "--data", "none.safetensors"], check=False)
        self.assertNotEqual(process.returncode, 0)
        self.assertIn("compiled for 4 ranks (mesh replicate=2,shard=2)", process.stderr)


if __name__ == "__main__":
    unittest.main()

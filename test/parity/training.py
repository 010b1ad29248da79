#!/usr/bin/env python3
"""Ten steps of a compiled decoder: losses and parameters are FSDP2's, bit for bit.

    training.py OPTIMIZER RANKS     sgd or adamw; 2 or 4

One run of FSDP2 is the expectation for every reshard mode, layout and communicator, none of which
may change a bit. At 4 ranks its reduce-scatter adds in rank order, as fsdpc's local and shm
communicators do; gloo's order is its own there, so it is compared at 2 ranks.
"""

import itertools
import sys
import unittest

import harness
import oracle
from oracle import models, safetensors_io

CONFIG = models.Config("llama", dim=64, layers=3, seq=32, batch=2)
STEPS = 10
OPTIMIZER, RANKS = harness.ADAMW, 2


class Training(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.workspace = workspace = harness.Workspace(CONFIG, OPTIMIZER)
        cls.addClassCleanup(workspace.remove)
        workspace.capture()
        reference = workspace.oracle_run(
            ["layers.*"], RANKS, steps=STEPS, init=str(workspace.weights), det_rs=RANKS > 2
        )
        [(cls.expected, cls.final)] = oracle.execute([reference])

    def start(self, communicator, binary, arguments):
        """Exit status and output of each process."""
        if communicator == "local":
            process = harness.run(
                [binary, "--ranks", RANKS, "--communicator", "local", *arguments], check=False
            )
            return [(process.returncode, process.stdout + process.stderr)]
        arguments = ["--communicator", communicator, *arguments]
        return harness.finish(harness.start_ranks(binary, RANKS, arguments))

    def train(self, communicator, binary):
        log = self.workspace.folder / "log.jsonl"
        save = self.workspace.folder / "final.safetensors"
        log.unlink(missing_ok=True)
        save.unlink(missing_ok=True)
        arguments = harness.training_arguments(self.workspace, log, save, STEPS)
        for rank, (status, output) in enumerate(self.start(communicator, binary, arguments)):
            self.assertEqual(status, 0, f"rank {rank}:\n{output}")
        self.compare(harness.read_log(log), safetensors_io.load(save))

    def compare(self, log, final):
        self.assertEqual(len(log), STEPS)
        for step, line in enumerate(log):
            losses = [float.fromhex(text) for text in line["loss_hex"]]
            expected = [float.fromhex(rank[step]) for rank in self.expected["losses"]]
            self.assertEqual(losses, expected, f"losses of step {step}, by rank")
            norm = self.expected["grad_norms"][step]
            # Sums of squares over shards of different shapes: equal up to rounding.
            self.assertAlmostEqual(line["grad_norm"], norm, delta=1e-5 * norm)
        self.assertIsNone(harness.bitwise_difference(self.final, final))

    def test_bitwise_equal(self):
        communicators = ["local", "shm"] + (["gloo"] if RANKS == 2 else [])
        for reshard, layout in itertools.product(["true", "false", "none"], ["flat", "per-param"]):
            binary = self.workspace.compile(RANKS, reshard, layout)
            for communicator in communicators:
                with self.subTest(reshard=reshard, layout=layout, communicator=communicator):
                    self.train(communicator, binary)


if __name__ == "__main__":
    OPTIMIZER = {"sgd": harness.SGD, "adamw": harness.ADAMW}[sys.argv.pop(1)]
    RANKS = int(sys.argv.pop(1))
    unittest.main()

#!/usr/bin/env python3
"""Ten steps of a compiled decoder: losses and parameters are FSDP2's, bit for bit.

    training.py OPTIMIZER RANKS     sgd or adamw; 2 or 4

One run of FSDP2 is the expectation for every reshard mode, layout and communicator, none of which
may change a bit, nor may a schedule that was searched for. At 4 ranks its reduce-scatter adds in rank order, as fsdpc's
local and shm communicators do; gloo's order is its own there, so it is compared at 2 ranks.
"""

import itertools
import json
import re
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
        modes = itertools.product(["true", "false", "none"], ["flat", "per-param"])
        for number, (reshard, layout) in enumerate(modes):
            binary = self.workspace.compile(RANKS, reshard, layout)
            # Each mode and each layout with each communicator.
            for communicator in communicators[(number + number // 2) % 2 :: 2]:
                with self.subTest(reshard=reshard, layout=layout, communicator=communicator):
                    self.train(communicator, binary)

    def least_bytes(self, recompute="auto"):
        """The least peak of any schedule, from the error that names it."""
        with self.assertRaises(harness.CommandFailed) as refusal:
            options = f"schedule=auto memory-cap=1 recompute={recompute}"
            self.workspace.plan(RANKS, "auto", more=options)
        return int(re.search(r"at least (\d+) bytes are live", str(refusal.exception))[1])

    def check_schedule(self, options, regathers, buckets):
        """A schedule that was searched for: how it is made, and that its bits are FSDP2's."""
        with self.subTest(options):
            planned, report = self.workspace.plan(RANKS, "auto", more=options)
            counts = json.loads(report.read_text())["counts"]
            self.assertEqual(counts["all_gather"]["backward"] > 0, regathers)
            self.assertEqual("coalesced" in planned.read_text(), buckets)
            binary = self.workspace.link(planned)
            for communicator in ("local", "shm"):
                self.train(communicator, binary)

    def test_schedules(self):
        least = self.least_bytes("cheap")
        # Shared memory has no launches with one latency: buckets are for a network that has.
        merging = "schedule=auto network=dgx-h100"
        self.check_schedule("schedule=auto", regathers=False, buckets=False)
        self.check_schedule(merging, regathers=False, buckets=True)
        self.check_schedule(f"{merging} buckets=false", regathers=False, buckets=False)
        capped = f"memory-cap={least + least // 50}"
        self.check_schedule(f"{merging} buckets=false {capped}", regathers=True, buckets=False)
        self.check_schedule(f"{merging} {capped}", regathers=True, buckets=True)
        self.check_schedule("schedule=asap", regathers=True, buckets=False)

    def repeated(self, planned):
        """How many blocks the backward computes again."""
        return len(re.findall(r'"silu.default".* bwd ', planned.read_text()))

    def test_recomputation(self):
        """Blocks are computed again where a cap asks for it, as many as it asks for."""
        for policy in ("selected", "full"):
            binary = self.workspace.compile(RANKS, more=f"recompute={policy}")
            self.assertEqual(self.repeated(binary.with_suffix(".mlir")), CONFIG.layers)
            with self.subTest(policy):
                self.train("local", binary)
        kept, full = (self.least_bytes(policy) for policy in ("cheap", "full"))
        self.assertLess(full, 0.97 * kept)
        for cap, blocks in ((kept * 99 // 100, {1, 2}), (full * 101 // 100, {2, 3})):
            options = f"schedule=auto memory-cap={cap}"
            with self.subTest(options), self.assertRaises(harness.CommandFailed):
                self.workspace.plan(RANKS, "auto", more=f"{options} recompute=cheap")
            binary = self.workspace.compile(RANKS, "auto", more=options)
            planned = binary.with_suffix(".mlir")
            self.assertIn(self.repeated(planned), blocks)
            arena = int(re.search(r"arena_bytes = (\d+)", planned.read_text())[1])
            self.assertLessEqual(arena, cap)
            with self.subTest(options):
                self.train("local", binary)


if __name__ == "__main__":
    OPTIMIZER = {"sgd": harness.SGD, "adamw": harness.ADAMW}[sys.argv.pop(1)]
    RANKS = int(sys.argv.pop(1))
    unittest.main()

#!/usr/bin/env python3
"""Gradient accumulation beside FSDP2: bits, events and collectives, in every mode."""

import dataclasses
import itertools
import json
import unittest

import harness
import oracle
from events import lines
from oracle import models

CONFIG = models.Config("llama", dim=32, layers=2, batch=2)
#: Dropout draws anew in each microbatch, statistics of batches go on from one to the next.
BUFFERS = models.Config("convnet", dim=8, layers=2, batch=2)
STEPS = 4


class Case(unittest.TestCase):
    maxDiff = None

    def workspace(self, config, optimizer=harness.ADAMW, capture=()):
        workspace = harness.Workspace(config, optimizer, samples=26)
        self.addCleanup(workspace.remove)
        workspace.capture(flags=capture)
        return workspace

    def expect(self, workspace, ranks=2, groups=("layers.*",), **options):
        run = workspace.oracle_run(
            list(groups), ranks, steps=STEPS, init=str(workspace.weights), **options
        )
        return run, oracle.execute([run])[0]

    def check(self, workspace, run, expected, mesh, layouts=("flat", "per-param"), more="",
              communicators=("local", "shm", "gloo"), config=None):  # fmt: skip
        record, final = expected
        for layout in layouts:
            reshard = run.reshard_after_forward
            planned, report = workspace.plan(mesh, reshard, layout, config, more)
            if layout == "per-param":
                report = json.loads(report.read_text())
                collectives = report["collectives"]
                if run.det_rs:  # by torch's all_gather, which is not recorded
                    collectives = [c for c in collectives if c["kind"] != "reduce_scatter"]
                self.assertEqual(lines(record["events"]), lines(report["events"]))
                self.assertEqual(lines(record["collectives"]), lines(collectives))
            binary = planned.with_suffix("")
            harness.run([harness.TOOLS / "fsdp-compile", planned, "-o", binary])
            for communicator in communicators:
                with self.subTest(layout=layout, communicator=communicator, more=more):
                    log, saved = harness.train(workspace, binary, run.ranks, STEPS, communicator)
                    losses = [line["loss_hex"] for line in log]
                    self.assertEqual(
                        [[float.fromhex(text) for text in step] for step in losses],
                        [[float.fromhex(text) for text in step] for step in zip(*record["losses"])],
                    )
                    self.assertIsNone(harness.bitwise_difference(final, saved))


class Accumulation(Case):
    def test_modes(self):
        """Each way to reduce and to keep parameters, with 2 and 3 microbatches."""
        workspace = self.workspace(CONFIG)
        modes = itertools.product(("each", "last"), (True, False), ("true", "none"))
        for (sync, reshard_after_backward, reshard), microbatches in zip(modes, (2, 3) * 4):
            run, expected = self.expect(
                workspace,
                reshard_after_forward=reshard,
                microbatches=microbatches,
                gradient_sync=sync,
                reshard_after_backward=reshard_after_backward,
            )
            word = str(reshard_after_backward).lower()
            more = (f"microbatches={microbatches} gradient-sync={sync} "
                    f"reshard-after-backward={word}")  # fmt: skip
            self.check(workspace, run, expected, 2, more=more, communicators=("local",))

    def test_replicas(self):
        """HSDP: the all-reduce after each microbatch, after the last, or all communication."""
        workspace = self.workspace(CONFIG)
        for sync in ("each", "reduce_scatter", "last"):
            run, expected = self.expect(
                workspace, ranks=4, replicas=2, microbatches=2, gradient_sync=sync
            )
            more = f"microbatches=2 gradient-sync={sync}"
            self.check(workspace, run, expected, "replicate=2,shard=2", more=more,
                       communicators=("local", "shm"))  # fmt: skip

    def test_mixed_precision(self):
        """Gradients are added up in the dtype that they are reduced in, shards in f32."""
        workspace = self.workspace(dataclasses.replace(CONFIG, compute="bf16"))
        for sync, reduce_dtype in (("each", None), ("each", "float32"), ("last", "float32")):
            run, expected = self.expect(
                workspace, mixed=True, reduce_dtype=reduce_dtype, microbatches=2,
                gradient_sync=sync,
            )  # fmt: skip
            more = f"microbatches=2 gradient-sync={sync} param-dtype=bfloat16"
            if reduce_dtype:
                more += f" reduce-dtype={reduce_dtype}"
            self.check(workspace, run, expected, 2, more=more, communicators=("local",))

    def test_sum_of_losses(self):
        workspace = self.workspace(CONFIG, harness.SGD)
        run, expected = self.expect(workspace, microbatches=2, microbatch_loss="sum")
        self.check(workspace, run, expected, 2, more="microbatches=2 microbatch-loss=sum")

    def test_buffers(self):
        """Statistics of batches go on from microbatch to microbatch."""
        workspace = self.workspace(BUFFERS)
        run, expected = self.expect(workspace, microbatches=3, gradient_sync="last")
        more = "microbatches=3 gradient-sync=last"
        self.check(workspace, run, expected, 2, more=more, communicators=("local",))


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Optimizer state that lies on the host between updates gives the bits of state that stays in the
arena: losses and parameters of five steps, for each optimizer, rank count and kind of schedule."""

import re
import unittest

import harness
from offloading import Offloading, module_number
from oracle import models

GPT2 = models.Config("gpt2", dim=32, seq=16, batch=2, dropout=0.1)


class Offload(Offloading):
    def check(self, optimizer, ranks, more=""):
        workspace = self.workspace(GPT2, optimizer)
        kept, _, losses, final = self.train(workspace, ranks, more)
        planned, report, *others = self.train(workspace, ranks, f"{more} offload-optimizer=all")
        self.assertEqual(others[0], losses)
        self.assertIsNone(harness.bitwise_difference(final, others[1]))

        # All state is on the host. The peak is less, and what was predicted.
        states = 1 if optimizer.kind == "sgd" else 2
        elements = sum(group["elements"] for group in report["groups"])
        self.assertGreaterEqual(module_number(planned, "host_arena_bytes") * ranks,
                                4 * states * elements)
        self.assertEqual({group["optimizer_state"] for group in report["groups"]}, {"host"})
        peak = module_number(planned, "peak_live_bytes")
        self.assertEqual(report["prediction"]["peak_bytes"], peak)
        self.assertLess(peak, module_number(kept, "peak_live_bytes"))
        self.assertGreater(report["prediction"]["exposed_host_copies_ns"], 0)
        described = harness.run([planned.with_suffix(""), "--describe"]).stdout
        self.assertIn("of optimizer state", described)

    def test_bitwise_equal(self):
        for optimizer in (harness.SGD, harness.ADAMW):
            for ranks in (1, 2):
                with self.subTest(optimizer=optimizer.kind, ranks=ranks):
                    self.check(optimizer, ranks)

    def test_searched(self):
        for more in ("schedule=auto", "schedule=asap"):
            with self.subTest(more):
                self.check(harness.ADAMW, 2, more)

    def test_meshes_and_layouts(self):
        workspace = self.workspace(GPT2)
        for ranks, mesh, layout in ((4, "replicate=2,shard=2", "flat"), (2, "dp=2", "per-param")):
            with self.subTest(mesh=mesh, layout=layout):
                *_, losses, final = self.train(workspace, ranks, "", mesh, layout)
                *_, others, end = self.train(
                    workspace, ranks, "offload-optimizer=all", mesh, layout)
                self.assertEqual(others, losses)
                self.assertIsNone(harness.bitwise_difference(final, end))

    def test_last_resort(self):
        """Under a cap that no recomputation fits, `auto` offloads; under one that some fits, it does
        not."""
        workspace = self.workspace(GPT2)
        *_, losses, final = self.train(workspace, 2, "")

        def least(more):
            with self.assertRaises(harness.CommandFailed) as refusal:
                workspace.plan(2, "auto", more=f"schedule=auto memory-cap=1{more}")
            text = str(refusal.exception)
            promised = re.search(r"offload-optimizer=all: at least (\d+) bytes", text)
            found = int(re.search(r"at least (\d+) bytes are live", text)[1])
            return found, int(promised[1]) if promised else None

        kept, promised = least("")
        offloaded, _ = least(" offload-optimizer=all")
        self.assertLessEqual(offloaded, promised)
        self.assertLess(promised, kept)
        for cap, place in ((offloaded + (kept - offloaded) // 2, "host"), (kept * 11 // 10, "device")):
            with self.subTest(cap=cap):
                more = f"schedule=auto memory-cap={cap} offload-optimizer=auto"
                planned, report, *others = self.train(workspace, 2, more)
                self.assertEqual({group["optimizer_state"] for group in report["groups"]}, {place})
                self.assertLessEqual(module_number(planned, "arena_bytes"), cap)
                self.assertEqual(others[0], losses)
                self.assertIsNone(harness.bitwise_difference(final, others[1]))


if __name__ == "__main__":
    unittest.main()

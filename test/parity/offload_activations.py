#!/usr/bin/env python3
"""Activations that wait on the host between forward and backward give the bits of activations that stay in the arena, and
FSDP2's: losses and parameters of five steps, in less memory."""

import json
import unittest

import harness
import oracle
from offloading import STEPS, Offloading, module_number
from oracle import models

GPT2 = models.Config("gpt2", dim=32, layers=4, seq=16, batch=2, dropout=0.1)
MLP = models.Config("mlp", dim=32, layers=4, batch=16)
LLAMA = models.Config("llama", dim=32, heads=2, layers=4, vocab=50, batch=2)


class OffloadActivations(Offloading):
    def check(self, workspace, ranks, more="", **options):
        """Bytes that are saved, and the planned module."""
        kept, _, losses, final = self.train(workspace, ranks, more, **options)
        planned, report, *others = self.train(
            workspace, ranks, f"{more} offload-activations=all".strip(), **options
        )
        self.assertEqual(others[0], losses)
        self.assertIsNone(harness.bitwise_difference(final, others[1]))
        self.assertTrue("fsdp.store.start" in planned.read_text())
        peak = module_number(planned, "peak_live_bytes")
        if "prediction" in report:  # of several ranks
            self.assertEqual(report["prediction"]["peak_bytes"], peak)
        return module_number(kept, "peak_live_bytes") - peak, planned

    def test_bitwise_equal(self):
        for config in (GPT2, LLAMA):
            workspace = self.workspace(config)
            for ranks in (1, 2):
                with self.subTest(model=config.model, ranks=ranks):
                    saved, planned = self.check(workspace, ranks)
                    self.assertGreater(saved, 0)
                    self.assertGreater(module_number(planned, "host_arena_bytes"), 0)

    def test_searched(self):
        workspace = self.workspace(GPT2)
        for more in ("schedule=auto", "schedule=asap", "schedule=auto offload-optimizer=all"):
            with self.subTest(more):
                self.check(workspace, 2, more)

    def test_recomputed(self):
        workspace = self.workspace(LLAMA)
        for policy in ("none", "cheap", "selected", "full"):
            with self.subTest(policy):
                self.check(workspace, 2, f"recompute={policy}")

    def test_meshes_and_layouts(self):
        workspace = self.workspace(GPT2)
        for ranks, mesh, layout in ((4, "replicate=2,shard=2", "flat"), (2, "dp=2", "per-param"),
                                    (1, "dp=1", "per-param")):  # fmt: skip
            with self.subTest(mesh=mesh, layout=layout):
                self.check(workspace, ranks, mesh=mesh, layout=layout)

    def test_accumulation_and_clipping(self):
        workspace = self.workspace(LLAMA, capture=["--clip-grad-norm", "0.1"])
        for more in ("microbatches=2", "microbatches=2 gradient-sync=last schedule=auto",
                     "microbatches=2 offload-policy=cpu"):  # fmt: skip
            with self.subTest(more):
                self.check(workspace, 2, more)

    def test_interleaved(self):
        workspace = self.workspace(models.Config("staged", dim=128, layers=4, batch=4))
        config = workspace.folder / "groups.yaml"
        config.write_text("groups: [{modules: ['stages.*']}]\n")
        stages = ",".join(f"stages.{i}" for i in range(4))
        more = f"microbatches=3 microbatch-order=1f1b stages={stages}"
        self.check(workspace, 2, more, config=config)

    def test_mixed_precision(self):
        workspace = self.workspace(MLP, capture=["--param-dtype", "bfloat16"])
        self.check(workspace, 2, "param-dtype=bfloat16 reduce-dtype=float32")

    def test_fused(self):
        workspace = self.workspace(LLAMA)
        self.check(workspace, 2, "fusion=exact")

    def test_described(self):
        binary = self.workspace(LLAMA).compile(2, more="offload-activations=all")
        described = harness.run([binary, "--describe"]).stdout
        self.assertRegex(described, r"\n  on the host: \S+ \w+ of gradients, activations and chunks\n")

    def test_decided(self):
        """Under a cap that asks for recomputation `auto` finds a schedule that is no slower; under a larger one it leaves
        everything in the arena."""
        workspace = self.workspace(LLAMA)
        kept, _, losses, final = self.train(workspace, 2, "schedule=auto device=h100")
        peak = module_number(kept, "peak_live_bytes")
        for cap, is_offloaded in ((peak * 9 // 10, True), (peak * 11 // 10, False)):
            with self.subTest(cap=cap):
                more = f"schedule=auto device=h100 memory-cap={cap}"
                _, alone, *_ = self.train(workspace, 2, more)
                planned, report, *others = self.train(workspace, 2, f"{more} offload-activations=auto")
                self.assertEqual(others[0], losses)
                self.assertIsNone(harness.bitwise_difference(final, others[1]))
                self.assertLessEqual(module_number(planned, "arena_bytes"), cap)
                self.assertLessEqual(report["prediction"]["step_ns"], alone["prediction"]["step_ns"])
                if not is_offloaded:
                    self.assertFalse("fsdp.store.start" in planned.read_text())

    def test_beside_fsdp2(self):
        """Some blocks on the host, by the file; FSDP2, which knows no such thing, with the same groups."""
        workspace = self.workspace(LLAMA)
        config = workspace.folder / "groups.yaml"
        blocks = [f"layers.{i}" for i in range(4)]
        config.write_text(json.dumps({
            "groups": [{"modules": [block], "offload_activations": block != "layers.1"} for block in blocks],
        }))  # fmt: skip
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                planned, report, losses, final = self.train(workspace, ranks, "", config=config)
                places = {group["group"]: group["activations"] for group in report["groups"]}
                self.assertEqual([places[block] for block in blocks], ["host", "device", "host", "host"])
                run = workspace.oracle_run(blocks, ranks=ranks, steps=STEPS, init=str(workspace.weights))
                [(record, tensors)] = oracle.execute([run])
                floats = [[float.fromhex(text) for text in ranks] for ranks in losses]
                expected = [[float.fromhex(rank[step]) for rank in record["losses"]] for step in range(STEPS)]
                self.assertEqual(floats, expected)
                self.assertIsNone(harness.bitwise_difference(final, tensors))


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Parameters that lie on the host (FSDP2's CPUOffloadPolicy) give the bits of parameters in the arena, and FSDP2's: losses
and parameters of five steps, in less memory."""

import json
import unittest

import harness
import oracle
from offloading import STEPS, Offloading, module_number
from oracle import models

GPT2 = models.Config("gpt2", dim=32, seq=16, batch=2, dropout=0.1)
MLP = models.Config("mlp", dim=16, layers=3, batch=2)
LLAMA = models.Config("llama", dim=32, heads=2, layers=3, vocab=50, batch=2)
PLAIN_SGD = harness.Optimizer("sgd", {"lr": 0.1})


class OffloadPolicy(Offloading):
    def check(self, workspace, ranks, more="", against="", **options):
        """Against the same step with `against` in place of the policy."""
        kept, _, losses, final = self.train(workspace, ranks, f"{more} {against}".strip(), **options)
        planned, report, *others = self.train(
            workspace, ranks, f"{more} offload-policy=cpu".strip(), **options
        )
        self.assertEqual(others[0], losses)
        self.assertIsNone(harness.bitwise_difference(final, others[1]))
        self.assertEqual({group["offload_policy"] for group in report["groups"]}, {"cpu"})
        peak = module_number(planned, "peak_live_bytes")
        if "prediction" in report:  # of several ranks
            self.assertEqual(report["prediction"]["peak_bytes"], peak)
        return module_number(kept, "peak_live_bytes") - peak, planned

    def test_bitwise_equal(self):
        for optimizer in (PLAIN_SGD, harness.SGD, harness.ADAMW):
            workspace = self.workspace(GPT2, optimizer)
            for ranks in (1, 2, 3):
                with self.subTest(optimizer=optimizer, ranks=ranks):
                    saved, planned = self.check(workspace, ranks)
                    self.assertGreater(saved, 0)
                    self.assertNotIn("places shard", planned.read_text())

    def test_less_than_states(self):
        saved, _ = self.check(self.workspace(LLAMA), 2, against="offload-optimizer=all")
        self.assertGreater(saved, 0)

    def test_described(self):
        """What lies on the host is parameters and state; without states parameters alone."""
        for optimizer, state in ((harness.ADAMW, r", \S+ \w+ of optimizer state"), (PLAIN_SGD, "")):
            binary = self.workspace(LLAMA, optimizer).compile(2, more="offload-policy=cpu")
            described = harness.run([binary, "--describe"]).stdout
            self.assertRegex(described, rf"\n  on the host: \S+ \w+ of parameters{state}\n")

    def test_searched(self):
        workspace = self.workspace(GPT2)
        for more in ("schedule=auto", "schedule=asap"):
            with self.subTest(more):
                self.check(workspace, 2, more)

    def test_meshes_and_layouts(self):
        workspace = self.workspace(GPT2)
        for ranks, mesh, layout in ((4, "replicate=2,shard=2", "flat"), (2, "dp=2", "per-param"),
                                    (1, "dp=1", "per-param")):  # fmt: skip
            with self.subTest(mesh=mesh, layout=layout):
                self.check(workspace, ranks, mesh=mesh, layout=layout)
        self.check(workspace, 4, reshard="2")

    def test_mixed_precision(self):
        workspace = self.workspace(MLP, capture=["--param-dtype", "bfloat16"])
        for ranks in (1, 2):
            self.check(workspace, ranks, "param-dtype=bfloat16 reduce-dtype=float32")

    def test_accumulation_and_clipping(self):
        workspace = self.workspace(LLAMA, capture=["--clip-grad-norm", "0.1"])
        for ranks, mesh in ((1, "dp=1"), (2, "dp=2"), (4, "replicate=2,shard=2")):
            for sync in ("each", "last"):
                with self.subTest(mesh=mesh, sync=sync):
                    more = f"microbatches=2 gradient-sync={sync}"
                    _, planned = self.check(workspace, ranks, more, mesh=mesh)
                    self.assertIn("fsdp.store.start", planned.read_text())
        for more in ("schedule=auto", "schedule=asap", "microbatches=2 schedule=auto"):
            with self.subTest(more):
                self.check(workspace, 2, more)

    def test_waiting_gradients(self):
        """While they wait for the norm of all, they take no memory either."""
        config = models.Config("mlp", dim=64, layers=4, batch=1)
        clips = self.workspace(config, capture=["--clip-grad-norm", "0.1"])
        with_norm, planned = self.check(clips, 2)
        without, plain = self.check(self.workspace(config), 2)
        self.assertGreater(with_norm, without)
        self.assertGreater(planned.read_text().count("fsdp.shard_norm 2("), 3)
        self.assertNotIn("fsdp.store.start", plain.read_text())
        described = harness.run([clips.compile(2, more="offload-policy=cpu"), "--describe"]).stdout
        self.assertRegex(described, r"\n  on the host: .* of optimizer state, \S+ \w+ of gradients, activations and chunks\n")

    def test_frozen(self):
        config = models.Config("llama", dim=24, heads=2, layers=2, vocab=50, batch=2,
                               frozen=["layers.*.attn.*", "tok.*"])  # fmt: skip
        self.check(self.workspace(config), 2)
        config = models.Config("mlp", dim=16, layers=3, batch=2, frozen=["layers.*.down.*"])
        workspace = self.workspace(config, capture=["--param-dtype", "bfloat16"])
        self.check(workspace, 2, "param-dtype=bfloat16")

    def test_find_nan(self):
        workspace = self.workspace(LLAMA)
        binary = workspace.compile(2, more="offload-policy=cpu")
        with self.assertRaises(harness.CommandFailed) as refused:
            harness.run([binary, "--ranks", 2, "--data", workspace.data, "--init", workspace.weights,
                         "--steps", 2, "--find-nan"])  # fmt: skip
        self.assertIn("--find-nan follows numbers through the arena, but offload_policy cpu keeps",
                      str(refused.exception))  # fmt: skip

    def test_beside_fsdp2(self):
        """Some groups on the host, the others not; FSDP2 with the same policies."""
        workspace = self.workspace(LLAMA)
        config = workspace.folder / "groups.yaml"
        config.write_text(json.dumps({
            "groups": [{"modules": ["layers.0"], "offload_policy": "cpu"}, {"modules": ["layers.1"]},
                       {"modules": ["layers.2"], "offload_policy": "cpu", "offload_optimizer": False}],
            "root": {"offload_policy": "cpu"},
        }))  # fmt: skip
        planned, report, losses, final = self.train(workspace, 2, "", config=config)
        places = [(group["offload_policy"], group["optimizer_state"]) for group in report["groups"]]
        self.assertCountEqual(places, [("cpu", "host"), ("none", "device"), ("cpu", "device"), ("cpu", "host")])
        run = workspace.oracle_run(
            ["layers.0", "layers.1", "layers.2"], steps=STEPS, init=str(workspace.weights),
            cpu_offload=["layers.0", "layers.2", ""],
        )  # fmt: skip
        [(record, tensors)] = oracle.execute([run])
        floats = [[float.fromhex(text) for text in ranks] for ranks in losses]
        expected = [[float.fromhex(rank[step]) for rank in record["losses"]] for step in range(STEPS)]
        self.assertEqual(floats, expected)
        self.assertIsNone(harness.bitwise_difference(final, tensors))


if __name__ == "__main__":
    unittest.main()

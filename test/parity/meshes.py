#!/usr/bin/env python3
"""Meshes with an axis of one rank beside FSDP2: bits, and the collectives between several ranks."""

import json
import unittest

import harness
from oracle import models

MLP = models.Config("mlp", dim=16, layers=3, batch=2)
#: One sample: products of vectors, whose bits depend on the addresses of their operands.
VECTORS = models.Config("mlp", dim=17, layers=3, batch=1)
LLAMA = models.Config("llama", dim=32, layers=2, batch=2)


class OneRankAxes(harness.Comparison):
    def compare(self, config, mesh, ranks, replicas, groups=("layers.*",), text="", capture=(), more="",
                layouts=("flat", "per-param"), communicators=("local",), optimizer=harness.ADAMW,
                **options):  # fmt: skip
        """FSDP2's mesh has two axes if `replicas` is not None."""
        workspace = self.workspace(config, optimizer, capture)
        run, outcome = self.expect(
            workspace, ranks, groups, replicas=1 if replicas is None else replicas,
            two_axes=replicas is not None, **options,
        )  # fmt: skip
        path = workspace.folder / "config.yaml"
        path.write_text(f"groups: [{{modules: {json.dumps(list(groups))}}}]\n" + text)
        self.check(workspace, run, outcome, mesh, layouts, more, communicators, config=path)

    def test_one_shard(self):
        """Plain data parallelism."""
        self.compare(LLAMA, "replicate=2,shard=1", 2, 2, communicators=("local", "shm", "gloo"))

    def test_one_shard_of_sgd(self):
        self.compare(MLP, "replicate=2,shard=1", 2, 2, optimizer=harness.SGD)

    def test_one_shard_in_mixed_precision(self):
        """Gradients are reduced in reduce_dtype, of f16 by a sum."""
        for reduce_dtype in ("bfloat16", "float32", "float16"):
            with self.subTest(reduce_dtype):
                self.compare(MLP, "replicate=2,shard=1", 2, 2, mixed=True, reduce_dtype=reduce_dtype,
                             capture=("--param-dtype", "bfloat16"),
                             more=f"param-dtype=bfloat16 reduce-dtype={reduce_dtype}")  # fmt: skip

    def test_one_shard_in_microbatches(self):
        for sync in ("each", "reduce_scatter", "last"):
            with self.subTest(sync):
                self.compare(MLP, "replicate=2,shard=1", 2, 2, microbatches=2, gradient_sync=sync,
                             more=f"microbatches=2 gradient-sync={sync}")  # fmt: skip

    def test_one_shard_in_microbatches_by_a_factor(self):
        """The gradients of each microbatch are divided before they are added up."""
        more = "microbatches=2 gradient-sync=reduce_scatter"
        options = dict(microbatches=2, gradient_sync="reduce_scatter")
        self.compare(MLP, "replicate=2,shard=1", 2, 2, text="gradient_divide_factor: 3\n",
                     gradient_divide_factor=3.0, more=more, **options)  # fmt: skip
        self.compare(MLP, "replicate=2,shard=1", 2, 2, mixed=True, reduce_dtype="float16",
                     capture=("--param-dtype", "bfloat16"),
                     more=f"param-dtype=bfloat16 reduce-dtype=float16 {more}", **options)  # fmt: skip

    def test_one_shard_by_a_factor(self):
        self.compare(MLP, "replicate=2,shard=1", 2, 2, text="gradient_divide_factor: 3\n",
                     gradient_divide_factor=3.0)  # fmt: skip
        self.compare(MLP, "replicate=2,shard=1", 2, 2, text="force_sum_reduction_for_comms: true\n",
                     force_sum=True)  # fmt: skip

    def test_one_shard_clipped(self):
        optimizer = harness.Optimizer(
            "adamw", {"lr": 1e-3, "weight_decay": 0.1, "clip_grad_norm": 1e6}
        )
        self.compare(MLP, "replicate=2,shard=1", 2, 2, optimizer=optimizer)

    def test_one_replica(self):
        self.compare(LLAMA, "replicate=1,shard=2", 2, 1)

    def test_one_replica_in_float16(self):
        self.compare(MLP, "replicate=1,shard=2", 2, 1, mixed=True, reduce_dtype="float16",
                     capture=("--param-dtype", "bfloat16"),
                     more="param-dtype=bfloat16 reduce-dtype=float16")  # fmt: skip

    def test_one_rank(self):
        """Of one axis, and of two."""
        for mesh, replicas in (("dp=1", None), ("replicate=1,shard=1", 1)):
            with self.subTest(mesh):
                self.compare(LLAMA, mesh, 1, replicas)

    def test_unaligned_parameters(self):
        """In FSDP2 each parameter has a buffer of its own; here those of a group that a rank holds whole follow each
        other in the shard."""
        self.compare(VECTORS, "dp=1", 1, None)
        self.compare(VECTORS, "replicate=2,shard=1", 2, 2)
        self.compare(VECTORS, "dp=1", 1, None, mixed=True, capture=("--param-dtype", "bfloat16"),
                     more="param-dtype=bfloat16 reduce-dtype=float32")  # fmt: skip

    def test_one_rank_in_mixed_precision(self):
        """Gradients are rounded to reduce_dtype though they go nowhere."""
        for reduce_dtype in ("bfloat16", "float16"):
            for microbatches in (1, 2):
                with self.subTest(reduce_dtype, microbatches=microbatches):
                    self.compare(MLP, "dp=1", 1, None, mixed=True, reduce_dtype=reduce_dtype,
                                 capture=("--param-dtype", "bfloat16"), microbatches=microbatches,
                                 more=f"param-dtype=bfloat16 reduce-dtype={reduce_dtype} "
                                      f"microbatches={microbatches}")  # fmt: skip

    def test_one_rank_by_a_factor(self):
        for microbatches in (1, 2):
            with self.subTest(microbatches=microbatches):
                self.compare(MLP, "dp=1", 1, None, text="gradient_divide_factor: 3\n",
                             gradient_divide_factor=3.0, microbatches=microbatches,
                             more=f"microbatches={microbatches}")  # fmt: skip

    def test_schedules_are_not_searched_for(self):
        workspace = self.workspace(MLP)
        with self.assertRaisesRegex(harness.CommandFailed, "nothing to search for"):
            workspace.plan("replicate=2,shard=1", "auto", more="schedule=auto device=h100")


if __name__ == "__main__":
    unittest.main()

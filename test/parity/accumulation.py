#!/usr/bin/env python3
"""Gradient accumulation beside FSDP2: bits, events and collectives, in every mode."""

import dataclasses
import unittest

import harness
from oracle import models

CONFIG = models.Config("llama", dim=32, layers=2, batch=2)
#: Dropout draws anew in each microbatch, statistics of batches go on from one to the next.
BUFFERS = models.Config("convnet", dim=8, layers=2, batch=2)
RMS = models.Config("mlp", dim=24, layers=2, batch=4, norm="rms")
#: Calls layers.1 three times in a forward, every other module at most once.
CALLED_AGAIN = models.Config("shared", dim=16, batch=2)


class Accumulation(harness.Comparison):
    def test_modes(self):
        """Each way to reduce and to keep parameters, with 2 and 3 microbatches: each with each way of the others."""
        workspace = self.workspace(CONFIG)
        for sync, reshard_after_backward, reshard, microbatches in (
            ("each", True, "true", 2), ("each", False, "none", 3), ("last", True, "none", 2), ("last", False, "true", 2),
            ("last", True, "true", 3),
        ):  # fmt: skip
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

    def test_reduce_dtype(self):
        """Computation in f32, reduced in a narrower dtype: sums of shards are f32, sums of whole gradients are
        rounded, what is added is not."""
        workspace = self.workspace(CONFIG)
        for sync, reduce_dtype, microbatches in (
            ("each", "bfloat16", 2),
            ("each", "float16", 3),
            ("last", "bfloat16", 3),
            ("last", "float16", 2),
        ):
            policy = {"reduce_dtype": reduce_dtype}
            policies = {"layers.*": policy, "": policy}
            run, expected = self.expect(
                workspace, policies=policies, microbatches=microbatches, gradient_sync=sync
            )
            more = f"microbatches={microbatches} gradient-sync={sync} reduce-dtype={reduce_dtype}"
            self.check(workspace, run, expected, 2, more=more, communicators=("local",))

    def test_reduce_dtype_beside_another(self):
        """Neither of float16 and bfloat16 holds the numbers of the other."""
        workspace = self.workspace(dataclasses.replace(CONFIG, compute="bf16"))
        run, expected = self.expect(
            workspace, mixed=True, reduce_dtype="float16", microbatches=3, gradient_sync="last"
        )
        more = "microbatches=3 gradient-sync=last param-dtype=bfloat16 reduce-dtype=float16"
        self.check(workspace, run, expected, 2, more=more, communicators=("local",))

    def test_rounding_of_the_model(self):
        """torch rounds the gradient of an RMSNorm's weight, which it sums up in f32, to the weight's bf16: what is
        added has been rounded by the model, not by the reduction."""
        workspace = self.workspace(RMS, capture=["--param-dtype", "bfloat16"])
        for reduce_dtype, microbatches in ((None, 2), ("bfloat16", 3)):
            run, expected = self.expect(
                workspace, mixed=True, reduce_dtype=reduce_dtype, microbatches=microbatches, gradient_sync="last"
            )
            more = f"microbatches={microbatches} gradient-sync=last param-dtype=bfloat16"
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

    def test_module_called_several_times(self):
        """With gradient_sync: last what earlier microbatches have left is reduced where the backward of the
        first call ends."""
        for optimizer in (harness.SGD, harness.ADAMW):
            workspace = self.workspace(CALLED_AGAIN, optimizer)
            for reshard, microbatches in (("true", 2), ("none", 3)):
                run, expected = self.expect(
                    workspace, reshard_after_forward=reshard, microbatches=microbatches, gradient_sync="last"
                )
                more = f"microbatches={microbatches} gradient-sync=last"
                self.check(workspace, run, expected, 2, more=more, communicators=("local",))

    def test_module_of_the_root_called_several_times(self):
        """A search splits the root's group. FSDP2 calls the root once, so none of its parts is reduced earlier."""
        workspace = self.workspace(CALLED_AGAIN)
        run, expected = self.expect(workspace, groups=["layers.2"], microbatches=2, gradient_sync="last")
        config = workspace.folder / "config.yaml"
        config.write_text("groups: [{modules: [layers.2]}]")
        planned, _ = workspace.plan(2, config=config, more="microbatches=2 gradient-sync=last schedule=auto")
        self.assertTrue('part_of ""' in planned.read_text())
        log, saved = harness.train(workspace, workspace.link(planned), 2, run.steps)
        self.check_bits(run, expected, log, saved)


if __name__ == "__main__":
    unittest.main()

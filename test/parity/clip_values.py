#!/usr/bin/env python3
"""Clipping of each gradient element beside FSDP2 with clip_grad_value_: losses and parameters are FSDP2's,
bit for bit."""

import dataclasses
import json
import unittest

import harness
from harness import ADAMW, SGD
from optimizers import OTHERS
from oracle import models

LLAMA = models.Config("llama", dim=24, heads=2, ffn=40, layers=2, vocab=50, seq=16, batch=2)
GPT2 = models.Config("gpt2", dim=24, heads=2, layers=2, vocab=50, seq=16, batch=2)
MLP = models.Config("mlp", dim=24, layers=2, batch=2)
#: Less than some of the gradients in each step of these runs, more than others. In bf16 it is another number.
VALUE = 1e-3
#: Above all gradients.
NEVER = 1e30


class ClipValues(harness.Comparison):
    def compare(self, optimizer=ADAMW, config=LLAMA, mesh=2, more="", layouts=("flat", "per-param"), capture=(),
                communicators=("local",), value=VALUE, **run):  # fmt: skip
        optimizer = harness.Optimizer(optimizer.kind, optimizer.options | {"clip_grad_value": value})
        workspace = self.workspace(config, optimizer, capture=capture)
        run, outcome = self.expect(workspace, **run)
        for share in outcome[0]["clipped_shares"]:
            self.assertTrue(0 < share < 1 or value == NEVER, share)
        self.check(workspace, run, outcome, mesh, layouts, more, communicators)
        return workspace, run, outcome

    def test_optimizers(self):
        for optimizer in (ADAMW, SGD, harness.Optimizer("adam", {"lr": 1e-3, "amsgrad": True, "maximize": True})):
            self.compare(optimizer, communicators=("local", "shm", "gloo"))
        for kind, choices in OTHERS.items():
            with self.subTest(optimizer=kind):
                self.compare(harness.Optimizer(kind, choices[-1]), MLP, layouts=("flat",))

    def test_dtypes(self):
        """The gradient is clipped in the parameter's dtype, in which the value is rounded. In bf16, torch's sums
        with alpha differ behind the last vector, as of a flat shard."""
        for dtype, layouts in (("bf16", ("per-param",)), ("f64", ("flat", "per-param"))):
            config = dataclasses.replace(MLP, dtype=dtype)
            for optimizer in (ADAMW, SGD):
                with self.subTest(dtype=dtype, optimizer=optimizer.kind):
                    self.compare(optimizer, config, layouts=layouts)

    def test_mixed_precision(self):
        """Reduced in bf16 or fp32, a gradient is clipped in fp32."""
        for reduced in ("bfloat16", "float32"):
            self.compare(config=MLP, more=f"param-dtype=bfloat16 reduce-dtype={reduced}",
                         capture=["--param-dtype", "bfloat16"], mixed=True, reduce_dtype=reduced)  # fmt: skip

    def test_state_dtypes(self):
        options = dict(ADAMW.options, optimizer_state_dtype="bfloat16")
        workspace = self.workspace(LLAMA, harness.Optimizer("adamw", options | {"clip_grad_value": VALUE}))
        workspace.optimizer = harness.Optimizer("adamw", ADAMW.options | {"clip_grad_value": VALUE})
        run, outcome = self.expect(workspace, state_dtype="bfloat16")
        self.check(workspace, run, outcome, 2, communicators=("local",))

    def test_accumulation_and_frozen(self):
        """The gradients of all microbatches together are clipped, of what is trained."""
        config = dataclasses.replace(LLAMA, frozen=["*.attn.*"])
        for sync in ("each", "last"):
            self.compare(config=config, more=f"microbatches=2 gradient-sync={sync}", microbatches=2,
                         gradient_sync=sync)  # fmt: skip

    def test_meshes(self):
        """On one rank, replicas, and 4 ranks, where a rank may have no element of a parameter."""
        self.compare(config=GPT2, mesh=1, ranks=1, groups=["h.*"])
        self.compare(SGD, config=MLP, mesh=4, ranks=4, det_rs=True)
        self.compare(mesh="replicate=2,shard=2", ranks=4, replicas=2)

    def test_schedules(self):
        self.compare(more="schedule=auto offload-optimizer=all", layouts=("flat",))
        self.compare(more="offload-policy=cpu", cpu_offload=["", "layers.*"])
        self.compare(SGD, more="fusion=exact recompute=full")

    def test_value_above_all_gradients(self):
        """It changes no bit: the run is that of a step without clipping, too."""
        workspace, run, outcome = self.compare(value=NEVER)
        workspace.optimizer = ADAMW
        workspace.capture()
        self.check(workspace, run, outcome, 2, communicators=("local",))

    def test_files_and_flags(self):
        """A file's value wins over the capture's, and the run's over both."""
        workspace, run, outcome = self.compare(layouts=("flat",))
        workspace.optimizer = harness.Optimizer("adamw", ADAMW.options | {"clip_grad_value": 5.0})
        workspace.capture()
        config = workspace.folder / "clip.yaml"
        config.write_text(json.dumps({"optimizer": {"clip_grad_value": VALUE}}))
        self.check(workspace, run, outcome, 2, config=config, communicators=("local",))
        config.write_text(json.dumps({"optimizer": {"clip_grad_value": 7.0}}))
        binary = workspace.compile(2, config=config)
        log, saved = harness.train(workspace, binary, 2, run.steps, extra=["--clip-grad-value", VALUE])
        self.check_bits(run, outcome, log, saved)
        for line, norm in zip(log, outcome[0]["grad_norms"], strict=True):  # before clipping
            self.assertAlmostEqual(line["grad_norm"], norm, delta=1e-6 * norm)
        described = harness.run([binary, "--describe"]).stdout
        self.assertRegex(described, "optimizer: adamw .*, clip grad value 7\n")

    def test_refusals(self):
        both = harness.Optimizer("adamw", {"clip_grad_value": 1.0, "clip_grad_norm": 1.0})
        message = "clips gradients by both 'clip_grad_norm' and 'clip_grad_value', expected one of them"
        self.assert_fails(f"optimizer 'adamw' {message}", self.workspace, MLP, both)
        for value in (0, -1, "inf", "1e300"):
            self.assert_fails("'adamw': clip_grad_value is", self.workspace, MLP,
                              harness.Optimizer("adamw", {"clip_grad_value": value}))  # fmt: skip
        workspace = self.workspace(MLP, harness.Optimizer("adamw", {"clip_grad_norm": 1.0}))
        config = workspace.folder / "clip.yaml"
        config.write_text(json.dumps({"optimizer": {"clip_grad_value": 1.0}}))
        self.assert_fails(f"the optimizer {message}; what the file leaves out stays as captured",
                          workspace.plan, 2, config=config)  # fmt: skip
        config.write_text(json.dumps({"optimizer": {"groups": [{"max_dims": 1, "clip_grad_value": 1.0}]}}))
        self.assert_fails("clip_grad_value is of the whole optimizer, not of a group of it",
                          workspace.plan, 2, config=config)  # fmt: skip
        self.assert_fails("--clip-grad-value 1.0: this binary is compiled without clipping by value", harness.train,
                          workspace, workspace.compile(2), 2, 2, extra=["--clip-grad-value", 1.0])  # fmt: skip


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Optimizer state of a dtype of its own beside FSDP2, with an optimizer that computes the same of torch's
operators: losses and parameters bit for bit."""

import dataclasses
import json
import shutil
import unittest

import torch

import checkpoints
import harness
from oracle import models, safetensors_io

LLAMA = models.Config("llama", dim=24, heads=2, ffn=40, layers=2, vocab=50, seq=16, batch=2)
MLP = models.Config("mlp", dim=24, layers=2, batch=2)
BF16 = dataclasses.replace(MLP, dtype="bf16")
ADAMW = harness.Optimizer("adamw", {"lr": 1e-3, "weight_decay": 0.3})
ADAM = harness.Optimizer("adam", {"lr": 1e-3, "weight_decay": 0.1})
SGD = harness.Optimizer("sgd", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01})
#: No decay on vectors, a rate of its own for one block.
GROUPS = [{"max_dims": 1, "weight_decay": 0.0}, {"parameters": ["layers.1.**"], "lr": 3e-4}]
MIXED = {"exp_avg": "bfloat16", "exp_avg_sq": "float32"}


class StateDtypes(harness.Comparison):
    def configure(self, workspace, dtype, options, groups):
        path = workspace.folder / "config.yaml"
        optimizer = {**options, "groups": list(groups), "state_dtype": dtype}
        path.write_text(json.dumps({"optimizer": optimizer}))
        return path

    def compare(self, dtype, optimizer=ADAMW, options=None, groups=(), model=LLAMA, ranks=2, more="",
                communicators=("local",), layouts=("flat", "per-param"), **run):  # fmt: skip
        workspace = self.workspace(model, optimizer)
        config = self.configure(workspace, dtype, options or {}, groups)
        run, expected = self.expect(
            workspace, ranks, optimizer_options=options or {}, optimizer_groups=list(groups),
            state_dtype=dtype, **run)  # fmt: skip
        self.check(workspace, run, expected, ranks, layouts, more, communicators, config=config)
        return workspace, config

    def test_of_all_states(self):
        for ranks in (1, 2):
            with self.subTest(ranks=ranks):
                self.compare("bfloat16", ranks=ranks, groups=GROUPS, communicators=["local", "shm"])

    def test_of_each_state(self):
        self.compare(MIXED)
        self.compare({"exp_avg_sq": "bfloat16"}, ADAM, {"amsgrad": True})
        self.compare({"max_exp_avg_sq": "bfloat16"}, ADAM, {"amsgrad": True, "maximize": True})

    def test_of_sgd(self):
        self.compare("bfloat16", SGD, groups=GROUPS)
        self.compare({"momentum_buffer": "bfloat16"}, SGD, {"nesterov": True})

    def test_of_other_optimizers(self):
        for kind, dtype, options in (
            ("rmsprop", {"square_avg": "bfloat16"}, {"momentum": 0.5, "centered": True}),
            ("rmsprop", {"grad_avg": "bfloat16"}, {"centered": True, "weight_decay": 0.1}),
            ("adagrad", "bfloat16", {"initial_accumulator_value": 0.1}),
            ("nadam", "bfloat16", {"decoupled_weight_decay": True, "weight_decay": 0.3}),
            ("adadelta", {"acc_delta": "bfloat16"}, {}),
        ):
            with self.subTest(optimizer=kind, dtype=dtype):
                optimizer = harness.Optimizer(kind, {})
                self.compare(dtype, optimizer, options, GROUPS, model=MLP)
                if not isinstance(dtype, dict):
                    self.compare("float32", optimizer, options, model=BF16)

    def test_of_parameters_in_bf16(self):
        """Parameters are widened and rounded as the state is."""
        for dtype in ("float32", MIXED):
            with self.subTest(dtype=dtype):
                self.compare(dtype, model=BF16, groups=GROUPS[:1])
        self.compare("float32", SGD, model=BF16)
        # The same dtype: torch's operators on bf16, as without a word of it. 0.95 and 0.9 are no numbers of bf16.
        # torch's sums with alpha round it within a vector and not behind the last one, which is elsewhere in flat shards.
        for optimizer, options, layout in (
            (ADAMW, {}, "flat"),
            (ADAMW, {"betas": (0.9, 0.95)}, "flat"),
            (SGD, {}, "per-param"),
        ):
            workspace = self.workspace(BF16, optimizer)
            config = self.configure(workspace, "bfloat16", options, ())
            run, expected = self.expect(workspace, **options)
            self.check(workspace, run, expected, 2, [layout], "", ["local"], config=config)

    def test_with_mixed_precision(self):
        workspace = self.workspace(MLP, ADAMW, capture=["--param-dtype", "bfloat16"])
        config = self.configure(workspace, "bfloat16", {}, ())
        run, expected = self.expect(workspace, state_dtype="bfloat16", mixed=True, reduce_dtype="bfloat16")
        more = "param-dtype=bfloat16 reduce-dtype=bfloat16"
        self.check(workspace, run, expected, 2, ["flat"], more, ["local"], config=config)

    def test_on_the_host(self):
        for dtype in ("bfloat16", MIXED):
            self.compare(dtype, options={"amsgrad": True}, groups=GROUPS, more="offload-optimizer=all")
        self.compare("float32", model=BF16, more="offload-optimizer=all")
        self.compare("bfloat16", more="offload-policy=cpu", cpu_offload=["", "layers.*"])

    def test_with_clipping(self):
        """By the largest gradient, which is exact. Of bf16 gradients torch rounds the factor on its way to bf16,
        so only a factor of 1 is the same."""
        for dtype, model, limit in (("bfloat16", LLAMA, 1e-3), ("float32", BF16, 100.0)):
            clipping = {"clip_grad_norm": limit, "clip_norm_type": "inf"}
            self.compare(dtype, harness.Optimizer("adamw", ADAMW.options | clipping), model=model)

    def test_by_a_flag(self):
        workspace = self.workspace(
            LLAMA, ADAMW, capture=["--optimizer-state-dtype", "exp_avg=bfloat16,exp_avg_sq=float32"]
        )
        self.assertIn("state_dtype = {exp_avg = bf16}", workspace.captured.read_text())
        run, expected = self.expect(workspace, state_dtype=MIXED)
        self.check(workspace, run, expected, 2, ["flat"], "", ["local"])
        # The file's word wins over the flag's.
        config = self.configure(workspace, "float32", {}, ())
        run, expected = self.expect(workspace)
        self.check(workspace, run, expected, 2, ["flat"], "", ["local"], config=config)

        for dtype, message in (
            ("momentum_buffer=bfloat16", "adamw has no state 'momentum_buffer', it has exp_avg, exp_avg_sq"),
            ("float16", "the dtype of optimizer state is 'float16', expected float32 or bfloat16"),
        ):
            self.assert_fails(message, workspace.capture, flags=["--optimizer-state-dtype", dtype])

    def train(self, workspace, binary, *arguments, init=True):
        log, save = workspace.folder / "log.jsonl", workspace.folder / "final.safetensors"
        for path in (log, save):
            path.unlink(missing_ok=True)
        weights = ["--init", workspace.weights] if init else []
        output = harness.run([binary, "--ranks", 2, "--data", workspace.data, "--log", log, "--save", save,
                              "--steps", 4, *weights, *arguments]).stdout  # fmt: skip
        lines = [(r["step"], r["loss_hex"]) for r in harness.read_log(log)]
        return lines, safetensors_io.load(save), output

    def test_resume(self):
        """A run that was stopped goes on exactly; a binary with another dtype goes on, and says so."""
        for dtype, model, more in ((MIXED, LLAMA, ""), ("float32", BF16, "offload-optimizer=all")):
            with self.subTest(dtype=dtype):
                workspace = self.workspace(model, ADAMW)
                config = self.configure(workspace, dtype, {}, ())
                binary = workspace.compile(2, "none", "flat", config, more)
                folder = workspace.folder / "run"
                saving = ["--checkpoint-dir", folder, "--save-every", 2]
                lines, final, _ = self.train(workspace, binary, *saving)
                state = checkpoints.assemble(folder / "step-000000004")
                kept = {name.rsplit(".", 1)[1]: tensor.dtype for name, tensor in state.items()
                        if ".exp_avg" in name}  # fmt: skip
                both = ["bfloat16", "float32"] if dtype == MIXED else ["float32", "float32"]
                self.assertEqual(kept, dict(zip(("exp_avg", "exp_avg_sq"), (getattr(torch, d) for d in both))))
                shutil.rmtree(folder / "step-000000004")
                again, resumed, output = self.train(workspace, binary, *saving, "--resume", init=False)
                self.assertEqual(again, lines[2:])
                self.assertIsNone(harness.bitwise_difference(final, resumed))
                self.assertNotIn("it is cast", output)
                plain = workspace.compile(2, "none", "per-param")
                _, _, output = self.train(workspace, plain, "--resume", folder, init=False)
                own = "F32" if model is LLAMA else "BF16"
                stored = "BF16" if model is LLAMA else "F32"
                self.assertIn(f"state exp_avg is {stored} in the checkpoint and {own} here: it is cast, of", output)


if __name__ == "__main__":
    unittest.main()

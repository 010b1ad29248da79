#!/usr/bin/env python3
"""FSDP2's MixedPrecisionPolicy: losses and parameters bit for bit, and the same bytes on the way.

Two models: one that casts its parameters to bf16 itself, and one without a cast, captured with
--param-dtype. Their steps gather bf16 and update parameters in fp32, as FSDP2's do.
"""

import json
import unittest

import harness
from oracle import execute, models, safetensors_io

SIZES = {"dim": 64, "layers": 3, "seq": 32, "batch": 2}
STEPS, RANKS = 10, 2
RESHARD = ["true", "false", "none"]


class Mixed(unittest.TestCase):
    maxDiff = None

    def prepare(self, config, flags=()):
        workspace = harness.Workspace(config)
        self.addCleanup(workspace.remove)
        workspace.capture(flags=flags)
        return workspace

    def train(self, workspace, expected, final, reshard, layout, more):
        """Compares with the run of FSDP2 whose figures and parameters are given."""
        log, save = workspace.folder / "log.jsonl", workspace.folder / "final.safetensors"
        for path in (log, save):
            path.unlink(missing_ok=True)
        binary = workspace.compile(RANKS, reshard, layout, more=more)
        arguments = harness.training_arguments(workspace, log, save, STEPS)
        harness.run([binary, "--ranks", RANKS, *arguments])
        for step, line in enumerate(harness.read_log(log)):
            losses = [float.fromhex(text) for text in line["loss_hex"]]
            self.assertEqual(losses, [float.fromhex(rank[step]) for rank in expected["losses"]])
        self.assertIsNone(harness.bitwise_difference(final, safetensors_io.load(save)))

    def compare(self, config, flags, more, **policy):
        workspace = self.prepare(config, flags)
        runs = [
            workspace.oracle_run(["layers.*"], RANKS, steps=STEPS, init=str(workspace.weights),
                                 mixed=True, reshard_after_forward=reshard, **policy)
            for reshard in RESHARD
        ]  # fmt: skip
        for run, (expected, final) in zip(runs, execute(runs)):
            reshard = run.reshard_after_forward
            for layout in ("flat", "per-param"):
                with self.subTest(reshard_after_forward=reshard, layout=layout):
                    self.train(workspace, expected, final, reshard, layout, more)
            # The per-param layout has FSDP2's element counts.
            _, report = workspace.plan(RANKS, reshard, "per-param", more=more)
            report = json.loads(report.read_text())
            self.assertEqual(expected["events"], report["events"])
            self.assertEqual(expected["collectives"], report["collectives"])

    def test_own_casts(self):
        """What all uses of a parameter cast to is what is gathered; nothing is asked for."""
        self.compare(models.Config("llama", compute="bf16", **SIZES), (), "")

    def test_own_casts_reduced_in_bf16(self):
        config = models.Config("llama", compute="bf16", **SIZES)
        self.compare(config, (), "param-dtype=bfloat16", reduce_dtype="bfloat16")

    def test_param_dtype(self):
        """A model without casts."""
        self.compare(
            models.Config("llama", **SIZES),
            ["--param-dtype", "bfloat16"],
            "param-dtype=bfloat16 reduce-dtype=float32",
        )

    def test_param_dtype_reduced_in_bf16(self):
        """Without a reduce_dtype FSDP2 reduces in param_dtype."""
        self.compare(
            models.Config("llama", **SIZES),
            ["--param-dtype", "bfloat16"],
            "param-dtype=bfloat16",
            reduce_dtype=None,
        )

    def test_gathers_of_f32(self):
        """param-dtype float32 leaves a model's casts behind the gather: the bits are the same."""
        workspace = self.prepare(models.Config("llama", compute="bf16", **SIZES))
        run = workspace.oracle_run(
            ["layers.*"], RANKS, steps=STEPS, init=str(workspace.weights), mixed=True
        )
        [(expected, final)] = execute([run])
        for more in ("param-dtype=float32 reduce-dtype=float32", "schedule=auto"):
            with self.subTest(options=more):
                self.train(workspace, expected, final, "none", "flat", more)


if __name__ == "__main__":
    unittest.main()

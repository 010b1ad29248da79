#!/usr/bin/env python3
"""A decoder that computes in bf16 under fp32 parameters: losses and parameters are those of FSDP2 with
MixedPrecisionPolicy(param_dtype=bf16, reduce_dtype=fp32), bit for bit.

The compiled step gathers fp32 and casts behind the gather, where FSDP2 casts before: the values are
the same, the bytes on the way twice as many.
"""

import unittest

import harness
from oracle import execute, models, safetensors_io

CONFIG = models.Config("llama", dim=64, layers=3, seq=32, batch=2, compute="bf16")
STEPS, RANKS = 10, 2


class Mixed(unittest.TestCase):
    def test_bitwise_equal(self):
        workspace = harness.Workspace(CONFIG)
        self.addCleanup(workspace.remove)
        workspace.capture()
        reference = workspace.oracle_run(
            ["layers.*"], RANKS, steps=STEPS, init=str(workspace.weights), mixed=True
        )
        [(expected, final)] = execute([reference])
        log, save = workspace.folder / "log.jsonl", workspace.folder / "final.safetensors"
        for layout in ("flat", "per-param"):
            with self.subTest(layout=layout):
                binary = workspace.compile(RANKS, layout=layout)
                arguments = harness.training_arguments(workspace, log, save, STEPS)
                harness.run([binary, "--ranks", RANKS, *arguments])
                for step, line in enumerate(harness.read_log(log)):
                    losses = [float.fromhex(text) for text in line["loss_hex"]]
                    self.assertEqual(
                        losses, [float.fromhex(rank[step]) for rank in expected["losses"]]
                    )
                difference = harness.bitwise_difference(final, safetensors_io.load(save))
                self.assertIsNone(difference)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Five steps of the shapes that tools/capture_shape.py plans for, made small, on two ranks: a mixture
of experts, a GPT-2 with tied weights and a vision transformer. Losses and parameters are FSDP2's, bit
for bit."""

import unittest

import harness
import oracle
from oracle import models, safetensors_io

RANKS, STEPS = 2, 5
SHAPES = {  # with the blocks that are groups
    "moe": (models.Config("moe", dim=32, seq=16, batch=2, experts=4, active=2), "layers.*"),
    "gpt2": (models.Config("gpt2", dim=32, seq=16, batch=2), "h.*"),
    "vit": (models.Config("vit", dim=32, image=16, batch=2), "blocks.*"),
}


class Shapes(unittest.TestCase):
    def train(self, workspace):
        """Losses by step and rank, and the parameters afterwards."""
        binary = workspace.compile(RANKS)
        log, save = workspace.folder / "log.jsonl", workspace.folder / "final.safetensors"
        log.unlink(missing_ok=True)
        save.unlink(missing_ok=True)
        harness.run(
            [binary, "--ranks", RANKS, *harness.training_arguments(workspace, log, save, STEPS)]
        )
        losses = [[float.fromhex(x) for x in line["loss_hex"]] for line in harness.read_log(log)]
        return losses, safetensors_io.load(save)

    def check_shape(self, config, blocks):
        workspace = harness.Workspace(config)
        self.addCleanup(workspace.remove)
        workspace.capture()
        run = workspace.oracle_run([blocks], RANKS, steps=STEPS, init=str(workspace.weights))
        [(expected, final)] = oracle.execute([run])
        by_step = [
            [float.fromhex(rank[step]) for rank in expected["losses"]] for step in range(STEPS)
        ]
        losses, parameters = self.train(workspace)
        self.assertEqual(losses, by_step)
        # The binary saves a tied weight under both of its names, FSDP2's record has it once.
        tied = set(parameters) - set(final)
        self.assertEqual(tied, {"head.weight"} if config.model == "gpt2" else set())
        saved = {name: parameters[name] for name in parameters if name not in tied}
        self.assertIsNone(harness.bitwise_difference(final, saved))

    def test_bitwise_equal(self):
        for name, (config, blocks) in SHAPES.items():
            with self.subTest(name):
                self.check_shape(config, blocks)


if __name__ == "__main__":
    unittest.main()

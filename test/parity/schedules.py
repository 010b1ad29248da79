#!/usr/bin/env python3
"""Five steps of other models than a decoder (batch normalisation, dropout, tied weights), on two ranks:
schedules that were searched for give the bits of FSDP2's order."""

import re
import sys
import unittest

import harness
from oracle import models, safetensors_io

RANKS, STEPS = 2, 5
MODELS = {
    "convnet": models.Config("convnet", dim=16, image=8, batch=2),
    "gpt2": models.Config("gpt2", dim=32, seq=16, batch=2, dropout=0.1),
    "mlp": models.Config("mlp", dim=32, batch=4),
}


class Schedules(unittest.TestCase):
    def run_steps(self, workspace, reshard="none", more=""):
        """Losses by step and rank, and the parameters and buffers afterwards."""
        binary = workspace.compile(RANKS, reshard, more=more)
        log, save = workspace.folder / "log.jsonl", workspace.folder / "final.safetensors"
        log.unlink(missing_ok=True)
        arguments = harness.training_arguments(workspace, log, save, STEPS)
        harness.run([binary, "--ranks", RANKS, *arguments])
        losses = [line["loss_hex"] for line in harness.read_log(log)]
        self.assertEqual(len(losses), STEPS)
        return losses, safetensors_io.load(save)

    def check_model(self, config):
        workspace = harness.Workspace(config, harness.SGD)
        self.addCleanup(workspace.remove)
        workspace.capture()
        losses, final = self.run_steps(workspace)
        with self.assertRaises(harness.CommandFailed) as refusal:
            workspace.plan(RANKS, "auto", more="schedule=auto memory-cap=1")
        least = int(re.search(r"at least (\d+) bytes are live", str(refusal.exception))[1])
        capped = f"memory-cap={least + least // 20}"
        for more in (
            "schedule=auto",
            f"schedule=auto {capped}",
            f"schedule=auto buckets=false {capped}",
            "schedule=auto device=h100",
            f"schedule=asap {capped}",
        ):
            with self.subTest(more):
                other_losses, other_final = self.run_steps(workspace, "auto", more)
                self.assertEqual(other_losses, losses)
                self.assertIsNone(harness.bitwise_difference(final, other_final))

    def test_bitwise_equal(self):
        for name, config in MODELS.items():
            with self.subTest(name):
                self.check_model(config)


if __name__ == "__main__":
    unittest.main()

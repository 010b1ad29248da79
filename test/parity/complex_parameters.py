#!/usr/bin/env python3
"""Complex parameters are trained as FSDP2 trains them: bit for bit where torch, too, computes with pairs of reals. FSDP2 needs
groups of one dtype, a step does not."""

import json
import unittest

import harness
import torch
from oracle import models

CONFIG = models.Config("spectral", dim=16, layers=2, batch=4)
PAIRED = models.Config("paired_spectral", dim=16, layers=2, batch=4)
#: Those of one dtype, and what is left of the blocks.
GROUPS = ("layers.*.spectral", "layers.*")


class ComplexParameters(harness.Comparison):
    samples = 52

    def setUp(self):
        self.tolerance = None  # of parameters, in the place of bits

    def compare(self, optimizer, ranks=2, communicators=("local",), text="", config=CONFIG, **options):
        """`text`: more of the config file; `config`: of FSDP2's model, which reads the same weights."""
        workspace = harness.Workspace(CONFIG, optimizer, self.samples)
        self.addCleanup(workspace.remove)
        workspace.capture_package()
        workspace.config = config
        file = workspace.folder / "config.yaml"
        file.write_text(f"groups: {json.dumps([{'modules': [pattern]} for pattern in GROUPS])}\n{text}")
        run, outcome = self.expect(workspace, ranks, GROUPS, reshard_after_forward="true", **options)
        self.check(workspace, run, outcome, ranks, communicators=communicators, config=file)

    def check_bits(self, run, outcome, log, saved):
        if self.tolerance is None:
            super().check_bits(run, outcome, log, saved)
        else:
            torch.testing.assert_close(saved, outcome[1], rtol=0, atol=self.tolerance)

    def test_adamw(self):
        self.compare(harness.ADAMW, communicators=("local", "gloo"))

    def test_four_ranks(self):
        """Their parts are uneven."""
        self.compare(harness.ADAMW, 4, det_rs=True)

    def test_pairs(self):
        """The same model, written with pairs of reals."""
        self.compare(harness.SGD, config=PAIRED)

    def test_complex_rounding(self):
        """torch's SGD and its norms compute with complex numbers."""
        self.tolerance = 1e-7
        self.compare(harness.SGD)
        self.compare(harness.ADAMW, text="optimizer: {clip_grad_norm: 0.1}\n", clip_grad_norm=0.1)


if __name__ == "__main__":
    unittest.main()

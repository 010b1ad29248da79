#!/usr/bin/env python3
"""Models with torch.autograd.Functions and operators of Python: their forwards and backwards are FSDP2's, bit for bit."""

import unittest

import harness
from oracle import models

CONFIG = models.Config("functions", dim=16, batch=2)
BF16 = {"param_dtype": "bfloat16", "reduce_dtype": "float32"}


class Functions(harness.Comparison):
    def compare(self, expectation=None, **options):
        workspace = harness.Workspace(CONFIG, harness.ADAMW, samples=40)
        self.addCleanup(workspace.remove)
        workspace.capture_package(**options)
        run, outcome = self.expect(workspace, **(expectation or {}))
        self.check(workspace, run, outcome, 2, communicators=["local"])

    def test_numbers(self):
        self.compare()
        self.compare({"reshard_after_forward": "true"})

    def test_mixed_precision(self):
        policies = {"layers.*": BF16, "": BF16}
        self.compare({"policies": policies}, policies=policies)


if __name__ == "__main__":
    unittest.main()

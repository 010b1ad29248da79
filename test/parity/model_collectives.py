#!/usr/bin/env python3
"""Models with collectives in their losses are FSDP2's, bit for bit. (gloo adds up fp32 numbers of more than two ranks in another
order, so that of these models those run on four ranks which gather, or reduce whole numbers.)"""

import unittest

import harness
from oracle import models

NAMES = ("contrastive", "covariance", "tokens", "centered", "statistics")
NAMES_OF_FOUR = ("tokens", "contrastive")
BF16 = {"param_dtype": "bfloat16", "reduce_dtype": "float32"}


class ModelCollectives(harness.Comparison):
    samples = 64

    def compare(self, name, ranks=2, mesh=None, layouts=("flat", "per-param"), communicators=("local", "gloo"), more="",
                capture=None, **expectation):  # fmt: skip
        workspace = harness.Workspace(models.Config(name, dim=16, layers=3, batch=4), harness.ADAMW, self.samples)
        self.addCleanup(workspace.remove)
        workspace.capture_package(ranks=ranks, **(capture or {}))
        run, outcome = self.expect(workspace, ranks, det_rs=ranks > 2 and mesh is None, **expectation)
        self.check(workspace, run, outcome, mesh or ranks, layouts, more, communicators)

    def test_two_ranks(self):
        for name in NAMES:
            with self.subTest(name):
                self.compare(name)

    def test_four_ranks(self):
        for name in NAMES_OF_FOUR:
            with self.subTest(name):
                self.compare(name, 4, layouts=["flat"], communicators=["local"])

    def test_replicas(self):
        """The collectives are over all ranks of both axes."""
        self.compare("tokens", 4, "replicate=2,shard=2", ["per-param"], ["local"], replicas=2)

    def test_options(self):
        """Gathers for the backward, a searched schedule, recomputation, microbatches and casts."""
        for name in ("contrastive", "covariance", "centered"):
            with self.subTest(name):
                self.compare(name, layouts=["flat"], communicators=["local"], more="schedule=auto",
                             reshard_after_forward="true")  # fmt: skip
        self.compare("contrastive", layouts=["flat"], communicators=["local"], more="recompute=full")
        self.compare("tokens", layouts=["flat"], communicators=["local"], more="microbatches=2", microbatches=2)
        policies = {"layers.*": BF16, "": BF16}
        self.compare("statistics", layouts=["flat"], communicators=["local"], capture={"policies": policies}, policies=policies)


if __name__ == "__main__":
    unittest.main()

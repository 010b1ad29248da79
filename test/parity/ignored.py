#!/usr/bin/env python3
"""Parameters that FSDP2 ignores: whole on every rank, in no collective."""

import dataclasses
import unittest

import harness
from oracle import models

MLP = models.Config("mlp", dim=16, layers=3, batch=2)


class Ignored(harness.Comparison):
    def compare(self, frozen, ignored, mesh=2, **options):
        workspace = self.workspace(dataclasses.replace(MLP, frozen=frozen))
        run, expected = self.expect(workspace, ignored=ignored, **options)
        config = workspace.folder / "config.yaml"
        config.write_text(f"groups: [{{modules: ['layers.*']}}]\nignored_params: {ignored}\n")
        self.check(workspace, run, expected, mesh, communicators=("local",), config=config)

    def test_of_all_groups(self):
        """Beside what is trained, and beside what is frozen and sharded."""
        self.compare(["*.up.*"], ["**.up.*"])
        self.compare(["*.up.*"], ["**.up.weight"])

    def test_whole_group(self):
        """Nothing of it is left to gather."""
        self.compare(["layers.1.*"], ["layers.1.**"])

    def test_replicas(self):
        self.compare(["*.up.*"], ["**.up.*"], "replicate=2,shard=2", ranks=4, replicas=2)

    def test_trained(self):
        """FSDP2's ranks drift apart; the step is refused."""
        workspace = self.workspace(MLP)
        config = workspace.folder / "config.yaml"
        config.write_text("ignored_params: ['layers.0.up.weight']\n")
        with self.assertRaisesRegex(harness.CommandFailed, "'layers.0.up.weight' is trained"):
            workspace.plan(2, config=config)


if __name__ == "__main__":
    unittest.main()

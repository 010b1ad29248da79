#!/usr/bin/env python3
"""A model with derivatives in its forward is FSDP2's, bit for bit, where FSDP2 can train it: as one group. Groups of
blocks give the same step."""

import itertools
import unittest

import harness
from oracle import models

CONFIG = models.Config("derivatives", dim=16, layers=3, batch=4)


class Derivatives(harness.Comparison):
    def workspace(self):
        workspace = harness.Workspace(CONFIG, harness.ADAMW, samples=40)
        self.addCleanup(workspace.remove)
        workspace.capture_package()
        return workspace

    def test_one_group(self):
        workspace = self.workspace()
        config = workspace.folder / "one.yaml"
        config.write_text("groups: []\n")
        for reshard in ("true", "none"):
            run, outcome = self.expect(workspace, groups=(), reshard_after_forward=reshard)
            self.check(workspace, run, outcome, 2, communicators=["local"], config=config)

    def test_blocks(self):
        workspace = self.workspace()
        run, outcome = self.expect(workspace, groups=())
        for reshard, more in itertools.product(("true", "false"), ("", "schedule=auto", "recompute=full")):
            with self.subTest(reshard=reshard, more=more):
                planned, _ = workspace.plan(2, reshard, more=more)
                log, saved = harness.train(workspace, workspace.link(planned), 2, run.steps)
                self.check_bits(run, outcome, log, saved)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""The report's events and collectives are those of the real FSDP2, for each model and mode."""

import unittest

import harness
import oracle
from oracle import models

#: Model, and the groups that fsdpc makes by default: its repeated blocks.
MODELS = {
    "mlp": (models.Config("mlp", dim=16, layers=3, batch=2), ["layers.*"]),
    "vit": (models.Config("vit", dim=32, layers=3, batch=2), ["blocks.*"]),
    "gpt2": (models.Config("gpt2", dim=32, layers=3, batch=2), ["h.*"]),
    "llama": (models.Config("llama", dim=32, layers=3, batch=2), ["layers.*"]),
    "convnet": (models.Config("convnet", dim=8, layers=3, batch=2), ["layers.*"]),
}
RESHARD = ["true", "false", "none"]


class Events(harness.Comparison):
    def compare(self, name, config=None, groups=None, replicas=1):
        model, default_groups = MODELS[name]
        workspace = self.workspace(model)
        text = None
        if config:
            text = workspace.folder / "config.yaml"
            text.write_text(config)
        mesh = 2 if replicas == 1 else f"replicate={replicas},shard=2"
        runs = [
            workspace.oracle_run(
                groups or default_groups,
                ranks=2 * replicas,
                replicas=replicas,
                steps=2,
                reshard_after_forward=reshard,
            )
            for reshard in RESHARD
        ]
        for run, (record, _) in zip(runs, oracle.execute(runs), strict=True):
            reshard = run.reshard_after_forward
            with self.subTest(model=name, reshard_after_forward=reshard):
                _, report = workspace.plan(mesh, reshard, "per-param", text)
                self.check_report(run, record, report)

    def test_mlp(self):
        """The first block's input needs no gradient: its post-backward is the last one."""
        self.compare("mlp")

    def test_vit(self):
        self.compare("vit")

    def test_gpt2(self):
        """Tied embedding and head, both in the root group."""
        self.compare("gpt2")

    def test_llama(self):
        self.compare("llama")

    def test_convnet(self):
        """Buffers belong to no group."""
        self.compare("convnet")

    def test_replicas(self):
        """HSDP: each group's reduce-scatter is followed by an all-reduce over the replicas."""
        for name in ("mlp", "gpt2", "llama"):
            self.compare(name, replicas=2)

    def test_configured_groups(self):
        """Groups of a configuration file: blocks, and one group of two modules."""
        self.compare(
            "llama",
            'groups:\n  - modules: ["layers.*"]\n  - together: ["norm", "head"]\n',
            ["layers.*", "norm,head"],
        )


if __name__ == "__main__":
    unittest.main()

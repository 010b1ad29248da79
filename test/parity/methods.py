#!/usr/bin/env python3
"""Methods that are forwards, beside FSDP2's register_fsdp_forward_method: of the model, which takes
the batch, and of a module with a group of its own: losses, parameters, events and collectives are the
same."""

import dataclasses
import json
import unittest

import torch

import harness
from oracle import models

CODEC = models.Config("codec", dim=16, layers=2, batch=2)
METHODS = {"codec": models.Codec.forward_methods}
GROUPS = ["codec", "layers.*"]
BF16 = {"param_dtype": "bfloat16", "reduce_dtype": "float32"}


class Methods(harness.Comparison):
    def make(self, config=CODEC):
        workspace = harness.Workspace(config, harness.ADAMW, samples=40)
        self.addCleanup(workspace.remove)
        self.config = workspace.folder / "config.yaml"
        self.config.write_text(json.dumps({"groups": [{"modules": [name]} for name in GROUPS]}))
        return workspace

    def compare(self, expectation=None, method="training_step", config=CODEC, **options):
        workspace = self.make(config)
        workspace.capture_package(method=method, forward_methods=METHODS, **options)
        run, (record, final) = self.expect(workspace, groups=GROUPS, **(expectation or {}))
        saved = {name: final[name] for name in models.build(config).state_dict()}
        self.check(workspace, run, (record, saved), 2, config=self.config,
                   communicators=["local", "shm"])  # fmt: skip

    def test_forwards(self):
        self.compare()
        self.compare({"reshard_after_forward": "true"})

    def test_transient_buffers(self):
        """They begin as the module has them; the file of weights and the result have none."""
        self.compare(config=dataclasses.replace(CODEC, model="counting"))

    def test_several_methods(self):
        """A function calls the model's methods, as a training loop does."""

        def step(model, x, targets):
            return torch.nn.functional.cross_entropy(
                model.head(model.codec.decode(model.embed(x))), targets
            )

        self.compare(method=step)

    def test_mixed_precision(self):
        """Arguments of such methods are cast as those of forward."""
        policies = {name: BF16 for name in [*GROUPS, ""]}
        self.compare({"policies": policies}, policies=policies)

    def test_undeclared(self):
        """Without forward_methods the parameters of a method are used outside of their group."""
        workspace = self.make()
        path = workspace.export_package(method="training_step")
        with self.assertRaisesRegex(harness.CommandFailed, "@codec.weight is used while its group"):
            harness.run([harness.TOOLS / "fsdpc", path, "--mesh", "dp=2", "--config", self.config,
                         "-o", workspace.folder / "train"])  # fmt: skip


if __name__ == "__main__":
    unittest.main()

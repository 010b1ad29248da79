#!/usr/bin/env python3
"""Who has gradients, beside FSDP2: frozen and unused parameters, modules that are called several
times before one backward."""

import json
import unittest

import harness
from oracle import models


class Gradients(harness.Comparison):
    def check_model(self, config, groups=("layers.*",), reshard=("true", "none"), more="", dropped=(),
                    **options):  # fmt: skip
        workspace = self.workspace(config)
        for mode in reshard:
            run, expected = self.expect(
                workspace, groups=groups, reshard_after_forward=mode, **options
            )
            with self.subTest(reshard=mode):
                self.check(workspace, run, expected, 2, communicators=("local", "shm"), more=more,
                           dropped=dropped)  # fmt: skip

    def test_called_twice(self):
        """A block that is called twice in a row and once more; another module is never called."""
        self.check_model(models.Config("shared", dim=16, batch=2), reshard=("true", "false", "none"))

    def test_named_twice(self):
        """Two names of one block are one module, whichever of them calls it."""
        workspace = harness.Workspace(models.Config("renamed", dim=16, batch=2), samples=40)
        self.addCleanup(workspace.remove)
        workspace.capture_package()
        run, (record, final) = self.expect(workspace, groups=["layers.1", "layers.0"])
        model = models.build(workspace.config)  # whose state_dict has the parameters under all names
        first = {parameter: name for name, parameter in model.named_parameters()}
        for name, parameter in model.named_parameters(remove_duplicate=False):
            final[name] = final[first[parameter]]
        config = workspace.folder / "groups.yaml"
        for groups in (["layers.1", "layers.*"], ["last", "layers.2"]):
            config.write_text(json.dumps({"groups": [{"modules": [name]} for name in groups]}))
            with self.subTest(groups=groups):
                self.check(workspace, run, (record, final), 2, config=config,
                           communicators=("local", "shm"))  # fmt: skip

    def test_frozen_in_every_group(self):
        """Reductions carry the elements of the others alone."""
        self.check_model(models.Config("llama", dim=32, layers=2, batch=2,
                                       frozen=["*.attn.*", "tok*"]))  # fmt: skip

    def test_frozen_groups(self):
        """A group without gradients is gathered and reduces nothing. The backward ends above layers.1, which
        FSDP2 gathers for nothing."""
        self.check_model(models.Config("llama", dim=32, layers=3, batch=2,
                                       frozen=["layers.1.*", "layers.0.*", "tok*"]),
                         dropped=["layers.1"])  # fmt: skip

    def test_frozen_group_in_between(self):
        """The gradient goes on through a frozen block, which is gathered in the backward."""
        self.check_model(models.Config("llama", dim=32, layers=3, batch=2, frozen=["layers.1.*"]))

    def test_frozen_below_statistics(self):
        """What a microbatch wrote into statistics of batches brings no gradient to the next one: the input of
        the first block needs none in either."""
        self.check_model(models.Config("convnet", dim=8, layers=2, batch=2, frozen=["stem.*"]),
                         reshard=("false",), microbatches=2, more="microbatches=2")  # fmt: skip

    def test_frozen_beside_shared(self):
        self.check_model(models.Config("shared", dim=16, batch=2, frozen=["*.up.*", "embed.*"]))


if __name__ == "__main__":
    unittest.main()

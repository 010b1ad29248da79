#!/usr/bin/env python3
"""Activation checkpointing by module, beside torch.utils.checkpoint under FSDP2: losses, parameters,
events and collectives are the same, and activations take less memory."""

import dataclasses
import itertools
import json
import re
import unittest

import harness
from oracle import models, safetensors_io

LLAMA = models.Config("llama", dim=24, heads=2, ffn=96, layers=2, vocab=50, seq=32, batch=2)
GPT2 = models.Config("gpt2", dim=20, heads=2, layers=2, vocab=50, seq=16, batch=2, dropout=0.1)


class Checkpointing(harness.Comparison):
    def configure(self, workspace, rules, **options):
        path = workspace.folder / "config.yaml"
        path.write_text(json.dumps({"activation_checkpointing": rules, **options}))
        return path

    def compare(self, rules, checkpoint, reshard="none", groups=("layers.*",), more="recompute=none",
                mesh=2, model=LLAMA, **options):  # fmt: skip
        workspace = self.workspace(model)
        config = self.configure(
            workspace, rules, groups=[{"modules": [pattern]} for pattern in groups]
        )
        run, expected = self.expect(workspace, groups=groups, reshard_after_forward=reshard,
                                    checkpoint=checkpoint, **options)  # fmt: skip
        self.check(workspace, run, expected, mesh, more=more, config=config,
                   communicators=["local"])  # fmt: skip

    def test_inside_groups(self):
        for reshard in ("true", "false"):
            with self.subTest(reshard_after_forward=reshard):
                self.compare([{"modules": ["**.mlp"]}], {"**.mlp": None}, reshard)

    def test_by_operator(self):
        rules = [{"modules": ["layers.*.mlp"], "recompute": "selected", "keep": ["mm"]}]
        self.compare(rules, {"layers.*.mlp": ["mm"]})

    def test_groups_modules(self):
        """A region of the very module of a group, and one of the root."""
        self.compare([{"modules": ["layers.*", "norm"]}], {"layers.*": None, "norm": None})

    def test_frozen(self):
        """The frozen parameters of a block are a group of their own in the flat layout."""
        self.compare([{"modules": ["layers.*"]}], {"layers.*": None},
                     model=dataclasses.replace(LLAMA, frozen=["*.attn.*"]))  # fmt: skip

    def test_nested(self):
        rules = [{"modules": ["layers.*"]}, {"modules": ["layers.*.mlp"], "recompute": "selected"}]
        self.compare(rules, {"layers.*": None, "layers.*.mlp": ["mm"]})

    def test_beside_inner_groups(self):
        """Regions of a group whose other modules are groups of their own."""
        self.compare([{"modules": ["layers.*.attn"]}], {"layers.*.attn": None},
                     groups=("layers.*.mlp", "layers.*"))  # fmt: skip

    def test_microbatches(self):
        self.compare([{"modules": ["**.mlp"]}], {"**.mlp": None}, microbatches=2,
                     more="recompute=none microbatches=2")  # fmt: skip

    def train(self, workspace, binary):
        log, save = workspace.folder / "log.jsonl", workspace.folder / "final.safetensors"
        for path in (log, save):
            path.unlink(missing_ok=True)
        harness.run([binary, "--ranks", 2,
                     *harness.training_arguments(workspace, log, save, 4)])  # fmt: skip
        return [line["loss_hex"] for line in harness.read_log(log)], safetensors_io.load(save)

    def test_random_numbers(self):
        """What is drawn is drawn again the same, in every order and schedule."""
        workspace = self.workspace(GPT2)
        config = self.configure(workspace, [{"modules": ["h.*"]}])
        expected = self.train(workspace, workspace.compile(2, more="recompute=none"))
        for layout, more in itertools.product(
            ("flat", "per-param"), ("recompute=none", "recompute=full", "prefetch=none")
        ):
            with self.subTest(layout=layout, more=more):
                losses, final = self.train(
                    workspace, workspace.compile(2, "none", layout, config, more)
                )
                self.assertEqual(losses, expected[0])
                self.assertIsNone(harness.bitwise_difference(expected[1], final))
        losses, final = self.train(
            workspace, workspace.compile(2, "none", "flat", config, "schedule=auto")
        )
        self.assertEqual(losses, expected[0])

    def test_memory(self):
        config = models.Config("llama", dim=32, heads=2, layers=4, vocab=50, seq=128, batch=4)
        workspace = self.workspace(config)
        arena = []
        for rules in ([], [{"modules": ["layers.*"]}]):
            config = self.configure(workspace, rules)
            planned, _ = workspace.plan(2, "none", "flat", config, "recompute=none")
            arena.append(int(re.search(r"fsdp\.arena_bytes = (\d+)", planned.read_text())[1]))
        self.assertLess(arena[1], 0.8 * arena[0])


if __name__ == "__main__":
    unittest.main()

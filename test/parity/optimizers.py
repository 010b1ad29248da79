#!/usr/bin/env python3
"""Options and parameter groups of torch's optimizers beside FSDP2: losses and parameters bit for bit,
also when a run is resumed."""

import json
import shutil
import unittest

import checkpoints
import harness
from oracle import models, safetensors_io

LLAMA = models.Config("llama", dim=24, heads=2, ffn=40, layers=2, vocab=50, seq=16, batch=2)
CONVNET = models.Config("convnet", dim=8, layers=2, batch=2)
#: No decay on vectors, a rate of their own for the table and one block.
GROUPS = [
    {"max_dims": 1, "weight_decay": 0.0},
    {"parameters": ["layers.1.**", "tok.weight"], "lr": 3e-4},
]
ADAMW = harness.Optimizer("adamw", {"lr": 1e-3, "weight_decay": 0.3})
ADAM = harness.Optimizer("adam", {"lr": 1e-3, "weight_decay": 0.1})
SGD = harness.Optimizer("sgd", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01})


class Optimizers(harness.Comparison):
    def configure(self, workspace, options, groups):
        """A config file with the optimizer's options and groups; YAML reads JSON."""
        path = workspace.folder / "config.yaml"
        path.write_text(json.dumps({"optimizer": {**options, "groups": groups}}))
        return path

    def compare(self, optimizer, options=None, groups=(), model=LLAMA, mesh=2, pattern="layers.*",
                more="", **run):  # fmt: skip
        workspace = self.workspace(model, optimizer)
        config = self.configure(workspace, options or {}, list(groups))
        run, expected = self.expect(
            workspace, groups=[pattern], optimizer_options=options or {},
            optimizer_groups=list(groups), **run)  # fmt: skip
        self.check(workspace, run, expected, mesh, config=config, more=more,
                   communicators=["local", "shm"])  # fmt: skip
        return workspace, config

    def test_groups(self):
        for optimizer in (ADAMW, ADAM, SGD):
            with self.subTest(optimizer=optimizer.kind):
                self.compare(optimizer, groups=GROUPS)

    def test_groups_of_all_values(self):
        groups = [{"parameters": ["**.w[qo].weight"], "lr": 1e-2, "weight_decay": 0.5,
                   "betas": [0.5, 0.9], "eps": 1e-4}]  # fmt: skip
        self.compare(ADAMW, groups=groups)

    def test_groups_with_state_on_the_host(self):
        self.compare(ADAMW, {"amsgrad": True}, GROUPS, more="offload-optimizer=all")

    def test_options(self):
        for optimizer, options in (
            (ADAMW, {"amsgrad": True}),
            (ADAM, {"amsgrad": True, "maximize": True}),
            (ADAMW, {"maximize": True}),
            (SGD, {"nesterov": True}),
            (SGD, {"dampening": 0.25, "maximize": True}),
        ):
            with self.subTest(optimizer=optimizer.kind, **options):
                self.compare(optimizer, options, model=CONVNET)

    def test_flags(self):
        """The same by flags of the capture."""
        workspace = self.workspace(LLAMA, ADAM, capture=["--amsgrad", "--maximize"])
        run, expected = self.expect(workspace, optimizer_options={"amsgrad": True, "maximize": True})
        self.check(workspace, run, expected, 2, layouts=["flat"], communicators=["local"])

    def train(self, workspace, binary, *arguments, init=True):
        log, save = workspace.folder / "log.jsonl", workspace.folder / "final.safetensors"
        for path in (log, save):
            path.unlink(missing_ok=True)
        weights = ["--init", workspace.weights] if init else []
        harness.run([binary, "--ranks", 2, "--data", workspace.data, "--log", log, "--save", save,
                     "--lr-schedule", "cosine", "--steps", 6, *weights, *arguments])  # fmt: skip
        lines = [(r["step"], r["loss_hex"]) for r in harness.read_log(log)]
        return lines, safetensors_io.load(save)

    def test_resume(self):
        workspace, config = self.compare(ADAMW, {"amsgrad": True}, GROUPS)
        for layout in ("flat", "per-param"):
            binary = workspace.compile(2, "none", layout, config)
            folder = workspace.folder / "run"
            shutil.rmtree(folder, ignore_errors=True)
            saving = ["--checkpoint-dir", folder, "--save-every", 4]
            lines, final = self.train(workspace, binary, *saving)
            state = checkpoints.assemble(folder / "step-000000006")
            names = [name for name in state if name.endswith(".max_exp_avg_sq")]
            self.assertEqual(len(names), len([n for n in final if n not in ("cos", "sin")]))
            shutil.rmtree(folder / "step-000000006")
            again, resumed = self.train(workspace, binary, *saving, "--resume", init=False)
            self.assertEqual(again, lines[4:])
            self.assertIsNone(harness.bitwise_difference(final, resumed))
        config = self.configure(
            workspace, {"amsgrad": True}, [GROUPS[0], {**GROUPS[1], "lr": 4e-4}]
        )
        other = workspace.compile(2, "none", "flat", config)
        run = harness.run([other, "--ranks", 2, "--data", workspace.data, "--resume", folder])
        self.assertIn("optimizer's groups: 0.001, 4e-04, the checkpoint has 0.001, 3e-04", run.stdout)
        other = workspace.compile(2, "none", "flat")
        with self.assertRaisesRegex(
            harness.CommandFailed, "max_exp_avg_sq.* which this binary does not have"
        ):
            self.train(workspace, other, "--resume", folder, init=False)


if __name__ == "__main__":
    unittest.main()

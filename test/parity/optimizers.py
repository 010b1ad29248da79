#!/usr/bin/env python3
"""Options and parameter groups of torch's optimizers beside FSDP2: losses and parameters bit for bit,
also when a run is resumed."""

import dataclasses
import json
import shutil
import unittest

import checkpoints
import harness
from oracle import models, safetensors_io

LLAMA = models.Config("llama", dim=24, heads=2, ffn=40, layers=2, vocab=50, seq=16, batch=2)
CONVNET = models.Config("convnet", dim=8, layers=2, batch=2)
MLP = models.Config("mlp", dim=24, layers=2, batch=2)
BF16 = dataclasses.replace(MLP, dtype="bf16")
#: No decay on vectors, a rate of their own for the table and one block.
GROUPS = [
    {"max_dims": 1, "weight_decay": 0.0},
    {"parameters": ["layers.1.**", "tok.weight"], "lr": 3e-4},
]
ADAMW = harness.Optimizer("adamw", {"lr": 1e-3, "weight_decay": 0.3})
ADAM = harness.Optimizer("adam", {"lr": 1e-3, "weight_decay": 0.1})
SGD = harness.Optimizer("sgd", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01})
#: The others, each with torch's defaults and with values that reach every part of its formula.
#: radam rectifies from step 6 on.
OTHERS = {
    "rmsprop": [{}, {"centered": True, "alpha": 0.9, "weight_decay": 0.1},
                {"momentum": 0.9, "centered": True, "maximize": True, "eps": 1e-4},
                {"momentum": 0.5, "weight_decay": 0.01}],
    "adagrad": [{}, {"initial_accumulator_value": 0.1, "lr_decay": 0.5, "weight_decay": 0.1},
                {"maximize": True, "eps": 1e-3}],
    "adamax": [{}, {"betas": (0.8, 0.9), "weight_decay": 0.1, "eps": 1e-3}, {"maximize": True}],
    "nadam": [{}, {"momentum_decay": 0.1, "weight_decay": 0.1, "betas": (0.8, 0.9)},
              {"decoupled_weight_decay": True, "weight_decay": 0.3, "maximize": True}],
    "radam": [{}, {"betas": (0.9, 0.9), "weight_decay": 0.1},
              {"decoupled_weight_decay": True, "weight_decay": 0.3, "betas": (0.9, 0.999), "maximize": True}],
    "adadelta": [{}, {"rho": 0.5, "weight_decay": 0.1, "eps": 1e-3}, {"lr": 0.1, "maximize": True}],
}  # fmt: skip
#: Options of groups of their own.
OF_OTHERS = {
    "rmsprop": {"alpha": 0.5}, "adagrad": {"lr_decay": 0.25}, "adamax": {"betas": [0.5, 0.7]},
    "nadam": {"momentum_decay": 0.5, "betas": [0.7, 0.9]}, "radam": {"betas": [0.5, 0.7]}, "adadelta": {"rho": 0.25},
}  # fmt: skip


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

    def test_others(self):
        """In the layouts by turns."""
        for kind, choices in OTHERS.items():
            for number, options in enumerate(choices):
                with self.subTest(optimizer=kind, **options):
                    workspace = self.workspace(LLAMA, harness.Optimizer(kind, options))
                    run, expected = self.expect(workspace, steps=8)
                    layout = ["flat", "per-param"][number % 2]
                    self.check(workspace, run, expected, 2, [layout], "", ["local"])

    def test_others_by_a_file(self):
        """The captured optimizer is adamw: the file's kind takes torch's defaults."""
        workspace = self.workspace(CONVNET, ADAMW)
        for kind, choices in OTHERS.items():
            options = choices[1]
            with self.subTest(optimizer=kind, **options):
                config = self.configure(workspace, {"name": kind, **options}, ())
                workspace.optimizer = harness.Optimizer(kind, options)
                run, expected = self.expect(workspace)
                self.check(workspace, run, expected, 2, ["flat"], "", ["local"], config=config)

    def test_groups_of_others(self):
        for kind, own in OF_OTHERS.items():
            groups = [GROUPS[0], {**GROUPS[1], **own}]
            with self.subTest(optimizer=kind):
                self.compare(harness.Optimizer(kind, OTHERS[kind][1]), groups=groups)

    def test_others_of_bf16(self):
        """Parameters and state in bf16. torch's sums with alpha differ behind the last vector, as of a flat shard."""
        for kind, choices in OTHERS.items():
            for options, layout in ((choices[0], "flat"), (choices[1], "per-param")):
                with self.subTest(optimizer=kind, **options):
                    workspace = self.workspace(BF16, harness.Optimizer(kind, options))
                    run, expected = self.expect(workspace)
                    self.check(workspace, run, expected, 2, [layout], "", ["local"])

    def test_others_with_mixed_precision(self):
        """fp32 parameters with copies for gathers, and gradients, in bf16."""
        for kind in ("rmsprop", "adagrad", "nadam"):
            with self.subTest(optimizer=kind):
                optimizer = harness.Optimizer(kind, OTHERS[kind][1])
                workspace = self.workspace(MLP, optimizer, capture=["--param-dtype", "bfloat16"])
                run, expected = self.expect(workspace, mixed=True, reduce_dtype="bfloat16")
                more = "param-dtype=bfloat16 reduce-dtype=bfloat16"
                self.check(workspace, run, expected, 2, ["flat"], more, ["local"])

    def test_others_on_the_host(self):
        for kind in ("rmsprop", "adagrad"):
            optimizer = harness.Optimizer(kind, OTHERS[kind][2 if kind == "rmsprop" else 1])
            self.compare(optimizer, model=MLP, more="offload-optimizer=all")
            self.compare(optimizer, model=MLP, more="offload-policy=cpu", cpu_offload=["", "layers.*"])

    def test_others_with_clipping(self):
        """By the largest gradient, which is exact."""
        clipping = {"clip_grad_norm": 1e-3, "clip_norm_type": "inf"}
        for kind in ("rmsprop", "adamax", "adadelta"):
            self.compare(harness.Optimizer(kind, OTHERS[kind][2] | clipping), model=MLP)

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

    def test_resume_of_others(self):
        for kind, choices in OTHERS.items():
            with self.subTest(optimizer=kind):
                workspace = self.workspace(MLP, harness.Optimizer(kind, choices[1]))
                config = self.configure(workspace, {}, GROUPS[:1])
                self.check_resume(workspace, workspace.compile(2, "none", "flat", config))

    def check_resume(self, workspace, binary):
        """Returns the folder of the checkpoints."""
        folder = workspace.folder / "run"
        shutil.rmtree(folder, ignore_errors=True)
        saving = ["--checkpoint-dir", folder, "--save-every", 4]
        lines, final = self.train(workspace, binary, *saving)
        shutil.rmtree(folder / "step-000000006")
        again, resumed = self.train(workspace, binary, *saving, "--resume", init=False)
        self.assertEqual(again, lines[4:])
        self.assertIsNone(harness.bitwise_difference(final, resumed))
        return folder

    def test_resume_with_other_options(self):
        """nadam's product of momenta is that of the checkpoint's options; states of the others go with flags."""
        for kind, options, other, message in (
            ("nadam", {}, {"momentum_decay": 0.5}, "follows from this binary's betas and momentum_decay after 6 steps"),
            ("rmsprop", {"centered": True}, {}, "grad_avg.* which this binary does not have"),
            ("rmsprop", {"momentum": 0.5}, {}, "momentum_buffer.* which this binary does not have"),
        ):
            with self.subTest(optimizer=kind, message=message):
                workspace = self.workspace(MLP, harness.Optimizer(kind, options))
                folder = self.check_resume(workspace, workspace.compile(2))
                workspace.optimizer = harness.Optimizer(kind, other)
                workspace.capture()
                with self.assertRaisesRegex(harness.CommandFailed, message):
                    self.train(workspace, workspace.compile(2), "--resume", folder, init=False)

    def test_resume(self):
        workspace, config = self.compare(ADAMW, {"amsgrad": True}, GROUPS)
        for layout in ("flat", "per-param"):
            binary = workspace.compile(2, "none", layout, config)
            folder = self.check_resume(workspace, binary)
            state = checkpoints.assemble(folder / "step-000000006")
            names = [name for name in state if name.endswith(".max_exp_avg_sq")]
            self.assertEqual(len(names), len([n for n in state if n.endswith(".exp_avg_sq")]))
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

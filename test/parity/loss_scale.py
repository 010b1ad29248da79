#!/usr/bin/env python3
"""Scaled losses beside FSDP2 with torch.amp.GradScaler: losses, scales, steps without update and parameters
are torch's, bit for bit."""

import dataclasses
import json
import unittest

import harness
import torch
from harness import ADAMW, SGD
from optimizers import OTHERS
from oracle import models, safetensors_io

GPT2 = models.Config("gpt2", dim=24, heads=2, layers=2, vocab=50, seq=16, batch=2)
MLP = models.Config("mlp", dim=24, layers=2, batch=2)
STEPS = 12
#: The first steps overflow in fp16, or in fp32 with inputs of this size: a quarter of the scale is left after
#: each. Then the scale grows after 3 steps, and overflows again.
F16 = {"loss_scale": 2.0**24, "loss_scale_backoff_factor": 0.25, "loss_scale_growth_factor": 16.0,
       "loss_scale_growth_interval": 3}  # fmt: skip
F32, LARGE = dict(F16, loss_scale=2.0**127), 64.0
#: No power of 2: products and quotients are rounded.
ODD = {"loss_scale": 3000.0, "loss_scale_backoff_factor": 0.3, "loss_scale_growth_factor": 1.7,
       "loss_scale_growth_interval": 2}  # fmt: skip
HALF = {"param_dtype": "float16", "reduce_dtype": "float32"}


class Half(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(4, dtype=torch.float16))

    def forward(self, x):
        return (x * self.weight).sum()


class LossScale(harness.Comparison):
    def prepare(self, optimizer=ADAMW, config=MLP, scale=F16, half=True, groups=("layers.*",), reduce="float32",
                **run):  # fmt: skip
        """A captured model, the options of its pipeline, and what FSDP2 makes of it. `half`: it computes in fp16,
        else with large inputs."""
        optimizer = harness.Optimizer(optimizer.kind, optimizer.options | scale)
        workspace = self.workspace(config, optimizer, capture=["--param-dtype", "float16"] if half else [])
        if not half:
            data = safetensors_io.load(workspace.data)
            safetensors_io.save(workspace.data, data | {"x": data["x"] * LARGE})
        policy = dict(HALF, reduce_dtype=reduce)
        if half:
            run["policies"] = {pattern: policy for pattern in ("", *groups)}
        run, outcome = self.expect(workspace, groups=list(groups), steps=STEPS, **run)
        more = f"param-dtype=float16 reduce-dtype={reduce}" if half else ""
        return workspace, run, outcome, more

    def check_bits(self, run, outcome, log, saved):
        super().check_bits(run, outcome, log, saved)
        record, _ = outcome
        self.assertEqual([line["loss_scale"] for line in log], record["scales"])
        self.assertEqual([line.get("skipped", False) for line in log], record["skipped"])
        for line, norm in zip(log, record["grad_norms"], strict=True):
            self.assertEqual(line["grad_norm"] is None, line.get("skipped", False))
            if line["grad_norm"] is not None:
                tolerance = 2**-7 if run.config.dtype == "bf16" else 1e-6
                self.assertAlmostEqual(line["grad_norm"], norm, delta=tolerance * norm)

    def compare(self, *arguments, mesh=2, more="", layouts=("flat", "per-param"), communicators=("local",),
                overflows=True, **options):  # fmt: skip
        workspace, run, outcome, own = self.prepare(*arguments, **options)
        if overflows:
            skipped = outcome[0]["skipped"]
            self.assertTrue(skipped[0] and not all(skipped))
            self.assertIn(True, skipped[skipped.index(False):])
        self.check(workspace, run, outcome, mesh, layouts, f"{own} {more}".strip(), communicators)
        return workspace, run, outcome

    def test_fp32(self):
        for optimizer in (ADAMW, SGD):
            self.compare(optimizer, half=False, scale=F32, communicators=("local", "shm", "gloo"))

    def test_fp16(self):
        self.compare(communicators=("local", "shm", "gloo"))
        self.compare(SGD, GPT2, groups=("h.*",))
        self.compare(reduce="float16")

    def test_scale_that_is_no_power_of_2(self):
        self.compare(scale=ODD, overflows=False, half=False)
        self.compare(scale=dict(ODD, loss_scale=2.1e7))

    def test_dtypes(self):
        """Gradients are unscaled in the dtype of the parameters, by an fp32 number. A flat shard of bf16 is updated
        with other vectors than torch's."""
        for dtype, layouts in (("bf16", ("per-param",)), ("f64", ("flat", "per-param"))):
            config = dataclasses.replace(MLP, dtype=dtype)
            scale = ODD if dtype == "f64" else dict(ODD, loss_scale=1.5 * 2.0**127)
            with self.subTest(dtype=dtype):
                self.compare(config=config, scale=scale, half=False, layouts=layouts, overflows=dtype != "f64")

    def test_other_optimizers(self):
        for kind, choices in OTHERS.items():
            with self.subTest(optimizer=kind):
                self.compare(harness.Optimizer(kind, choices[-1]), layouts=("flat",))
        ema = harness.Optimizer("adamw", ADAMW.options | {"ema_decay": 0.9})
        workspace, run, (_, expected), more = self.prepare(ema)
        save = workspace.folder / "ema.safetensors"
        harness.train(workspace, workspace.compile(2, more=more), 2, STEPS, extra=["--save-ema", save])
        saved = safetensors_io.load(save)
        expected = {name[4:]: tensor for name, tensor in expected.items() if name.startswith("ema.")}
        self.assertIsNone(harness.bitwise_difference(expected, {name: saved[name] for name in expected}))

    def test_clipping(self):
        """After unscaling. Norm inf is not rounded; of a norm below the limit the factor is 1."""
        for options in ({"clip_grad_value": 1e-3}, {"clip_grad_norm": 1e-3, "clip_norm_type": "inf"},
                        {"clip_grad_norm": 1e3}):  # fmt: skip
            for optimizer in (ADAMW, SGD):
                with self.subTest(optimizer=optimizer.kind, **options):
                    self.compare(harness.Optimizer(optimizer.kind, optimizer.options | options))

    def test_microbatches(self):
        """Each begins with the same scale, behind the division of its loss; sums are of scaled gradients."""
        for sync in ("each", "last"):
            self.compare(more=f"microbatches=2 gradient-sync={sync}", microbatches=2,
                         gradient_sync=sync)  # fmt: skip
        self.compare(more="microbatches=2 microbatch-loss=sum", microbatches=2, microbatch_loss="sum")

    def test_stages(self):
        """The last one's backwards begin with the scale; the others take their gradients from it."""
        groups = ("stages.*.blocks.*", "stages.*")
        workspace, run, outcome, _ = self.prepare(
            config=models.Config("staged", dim=16, layers=2, batch=2), half=False, scale=F32, groups=groups,
            microbatches=3, stages=["stages.0", "stages.1"])  # fmt: skip
        self.assertTrue(outcome[0]["skipped"][0] and not all(outcome[0]["skipped"]))
        config = workspace.folder / "config.yaml"
        config.write_text(json.dumps({"groups": [{"modules": [pattern]} for pattern in groups],
                                      "accumulation": {"order": "1f1b", "stages": ["stages.*"], "microbatches": 3}}))
        self.check(workspace, run, outcome, 2, config=config, communicators=("local",))

    def test_meshes(self):
        self.compare(config=GPT2, mesh=1, ranks=1, groups=("h.*",))
        self.compare(SGD, mesh=4, ranks=4, det_rs=True)
        self.compare(mesh="replicate=2,shard=2", ranks=4, replicas=2)
        self.compare(mesh="replicate=2,shard=2", ranks=4, replicas=2, microbatches=2, gradient_sync="reduce_scatter",
                     more="microbatches=2 gradient-sync=reduce_scatter")  # fmt: skip

    def test_schedules(self):
        self.compare(more="schedule=auto offload-optimizer=all", layouts=("flat",))
        self.compare(more="offload-policy=cpu", cpu_offload=["", "layers.*"])
        self.compare(SGD, more="fusion=exact recompute=full")

    def test_a_run_goes_on_with_its_scale(self):
        """Behind a checkpoint, whose scale grows and shrinks as the uninterrupted run's, also on another mesh."""
        workspace, run, outcome, more = self.prepare()
        binary = workspace.compile(2, more=more)
        folder = workspace.folder / "run"
        saving = ["--checkpoint-dir", folder, "--save-every", 1]
        log, _ = harness.train(workspace, binary, 2, STEPS, extra=saving)
        skipped = outcome[0]["skipped"]
        for saved in (1, skipped.index(False) + 2):
            manifest = json.loads((folder / f"step-{saved:09}" / "checkpoint.json").read_text())
            self.assertEqual(manifest["loss_scale"]["scale"], outcome[0]["scales"][saved])
            self.assertEqual(manifest["skipped_steps"], sum(skipped[:saved]))
            again, save = workspace.folder / "again.jsonl", workspace.folder / "again.safetensors"
            again.unlink(missing_ok=True)
            harness.run([binary, "--ranks", 2, "--data", workspace.data, "--log", again, "--save", save,
                         "--resume", folder / f"step-{saved:09}"])  # fmt: skip
            names = ("step", "loss_hex", "grad_norm", "loss_scale", "skipped")
            figures = lambda lines: [[line.get(name) for name in names] for line in lines]
            self.assertEqual(figures(harness.read_log(again)), figures(log[saved:]))
            self.assertIsNone(harness.bitwise_difference(outcome[1], safetensors_io.load(save)))
        self.assertEqual(manifest["loss_scale"]["growth_tracker"], 2)
        one = workspace.compile(1, more=more)
        again.unlink()
        harness.run([one, "--ranks", 1, "--data", workspace.data, "--log", again, "--resume",
                     folder / "step-000000001"])  # fmt: skip
        self.assertEqual(harness.read_log(again)[0]["loss_scale"], outcome[0]["scales"][1])

        # Runs that differ in whether they scale.
        workspace.optimizer = ADAMW
        workspace.capture(flags=["--param-dtype", "float16"])
        plain = workspace.compile(2, "true", more=more)
        resume = ["--ranks", 2, "--data", workspace.data, "--resume"]
        text = harness.run([plain, *resume, folder / "step-000000001"]).stdout
        self.assertIn("this binary does not scale its loss, the checkpoint's run did, by 4194304", text)
        harness.train(workspace, plain, 2, 2, extra=["--checkpoint-dir", workspace.folder / "plain", "--save-every", 1])
        text = harness.run([binary, *resume, workspace.folder / "plain" / "step-000000001"]).stdout
        self.assertIn("the checkpoint's run did not scale its loss: the loss scale begins with 16777216", text)

    def test_guards(self):
        """A step that overflows is no outlier; other steps may be left out for being one."""
        workspace, run, outcome, more = self.prepare()
        binary = workspace.compile(2, more=more)
        for guard in ("--stop-outliers", "--skip-outliers"):
            log, saved = harness.train(workspace, binary, 2, STEPS, extra=[guard, 100])
            self.check_bits(run, outcome, log, saved)
        self.assert_fails("--find-nan: this binary scales its loss", harness.train, workspace, binary, 2, 2,
                          extra=["--find-nan"])  # fmt: skip
        self.assert_fails("--loss-lag 1: this binary scales its loss", harness.train, workspace, binary, 2, 2,
                          extra=["--loss-lag", 1])  # fmt: skip
        described = harness.run([binary, "--describe"]).stdout
        self.assertIn("loss scale 1.67772e+07 (growth_factor 16, backoff_factor 0.25, growth_interval 3)", described)

    def test_no_scale_is_small_enough(self):
        data = safetensors_io.load(self.workspace(MLP).data)
        scale = dict(F32, loss_scale=2.0**-120, loss_scale_backoff_factor=2.0**-6)
        workspace = self.workspace(MLP, harness.Optimizer("sgd", SGD.options | scale))
        data["x"][...] = float("nan")
        safetensors_io.save(workspace.data, data)
        self.assert_fails("the loss scale falls to 1.8367099231598242e-40: gradients are not finite at any scale",
                          harness.train, workspace, workspace.compile(2), 2, 4)  # fmt: skip

    def test_files_flags_and_exports(self):
        """A file's values win over the capture's; a GradScaler is exported."""
        workspace, run, outcome, _ = self.prepare(half=False, scale=F32)
        workspace.optimizer = harness.Optimizer("adamw", ADAMW.options | {"loss_scale": 1.0})
        workspace.capture()
        config = workspace.folder / "scale.yaml"
        values = {name[11:] or "init": value for name, value in F32.items()}
        config.write_text(json.dumps({"optimizer": {"loss_scale": values}}))
        self.check(workspace, run, outcome, 2, config=config, communicators=("local",))

        workspace.optimizer = ADAMW
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**127, backoff_factor=0.25, growth_factor=16.0,
                                      growth_interval=3)  # fmt: skip
        workspace.capture_package(grad_scaler=scaler)
        workspace.optimizer = harness.Optimizer("adamw", ADAMW.options | F32)
        run, outcome = self.expect(workspace, steps=STEPS)
        workspace.optimizer = ADAMW
        self.check(workspace, run, outcome, 2, communicators=("local",))
        workspace.capture_package(grad_scaler=torch.amp.GradScaler("cpu", enabled=False))
        self.assertNotIn("loss_scale", workspace.captured.read_text())
        self.assert_fails("the file has a loss_scale, but the step was captured without one: capture it with "
                          "--loss-scale", workspace.plan, 2, config=config)  # fmt: skip

        # fsdpc hands the file's scale to the capture.
        binary = workspace.folder / "train"
        harness.run([harness.TOOLS / "fsdpc", workspace.export_package(), *ADAMW.flags(), "--mesh", "dp=2",
                     "--config", config, "-o", binary, "--weights", workspace.weights])  # fmt: skip
        log, saved = harness.train(workspace, binary, 2, run.steps)
        self.check_bits(run, outcome, log, saved)

    def test_refusals(self):
        def fails(message, **scale):
            self.assert_fails(message, self.workspace, MLP, harness.Optimizer("adamw", scale))

        path = self.workspace(MLP).folder / "half.pt"
        torch.jit.script(Half()).save(path)
        self.assert_fails("parameter 'weight' is f16, but a scaled loss needs parameters of f32 or bf16", harness.run,
                          [harness.TOOLS / "fsdp-capture", path, "--input", "x:f16[2,4]", "--loss-scale", 2])  # fmt: skip
        fails("loss scale: loss_scale is 0, expected a normal number above 0 (in fp32)", loss_scale=0)
        fails("growth_factor is 0.5, expected a finite number, 1 or more", loss_scale=2,
              loss_scale_growth_factor=0.5)  # fmt: skip
        fails("backoff_factor is 1.5, expected more than 0 and at most 1", loss_scale=2,
              loss_scale_backoff_factor=1.5)  # fmt: skip
        fails("growth_interval is 0, expected 1 step or more", loss_scale=2, loss_scale_growth_interval=0)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Five steps of other models than a decoder (batch normalisation, dropout, tied weights), on two ranks:
schedules that were searched for, and recomputation in the backward, give the bits of FSDP2's order."""

import json
import re
import unittest

import harness
from oracle import models, safetensors_io

RANKS, STEPS = 2, 5
MODELS = {
    "convnet": models.Config("convnet", dim=16, image=8, batch=2),
    "gpt2": models.Config("gpt2", dim=32, seq=16, batch=2, dropout=0.1),
    "mlp": models.Config("mlp", dim=32, batch=4),
}


class Schedules(unittest.TestCase):
    def run_steps(self, workspace, reshard="none", more=""):
        return self.train(workspace, workspace.compile(RANKS, reshard, more=more))

    def train(self, workspace, binary):
        """Losses by step and rank, and the parameters and buffers afterwards."""
        log, save = workspace.folder / "log.jsonl", workspace.folder / "final.safetensors"
        log.unlink(missing_ok=True)
        arguments = harness.training_arguments(workspace, log, save, STEPS)
        harness.run([binary, "--ranks", RANKS, *arguments])
        losses = [line["loss_hex"] for line in harness.read_log(log)]
        self.assertEqual(len(losses), STEPS)
        return losses, safetensors_io.load(save)

    def check_model(self, config):
        workspace = harness.Workspace(config, harness.SGD)
        self.addCleanup(workspace.remove)
        workspace.capture()
        losses, final = self.run_steps(workspace)
        with self.assertRaises(harness.CommandFailed) as refusal:
            workspace.plan(RANKS, "auto", more="schedule=auto memory-cap=1")
        least = int(re.search(r"at least (\d+) bytes are live", str(refusal.exception))[1])
        capped = f"memory-cap={least + least // 20}"
        for more in (
            "schedule=auto",
            f"schedule=auto {capped}",
            f"schedule=auto buckets=false {capped}",
            "schedule=auto device=h100",
            f"schedule=asap {capped}",
        ):
            with self.subTest(more):
                other_losses, other_final = self.run_steps(workspace, "auto", more)
                self.assertEqual(other_losses, losses)
                self.assertIsNone(harness.bitwise_difference(final, other_final))

    def recompute(self, workspace, policy, modules):
        """The step with all of this policy computed again, however small it is; what it repeats, the
        events, and what training gives. `modules`: of groups, inner ones first."""
        planned, report = (workspace.folder / f"recompute.{end}" for end in ("mlir", "json"))
        config = workspace.folder / "groups.yaml"
        config.write_text("groups:\n" + "".join(f'  - modules: ["{name}"]\n' for name in modules))
        passes = [f"--fsdp-group-parameters=mesh=dp={RANKS} config={config}"]
        if policy != "none":
            passes.append(f"--fsdp-recompute=policy={policy} min-bytes=0")
        passes += ["--fsdp-insert-collectives", "--fsdp-verify-sharded", "--fsdp-schedule",
                   "--fsdp-assign-streams", "--fsdp-verify-scheduled", f"--fsdp-report={report}",
                   "--fsdp-plan-memory", "--fsdp-verify-planned"]  # fmt: skip
        harness.run([harness.TOOLS / "fsdp-opt", workspace.captured, *passes, "-o", planned])
        binary = planned.with_suffix("")
        harness.run([harness.TOOLS / "fsdp-compile", planned, "-o", binary])
        repeats = len(re.findall("aten.call .* bwd ", planned.read_text()))
        events = json.loads(report.read_text())["events"]
        return repeats, events, *self.train(workspace, binary)

    def test_recomputation(self):
        """Neither a bit nor an event differs; each policy repeats more than the one before."""
        models_and_groups = (
            (MODELS["convnet"], ["layers.*"]),
            (MODELS["gpt2"], ["h.*.up", "h.*"]),
        )
        for config, modules in models_and_groups:
            workspace = harness.Workspace(config, harness.ADAMW)
            self.addCleanup(workspace.remove)
            workspace.capture()
            fewest, events, losses, final = self.recompute(workspace, "none", modules)
            for policy in ("selected", "full"):
                with self.subTest(model=config.model, policy=policy):
                    repeats, *others = self.recompute(workspace, policy, modules)
                    self.assertGreater(repeats, fewest)
                    self.assertEqual(others[:2], [events, losses])
                    self.assertIsNone(harness.bitwise_difference(final, others[2]))
                    fewest = repeats

    def test_bitwise_equal(self):
        for name, config in MODELS.items():
            with self.subTest(name):
                self.check_model(config)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Five steps of other models than a decoder (batch normalisation, dropout, tied weights), on two ranks:
schedules that were searched for, and recomputation in the backward, give the bits of FSDP2's order."""

import collections
import json
import pathlib
import re
import unittest

import harness
from oracle import models, safetensors_io

RANKS, STEPS = 2, 5
FAST_COPIES = pathlib.Path(__file__).resolve().parents[1] / "Inputs" / "fast-copies.json"
MODELS = {
    "convnet": models.Config("convnet", dim=16, image=8, batch=2),
    "gpt2": models.Config("gpt2", dim=32, seq=16, batch=2, dropout=0.1),
    "mlp": models.Config("mlp", dim=32, batch=4),
}


class Schedules(unittest.TestCase):
    def run_steps(self, workspace, reshard="none", more="", mesh=RANKS, layout="flat"):
        binary = workspace.compile(mesh, reshard, layout, more=more)
        return self.train(workspace, binary, RANKS if mesh == RANKS else 4)

    def train(self, workspace, binary, ranks=RANKS):
        """Losses by step and rank, and the parameters and buffers afterwards."""
        log, save = workspace.folder / "log.jsonl", workspace.folder / "final.safetensors"
        log.unlink(missing_ok=True)
        arguments = harness.training_arguments(workspace, log, save, STEPS)
        harness.run([binary, "--ranks", ranks, *arguments])
        losses = [line["loss_hex"] for line in harness.read_log(log)]
        self.assertEqual(len(losses), STEPS)
        return losses, safetensors_io.load(save)

    def check_model(self, config, options="", mesh=RANKS, layout="flat", optimizer=harness.SGD):
        workspace = harness.Workspace(config, optimizer)
        self.addCleanup(workspace.remove)
        workspace.capture()
        losses, final = self.run_steps(workspace, more=options, mesh=mesh, layout=layout)
        with self.assertRaises(harness.CommandFailed) as refusal:
            workspace.plan(mesh, "auto", layout, more=f"{options} schedule=auto memory-cap=1")
        least = int(re.search(r"at least (\d+) bytes are live", str(refusal.exception))[1])
        capped = f"memory-cap={least + least // 20}"
        for more in (
            "schedule=auto",
            f"schedule=auto {capped}",
            f"schedule=auto buckets=false {capped}",
            "schedule=auto device=h100",
            "schedule=auto transport=copy-engine",
            f"schedule=auto buckets=false transport=auto network={FAST_COPIES}",
            f"schedule=asap {capped}",
        ):
            with self.subTest(model=config.model, mesh=mesh, layout=layout, more=f"{options} {more}"):
                other_losses, other_final = self.run_steps(
                    workspace, "auto", f"{options} {more}", mesh, layout
                )
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


    def test_parts_of_blocks(self):
        """Blocks that are divided, whose modules the backward recomputes together, are called several times, or
        accumulate gradients."""
        moe = models.Config("moe", dim=32, seq=16, batch=2, experts=4, active=2)
        for config, options, parts in (
            (moe, "", "split-blocks=6000"),
            (moe, "microbatches=2 gradient-sync=last", "split-blocks=6000 recompute=selected schedule=auto"),
            (MODELS["gpt2"], "", "split-blocks=3000 recompute=full schedule=auto"),
            (MODELS["gpt2"], "microbatches=2", "split-blocks=3000 recompute=full"),
            (models.Config("shared", dim=16, batch=4), "microbatches=2 gradient-sync=last", "split-blocks=500"),
        ):
            for layout, mesh in (("flat", RANKS), ("per-param", "replicate=2,shard=2")):
                workspace = harness.Workspace(config, harness.ADAMW)
                self.addCleanup(workspace.remove)
                workspace.capture()
                losses, final = self.run_steps(workspace, more=options, mesh=mesh, layout=layout)
                with self.subTest(model=config.model, mesh=mesh, layout=layout, more=f"{options} {parts}"):
                    reshard = "auto" if "auto" in parts else "none"
                    more = f"{options} {parts}"
                    planned, _ = workspace.plan(mesh, reshard, layout, more=more)
                    self.assertRegex(planned.read_text(), 'part_of "[^"]')
                    found = self.run_steps(workspace, reshard, more, mesh, layout)
                    self.assertEqual(found[0], losses)
                    self.assertIsNone(harness.bitwise_difference(final, found[1]))

    def test_chunks(self):
        """The ranks of a host keep what they gather from each other in the backward, on the device or on the host."""
        inputs = pathlib.Path(__file__).resolve().parents[1] / "Inputs"
        llama = models.Config("llama", dim=64, layers=3, seq=32, batch=2)
        for config, layout, options in (
            (models.Config("mlp", dim=64, layers=4, batch=4), "flat", ""),
            (MODELS["convnet"], "flat", "microbatches=2"),
            (llama, "per-param", "microbatches=2"),
        ):
            workspace = harness.Workspace(config, harness.SGD)
            self.addCleanup(workspace.remove)
            workspace.capture()
            losses, final = self.run_steps(workspace, mesh=4, layout=layout, more=options)
            search = f"{options} schedule=auto device=h100 network={inputs}"
            with self.assertRaises(harness.CommandFailed) as refusal:
                workspace.plan(4, "auto", layout, more=f"{search}/two-per-host.json memory-cap=1")
            least = int(re.search(r"at least (\d+) bytes are live", str(refusal.exception))[1])
            num_chunks, num_from_host = collections.Counter(), collections.Counter()
            for network, part, offload in (
                ("two-per-host", 8, "none"),
                ("two-per-host", 5, "none"),
                ("two-per-host", 40, "auto"),
                ("one-per-host", 40, "auto"),
            ):
                more = f"/{network}.json memory-cap={least + least // part} offload-chunks={offload}"
                with self.subTest(model=config.model, layout=layout, more=more):
                    planned, _ = workspace.plan(4, "auto", layout, more=search + more)
                    text = planned.read_text()
                    num_chunks[offload] += text.count("= fsdp.chunk(")
                    num_from_host[network] += len(re.findall(r"all_gather.start .* : !fsdp.host<", text))
                    found = self.run_steps(workspace, "auto", search + more, 4, layout)
                    self.assertEqual(found[0], losses)
                    self.assertIsNone(harness.bitwise_difference(final, found[1]))
            self.assertGreater(num_chunks["none"], 0)
            self.assertGreater(num_from_host["two-per-host"], 0)
            self.assertGreater(num_from_host["one-per-host"], 0)

    def test_named_caps(self):
        """The cap that a refusal names is enough, also where the places of copies to the host depend on the cap."""
        llama = models.Config("llama", dim=32, layers=4, seq=32, batch=2)
        for config, options in (
            (llama, "schedule=asap offload-activations=all"),
            (llama, "schedule=auto offload-activations=all microbatches=2 gradient-sync=last"),
            (MODELS["gpt2"], "schedule=auto offload-policy=cpu offload-activations=auto"),
            (MODELS["mlp"], "schedule=auto offload-policy=cpu microbatches=2 gradient-sync=last"),
        ):
            workspace = harness.Workspace(config, harness.ADAMW)
            self.addCleanup(workspace.remove)
            workspace.capture()
            with self.assertRaises(harness.CommandFailed) as refusal:
                workspace.plan(RANKS, "auto", "flat", more=f"{options} memory-cap=1")
            enough = int(re.search(r"a cap of (\d+) bytes is enough", str(refusal.exception))[1])
            for cap in (enough, enough + enough // 50, enough + enough // 20):
                with self.subTest(model=config.model, options=options, cap=cap):
                    workspace.plan(RANKS, "auto", "flat", more=f"{options} memory-cap={cap}")

    def test_per_param(self):
        """Parameters are copied out of gathers, but where they are kept; gradients into reductions."""
        self.check_model(MODELS["gpt2"], layout="per-param")
        self.check_model(MODELS["mlp"], "shard-placement=largest", "replicate=2,shard=2", "per-param")

    def test_microbatches(self):
        """Each is reduced, or the last alone; parameters stay gathered between them where that pays."""
        clipped = harness.Optimizer("adamw", dict(harness.ADAMW.options, clip_grad_norm=0.05))
        for name, options, mesh, layout, optimizer in (
            ("convnet", "microbatches=2", RANKS, "flat", harness.SGD),
            ("mlp", "microbatches=3 gradient-sync=last", RANKS, "flat", clipped),
            ("gpt2", "microbatches=2 reshard-after-backward=false", RANKS, "per-param", clipped),
            ("mlp", "microbatches=2", "replicate=2,shard=2", "per-param", harness.ADAMW),
        ):
            self.check_model(MODELS[name], options, mesh, layout, optimizer)


if __name__ == "__main__":
    unittest.main()

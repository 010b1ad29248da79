#!/usr/bin/env python3
"""Transforms around gathers, hooks behind reductions and collectives of libraries, beside the real FSDP2 with a tensor
subclass, a hook and collectives in Python that do the same: losses, parameters, events and collectives."""

import dataclasses
import json
import os
import pathlib
import re
import unittest

import torch

import extensions_of_fsdp2
import harness
from oracle import models, safetensors_io

EXTENSIONS = pathlib.Path(os.environ["FSDP_TEST_EXTENSIONS"])
COLLECTIVES = pathlib.Path(os.environ["FSDP_TEST_COLLECTIVES"])
LLAMA = models.Config("llama", dim=32, heads=2, layers=3, vocab=50, batch=2)
GPT2 = models.Config("gpt2", dim=32, seq=16, batch=2)
MLP = models.Config("mlp", dim=16, layers=3, batch=2)
INT8_BLOCKS = {"groups": [{"modules": ["layers.*"], "all_gather_extension": "int8"}]}


def build_with(tensors, config, transform):
    """The eager model with these parameters, each through the transform, and buffers."""
    model = models.build(config)
    parameters = dict(model.named_parameters())
    model.load_state_dict({name: transform(tensor) if name in parameters else tensor
                           for name, tensor in tensors.items()}, strict=False)  # fmt: skip
    return model


def loss_of_rank(model, workspace, rank):
    """Of the rank's first batch, by eager torch."""
    size = workspace.config.batch
    batch = [tensor[rank * size : (rank + 1) * size] for tensor in safetensors_io.load(workspace.data).values()]
    with torch.no_grad():
        return model(*batch).item()


class Test(harness.Comparison):
    def setUp(self):
        torch.set_num_threads(1)

    def config_file(self, workspace, content):
        path = workspace.folder / f"config-{len(list(workspace.folder.glob('config-*')))}.yaml"
        path.write_text(json.dumps(content))
        return path

    def compare(self, config, content, ranks=2, mesh=None, more="", capture=(), optimizer=harness.ADAMW,
                extra=(), communicators=("local",), are_reductions_mixed=False, **options):  # fmt: skip
        """Trains as `content` of a config file says beside FSDP2 with these options of oracle.Run."""
        workspace = self.workspace(config, optimizer, capture)
        run, outcome = self.expect(workspace, ranks, **options)
        planned, report = workspace.plan(
            mesh or ranks, run.reshard_after_forward, "per-param",
            self.config_file(workspace, content), more,
        )  # fmt: skip
        self.check_report(run, outcome[0], report, are_reductions_mixed=are_reductions_mixed)
        binary = workspace.link(planned)
        for communicator in communicators:
            log, saved = harness.train(workspace, binary, run.ranks, run.steps, communicator, extra)
            self.check_bits(run, outcome, log, saved)
        return workspace, planned, json.loads(report.read_text())


class Int8(Test):
    def test_blocks(self):
        _, planned, report = self.compare(
            LLAMA, INT8_BLOCKS, int8_gathers=["layers.*"], communicators=("local", "shm", "gloo")
        )
        self.assertIn("fsdp.encode", planned.read_text())
        sent = {c["group"]: c for c in report["collectives"] if c["kind"] == "all_gather"}
        self.assertEqual({sent[f"layers.{i}"]["dtype"] for i in range(3)}, {"ui8"})
        self.assertEqual(sent["root"]["dtype"], "f32")

    def test_bytes_are_a_quarter(self):
        """And 4 more for the scale of each parameter and rank."""
        _, _, report = self.compare(LLAMA, INT8_BLOCKS, int8_gathers=["layers.*"])
        blocks = [c for c in report["collectives"] if c["kind"] == "all_gather" and c["group"] == "layers.0"]
        reduced = next(c for c in report["collectives"] if c["kind"] == "reduce_scatter" and c["group"] == "layers.0")
        parameters = 9
        self.assertEqual(blocks[0]["elements"], reduced["elements"] // 2 + 4 * parameters)

    def test_all_groups_of_uneven_parts(self):
        """Padding, empty parts and a tied weight, on 3 ranks; sums of 3 ranks are in rank order."""
        self.compare(GPT2, {"all_gather_extension": "int8"}, 3, int8_gathers=[""], groups=("h.*",), det_rs=True)

    def test_reshard_words(self):
        for reshard in ("true", "false"):
            with self.subTest(reshard):
                self.compare(LLAMA, INT8_BLOCKS, int8_gathers=["layers.*"], reshard_after_forward=reshard)

    def test_replicas(self):
        self.compare(LLAMA, INT8_BLOCKS, 4, "replicate=2,shard=2", int8_gathers=["layers.*"], replicas=2)

    def test_microbatches(self):
        for sync in ("each", "last"):
            with self.subTest(sync):
                self.compare(LLAMA, INT8_BLOCKS | {"accumulation": {"microbatches": 2, "gradient_sync": sync}},
                             int8_gathers=["layers.*"], microbatches=2, gradient_sync=sync)  # fmt: skip

    def test_mixed_precision(self):
        self.compare(
            MLP, INT8_BLOCKS, more="param-dtype=bfloat16 reduce-dtype=float32",
            capture=["--param-dtype", "bfloat16"], int8_gathers=["layers.*"], mixed=True,
        )  # fmt: skip

    def test_kept_gathered_between_microbatches(self):
        content = INT8_BLOCKS | {"accumulation": {"microbatches": 2, "reshard_after_backward": False}}
        self.compare(LLAMA, content, int8_gathers=["layers.*"], microbatches=2,
                     reshard_after_backward=False)  # fmt: skip

    def test_checkpointing(self):
        """Parameters that the backward gathers again, for a forward that it computes again."""
        content = INT8_BLOCKS | {"activation_checkpointing": [{"modules": ["**.mlp"]}]}
        self.compare(LLAMA, content, more="recompute=none", reshard_after_forward="true",
                     int8_gathers=["layers.*"], checkpoint={"**.mlp": None})  # fmt: skip

    def test_frozen(self):
        """Frozen parameters travel encoded, too; their group has trained ones beside them."""
        self.compare(dataclasses.replace(LLAMA, frozen=["*.attn.*"]), INT8_BLOCKS, int8_gathers=["layers.*"])

    def test_kernels_of_torch(self):
        self.compare(LLAMA, INT8_BLOCKS, int8_gathers=["layers.*"], extra=["--kernels", "torch"])

    def test_several_meshes(self):
        """A binary of two meshes; one of these on one rank is refused."""
        workspace = self.workspace(LLAMA)
        model, binary = workspace.folder / "model.pt", workspace.folder / "train"
        config = self.config_file(workspace, INT8_BLOCKS)
        compile_for = lambda *meshes: harness.run(
            [harness.TOOLS / "fsdpc", model, *models.input_flags(LLAMA), "--layout", "per-param", "--config", config,
             *(word for mesh in meshes for word in ("--mesh", mesh)), *workspace.optimizer.flags(),
             "--weights", workspace.weights, "-o", binary])  # fmt: skip
        compile_for("dp=2", "replicate=2,shard=2")
        for ranks, replicas in ((2, 1), (4, 2)):
            run, outcome = self.expect(workspace, ranks, replicas=replicas, int8_gathers=["layers.*"])
            log, saved = harness.train(workspace, binary, ranks, run.steps)
            self.check_bits(run, outcome, log, saved)
        self.assert_fails("has all_gather_extension int8 and shards on 1 rank, where nothing is gathered; expected at "
                          "least 2", compile_for, "dp=2", "dp=1")  # fmt: skip

    def test_refused(self):
        """Each by the words of the file."""
        workspace = self.workspace(LLAMA)
        for content, mesh, reason in (
            ({"offload_policy": "cpu"}, "dp=2", "offload_policy cpu; expected none"),
            ({"shard_placement": "largest"}, "dp=2", "on dimension 1; expected 0"),
            ({"groups": [{"modules": ["layers.*"], "reshard_after_forward": 2}]}, "dp=4", "keeps chunks over 2 ranks"),
            ({"layout": "flat"}, "dp=2", "the flat layout; expected per_param"),
        ):  # fmt: skip
            config = self.config_file(workspace, {"all_gather_extension": "int8"} | content)
            self.assert_fails(reason, workspace.plan, mesh, layout=content.get("layout", "per-param"), config=config)

    def test_resume_and_other_layout(self):
        """Checkpoints hold the fp32 shards, and know no extension."""
        workspace, planned, _ = self.compare(LLAMA, INT8_BLOCKS, int8_gathers=["layers.*"])
        binary = workspace.link(planned)
        folder, save = workspace.folder / "checkpoints", workspace.folder / "resumed.safetensors"
        _, halfway = harness.train(workspace, binary, 2, 2, extra=["--checkpoint-dir", folder, "--save-every", 2])

        def resume(binary, steps):
            harness.run([binary, "--ranks", 2, "--data", workspace.data, "--steps", steps, "--save", save,
                         "--resume", folder])  # fmt: skip
            return safetensors_io.load(save)

        self.assertIsNone(harness.bitwise_difference(halfway, resume(workspace.compile(2), 2)))
        _, whole = harness.train(workspace, binary, 2, 4)
        self.assertIsNone(harness.bitwise_difference(whole, resume(binary, 4)))

    def test_searched(self):
        """Whatever the order, the bits are FSDP2's; what is predicted is what is planned."""
        for more in ("schedule=auto", "schedule=asap"):
            workspace = self.workspace(LLAMA)
            run, outcome = self.expect(workspace, int8_gathers=["layers.*"])
            planned, report = workspace.plan(2, "auto", "per-param", self.config_file(workspace, INT8_BLOCKS), more)
            log, saved = harness.train(workspace, workspace.link(planned), run.ranks, run.steps)
            self.check_bits(run, outcome, log, saved)
            peak = int(re.search(r"fsdp\.peak_live_bytes = (\d+)", planned.read_text())[1])
            self.assertEqual(json.loads(report.read_text())["prediction"]["peak_bytes"], peak)

    def test_evaluation(self):
        """Its loss is that of the decoded parameters."""
        workspace = self.workspace(LLAMA)
        model, binary = workspace.folder / "model.pt", workspace.folder / "train"
        config = self.config_file(workspace, {"layout": "per-param", "all_gather_extension": "int8"})
        harness.run([harness.TOOLS / "fsdpc", model, "--eval-model", model, *models.input_flags(LLAMA),
                     "--mesh", "dp=2", "--config", config, *workspace.optimizer.flags(),
                     "--weights", workspace.weights, "-o", binary])  # fmt: skip
        _, saved = harness.train(workspace, binary, 2, 2, extra=["--eval-data", workspace.data, "--eval-steps", 1])
        lines = map(json.loads, (workspace.folder / "log.jsonl").read_text().splitlines())
        evaluation = [line for line in lines if "eval_loss" in line][-1]
        eager = build_with(saved, LLAMA, lambda tensor: extensions_of_fsdp2.through_int8(tensor, 2)).eval()
        for rank in range(2):
            self.assertEqual(float.fromhex(evaluation["loss_hex"][rank]), loss_of_rank(eager, workspace, rank))


class LibraryPair(Test):
    PAIR = {"name": "test_half", "bytes_per_element": 2, "bytes_per_part": 0}

    def prepare(self, pair):
        workspace = self.workspace(LLAMA)
        config = self.config_file(workspace, {"all_gather_extension": pair})
        return workspace, workspace.compile(2, layout="per-param", config=config)

    def test_as_f16_parameters(self):
        """The first step's losses are eager torch's with parameters rounded to f16."""
        workspace, binary = self.prepare(self.PAIR)
        log, _ = harness.train(workspace, binary, 2, 1, extra=["--load-library", EXTENSIONS])
        initial = safetensors_io.load(workspace.weights)
        eager = build_with(initial, LLAMA, lambda tensor: tensor.half().float())
        for rank in range(2):
            self.assertEqual(float.fromhex(log[0]["loss_hex"][rank]), loss_of_rank(eager, workspace, rank))

    def test_errors(self):
        workspace, binary = self.prepare(self.PAIR)
        self.assert_fails("torch does not have operator fsdp_extension::test_half_encode in module",
                          harness.train, workspace, binary, 2, 1)  # fmt: skip
        workspace, binary = self.prepare(self.PAIR | {"name": "int8"})
        self.assert_fails("int8 encodes", harness.train, workspace, binary, 2, 1)


class Hook(Test):
    HOOKED = {"all_reduce_hook": "test_shrink"}

    def check_hook(self, *arguments, **options):
        return self.compare(*arguments, all_reduce_hook="test_shrink",
                            extra=["--load-library", EXTENSIONS], **options)  # fmt: skip

    def test_behind_reduce_scatters(self):
        self.check_hook(LLAMA, self.HOOKED, communicators=("local", "shm", "gloo"))

    def test_behind_all_reduces(self):
        self.check_hook(LLAMA, self.HOOKED, 4, mesh="replicate=2,shard=2", replicas=2)
        self.check_hook(MLP, self.HOOKED, 2, mesh="replicate=2,shard=1", replicas=2)

    def test_of_one_group(self):
        workspace = self.workspace(LLAMA)
        content = {"groups": [{"modules": ["layers.0"], "all_reduce_hook": "test_shrink"},
                              {"modules": ["layers.1", "layers.2"]}]}  # fmt: skip
        planned, _ = workspace.plan(2, layout="per-param", config=self.config_file(workspace, content))
        self.assertEqual(planned.read_text().count("fsdp.all_reduce_hook %"), 1)

    def test_on_one_rank(self):
        self.check_hook(MLP, self.HOOKED, 1)

    def test_microbatches(self):
        for sync in ("each", "reduce_scatter", "last"):
            with self.subTest(sync):
                self.check_hook(LLAMA, self.HOOKED | {"accumulation": {"microbatches": 2, "gradient_sync": sync}},
                                4, mesh="replicate=2,shard=2", replicas=2, microbatches=2, gradient_sync=sync,
                                are_reductions_mixed=sync == "reduce_scatter")  # fmt: skip

    def test_clipping(self):
        """The norm is that of what hooks have left; inf, which is exact."""
        self.check_hook(LLAMA, self.HOOKED, capture=["--clip-grad-norm", "0.005", "--clip-norm-type", "inf"],
                        clip_grad_norm=0.005, clip_norm_type="inf")  # fmt: skip

    def test_with_encoded_gathers(self):
        self.check_hook(LLAMA, self.HOOKED | {"all_gather_extension": "int8"}, int8_gathers=[""])

    def test_searched(self):
        """Whatever the order, the bits are those of FSDP2's order."""
        workspace = self.workspace(LLAMA)
        config = self.config_file(workspace, self.HOOKED)
        finals = []
        for more in ("", "schedule=auto", "schedule=asap"):
            binary = workspace.compile(2, "auto" if more else "none", config=config, more=more)
            finals.append(harness.train(workspace, binary, 2, 3, extra=["--load-library", EXTENSIONS])[1])
        for final in finals[1:]:
            self.assertIsNone(harness.bitwise_difference(finals[0], final))


class Collectives(Test):
    def noted(self, folder, rank=0):
        return {
            path.name.split(".")[-2]: path.read_text().splitlines()
            for path in folder.glob(f"calls.*.{rank}")
        }

    def train_noted(self, workspace, binary, run, **environment):
        log = workspace.folder / "calls"
        save, lines = workspace.folder / "noted.safetensors", workspace.folder / "noted.jsonl"
        harness.run([binary, "--ranks", run.ranks, "--collectives", COLLECTIVES,
                     *harness.training_arguments(workspace, lines, save, run.steps)],
                    environment={"FSDP_TEST_COLLECTIVES_LOG": str(log), **environment})  # fmt: skip
        return harness.read_log(lines), safetensors_io.load(save)

    def test_same_calls_as_fsdp2(self):
        workspace = self.workspace(LLAMA)
        run, outcome = self.expect(workspace, note_collectives=True)
        config = self.config_file(workspace, {"groups": [{"modules": ["layers.*"]}]})
        binary = workspace.compile(2, layout="per-param", config=config)
        self.check_bits(run, outcome, *self.train_noted(workspace, binary, run))
        expected = outcome[0]["noted"]
        for rank in range(run.ranks):
            noted = self.noted(workspace.folder, rank)
            self.assertEqual(noted["gather"], [call for call in expected if "gather" in call])
            self.assertEqual(noted["reduce"], [call for call in expected if "reduce" in call])

    def test_replicas_and_norm(self):
        workspace = self.workspace(LLAMA, capture=["--clip-grad-norm", "1"])
        config = self.config_file(workspace, {})
        binary = workspace.compile("replicate=2,shard=2", config=config)
        run = workspace.oracle_run(["layers.*"], 4, steps=2)
        _, saved = self.train_noted(workspace, binary, run)
        _, expected = harness.train(workspace, binary, 4, 2)
        self.assertIsNone(harness.bitwise_difference(expected, saved))
        noted = self.noted(workspace.folder)
        self.assertEqual(len(noted["replicate"]), 2 * 4)  # groups
        self.assertEqual([c for c in noted["reduce"] if "all_reduce" in c], ["all_reduce 8"] * 2)

    def test_errors(self):
        workspace = self.workspace(MLP)
        binary = workspace.compile(2)
        run = workspace.oracle_run(["layers.*"], 2, steps=2)
        with self.assertRaises(harness.CommandFailed) as failed:
            self.train_noted(workspace, binary, run, FSDP_TEST_COLLECTIVES_FAIL="1")
        self.assertRegex(
            str(failed.exception),
            r'reduce_scatter of group "layers\.2" \(.*\) in backward: collectives \'noted\', reduce_scatter on the '
            "reduce lane at rank 1: the test wants it to fail",
        )
        arguments = [binary, "--ranks", 2, "--data", workspace.data, "--steps", 1, "--collectives"]
        self.assert_fails("it exports no fsdp_get_collectives (fsdp/Plan/CollectivesAbi.h)",
                          harness.run, [*arguments, EXTENSIONS])  # fmt: skip
        self.assert_fails("invalid ELF header", harness.run, [*arguments, workspace.data])


if __name__ == "__main__":
    unittest.main()

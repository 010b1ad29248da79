#!/usr/bin/env python3
"""Mixed precision of single groups beside FSDP2: fsdpc.export makes the casts of FSDP2's hooks, and
the groups travel in their dtypes. Losses, parameters, events and collectives are the same."""

import json
import unittest

import harness
from oracle import models

LLAMA = models.Config("llama", dim=32, layers=2, vocab=50, seq=16, batch=2)
VIT = models.Config("vit", dim=16, layers=2, batch=2)
BF16 = {"param_dtype": "bfloat16", "reduce_dtype": "float32"}


class Policies(harness.Comparison):
    def compare(self, policies, model=LLAMA, config=None, mesh=2,
                layouts=("flat", "per-param"), exported=None, **options):  # fmt: skip
        """`policies` by pattern, in the order of fully_shard; groups are the same. `exported`: what
        fsdpc.export gets, if that is something else."""
        workspace = harness.Workspace(model, harness.ADAMW, samples=26)
        self.addCleanup(workspace.remove)
        workspace.capture_package(policies=exported or policies)
        groups = [key for key in policies if key]
        rules = [{"together": key.split(",")} if "," in key else {"modules": [key]}
                 for key in groups]  # fmt: skip
        file = workspace.folder / "config.yaml"
        file.write_text(json.dumps({"groups": rules, **(config or {})}))
        run, expected = self.expect(workspace, groups=groups, policies=policies, **options)
        self.check(workspace, run, expected, mesh, layouts=layouts, config=file,
                   communicators=["local"])  # fmt: skip
        return workspace

    def test_one_policy(self):
        """Arguments of all groups' modules are cast, those that stay fp32 elsewhere, too."""
        self.compare({"layers.*": BF16, "": BF16})

    def test_of_the_model(self):
        """One policy of the whole model is that of all its groups."""
        narrow = {"param_dtype": "bfloat16", "reduce_dtype": "bfloat16"}
        self.compare({"blocks.*": narrow, "": narrow}, model=VIT, exported={"": narrow})

    def test_reduced_in_the_gathered_dtype(self):
        self.compare({"layers.*": {"param_dtype": "bfloat16"}, "": BF16})

    def test_norms_in_fp32(self):
        norm = {"param_dtype": "float32", "output_dtype": "bfloat16"}
        self.compare({"layers.*.attention_norm": norm, "layers.*.ffn_norm": norm, "norm": norm,
                      "layers.*": BF16, "": BF16})  # fmt: skip

    def test_groups_of_several_modules(self):
        """FSDP2 casts what enters the first module and what leaves the last one."""
        norm = {"param_dtype": "float32", "output_dtype": "bfloat16"}
        self.compare({"layers.0.attention_norm,layers.0.ffn_norm": norm,
                      "layers.1.attention_norm,layers.1.ffn_norm": norm, "layers.*": BF16,
                      "": BF16})  # fmt: skip

    def test_some_groups(self):
        """A group without a policy computes in fp32, on arguments that are cast for it."""
        self.compare({"layers.0": BF16, "layers.1": {"param_dtype": "float32"}, "": {}})

    def test_arguments_that_stay(self):
        self.compare({"blocks.*": dict(BF16, output_dtype="float32"), "": {}}, model=VIT)
        norm = {"param_dtype": "float32", "cast_forward_inputs": False}
        self.compare({"norm": norm, "layers.*": BF16, "": {"reduce_dtype": "float32"}})

    def test_results(self):
        self.compare({"layers.*": BF16, "": dict(BF16, output_dtype="float64")})

    def test_replicas(self):
        self.compare({"layers.*": BF16, "": BF16}, ranks=4, replicas=2, mesh="replicate=2,shard=2")

    def test_frozen(self):
        """Frozen parameters have a copy in the dtype that is gathered, although nothing updates it."""
        config = models.Config("llama", dim=32, layers=2, vocab=50, seq=16, batch=2,
                               frozen=["layers.*.attn.*", "tok.weight"])  # fmt: skip
        self.compare({"layers.*": BF16, "": BF16}, model=config)
        config = models.Config("llama", dim=32, layers=2, vocab=50, seq=16, batch=2,
                               frozen=["layers.0.*"])  # fmt: skip
        self.compare({"layers.*": BF16, "": BF16}, model=config)

    def test_file_wins(self):
        """What the file says of reduce_dtype replaces what was exported."""
        policies = {"layers.*": dict(BF16), "": dict(BF16)}
        workspace = self.compare(policies, layouts=("flat",))
        file = workspace.folder / "other.yaml"
        file.write_text('{"groups": [{"modules": ["layers.*"], "mixed_precision": {"param_dtype": '
                        '"bfloat16"}}]}')  # fmt: skip
        planned, _ = workspace.plan(2, config=file)
        groups = [line for line in planned.read_text().splitlines() if "fsdp.group " in line]
        self.assertIn("gather_dtype bf16 reduce_dtype bf16", groups[0])
        self.assertIn("gather_dtype bf16", groups[-1])
        self.assertIn("mixed_precision <param_dtype = bf16, reduce_dtype = f32> gather_dtype bf16", groups[-1])
        self.assertEqual(groups[-1].count("reduce_dtype"), 1)  # asked for, and the parameters' own


if __name__ == "__main__":
    unittest.main()

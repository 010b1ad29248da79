#!/usr/bin/env python3
"""Clipping by the norm of all gradients beside FSDP2 with clip_grad_norm_.

Where the norm is below the limit, losses and parameters are those of FSDP2, bit for bit. Where it is
not, they differ by how the norm is rounded: here its square is a sum in double, in torch a sum of
fp32 norms of tensors, each summed in fp32. Norm 1 differs alike, norm inf not at all.
"""

import dataclasses
import json
import unittest

import harness
import oracle
from oracle import models

CONFIG = models.Config("llama", dim=64, layers=3, seq=32, batch=2)
STEPS = 10
#: Above all norms of these runs, and below all but none.
NEVER, ALWAYS = 100.0, 0.25
#: Below all norms 1 and inf of these runs.
NORM_1, NORM_INF = 1.0, 1e-3
#: Of norms, relative: four roundings of fp32; torch adds thousands of absolute values for norm 1.
NORM_TOLERANCE = {"2": 4 * 2**-24, "1": 16 * 2**-24, "inf": 0}
#: A model whose blocks take nothing but what they cast.
MLP = models.Config("mlp", dim=64, layers=3, batch=2)
#: Of losses, and of parameters after 10 steps, which are below 2: some of their last bits.
LOSS_TOLERANCE, PARAMETER_TOLERANCE = 1e-6, {"2": 2**-22, "1": 2**-20}


class Case:
    """A captured model with one optimizer, limit and norm, and what FSDP2 makes of it."""

    def __init__(self, optimizer, limit, ranks=2, replicas=1, norm="2", config=CONFIG, **policy):
        options = dict(optimizer.options, clip_grad_norm=limit, clip_norm_type=norm)
        optimizer = harness.Optimizer(optimizer.kind, options)
        self.workspace = harness.Workspace(config, optimizer, samples=104)
        self.workspace.capture(flags=["--param-dtype", "bfloat16"] if "mixed" in policy else [])
        self.ranks, self.limit, self.norm = ranks, limit, norm
        run = self.workspace.oracle_run(
            ["layers.*"],
            ranks,
            replicas=replicas,
            steps=STEPS,
            init=str(self.workspace.weights),
            det_rs=ranks // replicas > 2,
            **policy,
        )
        [(self.expected, self.final)] = oracle.execute([run])


class Clip(unittest.TestCase):
    def case(self, *arguments, **options):
        case = Case(*arguments, **options)
        self.addCleanup(case.workspace.remove)
        return case

    def train(self, case, communicator, binary, extra=()):
        """The log and the parameters of a run."""
        return harness.train(case.workspace, binary, case.ranks, STEPS, communicator, extra)

    def check_norms(self, case, log):
        for step, (line, norm) in enumerate(zip(log, case.expected["grad_norms"], strict=True)):
            tolerance = NORM_TOLERANCE[case.norm] * norm
            self.assertAlmostEqual(line["grad_norm"], norm, delta=tolerance)
            self.assertEqual(norm > case.limit, case.limit < NEVER, f"norm of step {step}: {norm}")

    def check_equal(self, case, log, final):
        losses = [[float.fromhex(text) for text in line["loss_hex"]] for line in log]
        expected = [[float.fromhex(text) for text in rank] for rank in case.expected["losses"]]
        self.assertEqual(losses, [list(step) for step in zip(*expected)])
        self.assertIsNone(harness.bitwise_difference(case.final, final))

    def check_close(self, case, log, final):
        for step, line in enumerate(log):
            for rank, text in enumerate(line["loss_hex"]):
                expected = float.fromhex(case.expected["losses"][rank][step])
                self.assertAlmostEqual(float.fromhex(text), expected, delta=LOSS_TOLERANCE)
        self.assertEqual(set(final), set(case.final))
        for name, tensor in case.final.items():
            gap = (tensor - final[name]).abs().max().item()
            self.assertLessEqual(gap, PARAMETER_TOLERANCE[case.norm], name)

    def check(self, case, binary, communicators=("local",), extra=()):
        for communicator in communicators:
            with self.subTest(f"{binary.name} {communicator}"):
                log, final = self.train(case, communicator, binary, extra)
                self.check_norms(case, log)
                is_exact = case.limit >= NEVER or case.norm == "inf"
                (self.check_equal if is_exact else self.check_close)(case, log, final)

    def test_norms_below_the_limit(self):
        """A factor of 1 changes no bit."""
        case = self.case(harness.ADAMW, NEVER)
        for layout in ("flat", "per-param"):
            self.check(case, case.workspace.compile(2, layout=layout), ("local", "shm"))

    def test_norms_above_the_limit(self):
        for optimizer in (harness.SGD, harness.ADAMW):
            case = self.case(optimizer, ALWAYS)
            self.check(case, case.workspace.compile(2), ("local", "shm"))
            self.check(case, case.workspace.compile(2, layout="per-param"))
            self.check(case, case.workspace.compile(2, "auto", more="schedule=auto"))
            self.check_report(case)
        self.check(case, case.workspace.compile(2, more="offload-optimizer=all"))

        # A file's norm wins over the capture's, and the run's over both.
        config = case.workspace.folder / "clip.yaml"
        config.write_text("optimizer: {clip_grad_norm: 7.0}\n")
        binary = case.workspace.compile(2, config=config, more="prefetch=none")
        self.check(case, binary, extra=["--clip-grad-norm", case.limit])

    def check_report(self, case):
        """The all-reduce of the norm is listed, once."""
        _, report = case.workspace.plan(2)
        report = json.loads(report.read_text())
        self.assertEqual(report["counts"]["all_reduce"], {"forward": 0, "backward": 1})
        self.assertEqual(report["collectives"][-1]["of"], "gradient norm")

    def test_other_norms(self):
        """The largest gradient is exact, also where it clips; sums of absolute values are rounded."""
        for norm, limit in (("1", NORM_1), ("1", 100 * NEVER), ("inf", NORM_INF)):
            case = self.case(harness.ADAMW, limit, norm=norm)
            self.check(case, case.workspace.compile(2), ("local", "shm", "gloo"))
            self.check(case, case.workspace.compile(2, layout="per-param"))
        self.check(case, case.workspace.compile(2, "auto", more="schedule=auto"))
        self.check_report(case)
        case = self.case(harness.ADAMW, NORM_INF, ranks=4, norm="inf")
        self.check(case, case.workspace.compile(4), ("local", "shm"))
        case = self.case(harness.SGD, NORM_INF, ranks=4, replicas=2, norm="inf")
        self.check(case, case.workspace.compile("replicate=2,shard=2"))

        # A file's type wins over the capture's.
        config = case.workspace.folder / "norm.yaml"
        config.write_text("optimizer: {clip_norm_type: inf, clip_grad_norm: %s}\n" % NORM_INF)
        sums = self.case(harness.SGD, NORM_1, ranks=4, replicas=2, norm="1")
        self.check(case, sums.workspace.compile("replicate=2,shard=2", config=config))

    def test_mixed_precision(self):
        """The norm is that of the gradients that updates read: reduced, and cast to fp32.

        Where a norm is rounded otherwise, copies in bf16 may be, too: norm inf is not rounded.
        """
        case = self.case(
            harness.ADAMW, NORM_INF, norm="inf", config=MLP, mixed=True, reduce_dtype="float32"
        )
        more = "param-dtype=bfloat16 reduce-dtype=float32"
        self.check(case, case.workspace.compile(2, more=more))

    def test_frozen_and_microbatches(self):
        """The norm is that of the sums of the microbatches' gradients, of what is trained."""
        config = dataclasses.replace(CONFIG, frozen=["*.attn.*"])
        for norm, limit in (("1", NORM_1), ("2", ALWAYS), ("inf", NORM_INF)):
            case = self.case(harness.ADAMW, limit, norm=norm, config=config, microbatches=2)
            for layout in ("flat", "per-param"):
                self.check(case, case.workspace.compile(2, layout=layout, more="microbatches=2"))

    def test_4_ranks(self):
        case = self.case(harness.ADAMW, ALWAYS, ranks=4)
        self.check(case, case.workspace.compile(4))

    def test_replicas(self):
        """The norm is that of one replica's gradients, which are the averages over all."""
        case = self.case(harness.SGD, ALWAYS, ranks=4, replicas=2)
        self.check(case, case.workspace.compile("replicate=2,shard=2"))


if __name__ == "__main__":
    unittest.main()

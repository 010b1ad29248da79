#!/usr/bin/env python3
"""Clipping by the norm of all gradients beside FSDP2 with clip_grad_norm_.

Where the norm is below the limit, losses and parameters are those of FSDP2, bit for bit. Where it is
not, they differ by how the norm is rounded: here its square is a sum in double, in torch a sum of
fp32 norms of tensors, each summed in fp32.
"""

import json
import unittest

import harness
import oracle
from oracle import models, safetensors_io

CONFIG = models.Config("llama", dim=64, layers=3, seq=32, batch=2)
STEPS = 10
#: Above all norms of these runs, and below all but none.
NEVER, ALWAYS = 100.0, 0.25
#: Of norms, relative; four roundings of fp32.
NORM_TOLERANCE = 4 * 2**-24
#: Of losses, and of parameters after 10 steps, which are below 2: two of their last bits.
LOSS_TOLERANCE, PARAMETER_TOLERANCE = 1e-6, 2**-22


class Case:
    """A captured model with one optimizer and limit, and what FSDP2 makes of it."""

    def __init__(self, optimizer, limit, ranks=2, replicas=1):
        options = dict(optimizer.options, clip_grad_norm=limit)
        self.workspace = harness.Workspace(CONFIG, harness.Optimizer(optimizer.kind, options))
        self.workspace.capture()
        self.ranks, self.limit = ranks, limit
        run = self.workspace.oracle_run(
            ["layers.*"],
            ranks,
            replicas=replicas,
            steps=STEPS,
            init=str(self.workspace.weights),
            det_rs=ranks // replicas > 2,
        )
        [(self.expected, self.final)] = oracle.execute([run])


class Clip(unittest.TestCase):
    def case(self, *arguments, **options):
        case = Case(*arguments, **options)
        self.addCleanup(case.workspace.remove)
        return case

    def train(self, case, communicator, binary, extra=()):
        """The log and the parameters of a run."""
        log, save = (case.workspace.folder / name for name in ("log.jsonl", "final.safetensors"))
        for path in (log, save):
            path.unlink(missing_ok=True)
        arguments = harness.training_arguments(case.workspace, log, save, STEPS)
        arguments += ["--communicator", communicator, *extra]
        if communicator == "local":
            harness.run([binary, "--ranks", case.ranks, *arguments])
        else:
            ends = harness.finish(harness.start_ranks(binary, case.ranks, arguments))
            for rank, (status, output) in enumerate(ends):
                self.assertEqual(status, 0, f"rank {rank}:\n{output}")
        return harness.read_log(log), safetensors_io.load(save)

    def check_norms(self, case, log):
        for step, (line, norm) in enumerate(zip(log, case.expected["grad_norms"], strict=True)):
            self.assertAlmostEqual(line["grad_norm"], norm, delta=NORM_TOLERANCE * norm)
            self.assertEqual(norm > case.limit, case.limit == ALWAYS, f"norm of step {step}: {norm}")

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
            self.assertLessEqual(gap, PARAMETER_TOLERANCE, name)

    def check(self, case, binary, communicators=("local",), extra=()):
        for communicator in communicators:
            with self.subTest(f"{binary.name} {communicator}"):
                log, final = self.train(case, communicator, binary, extra)
                self.check_norms(case, log)
                (self.check_equal if case.limit == NEVER else self.check_close)(case, log, final)

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
        """The all-reduce of the square sum is listed, once."""
        _, report = case.workspace.plan(2)
        report = json.loads(report.read_text())
        self.assertEqual(report["counts"]["all_reduce"], {"forward": 0, "backward": 1})
        self.assertEqual(report["collectives"][-1]["of"], "gradient norm")

    def test_4_ranks(self):
        case = self.case(harness.ADAMW, ALWAYS, ranks=4)
        self.check(case, case.workspace.compile(4))

    def test_replicas(self):
        """The norm is that of one replica's gradients, which are the averages over all."""
        case = self.case(harness.SGD, ALWAYS, ranks=4, replicas=2)
        self.check(case, case.workspace.compile("replicate=2,shard=2"))


if __name__ == "__main__":
    unittest.main()

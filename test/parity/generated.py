#!/usr/bin/env python3
"""Drawn configurations beside FSDP2: events, collectives, losses and parameters are the same, bit for bit.

  generated.py [--configurations 20] [--first 1]

A configuration that fails is named by its number, with which it is drawn again. One that the tools refuse
must be refused for one of REFUSALS.
"""

import argparse
import collections
import json
import re
import sys
import unittest

import fsdp2_setup
import harness
import oracle
from drawn import Configuration
from events import lines
from oracle import ROOT, models

sys.path.insert(0, str(ROOT / "tools" / "python"))
import fsdpc  # noqa: E402

STEPS = 3
OPTIONS = None
#: What cannot be compiled: patterns of messages.
REFUSALS = [
    "where a parameter lies on one rank alone, FSDP2 divides twice",
    "which no group stands for",  # all parameters of the module are in inner groups
    "FSDP2 casts floating-point arguments of a group's modules: cast it in the model",
]


class Prepared:
    """A captured configuration, and what FSDP2 is to do."""

    def __init__(self, configuration):
        self.configuration = configuration
        self.workspace = harness.Workspace(configuration.model, configuration.optimizer, samples=26)
        if configuration.policies:
            self.export()
        else:
            self.workspace.capture(configuration.form, configuration.capture_flags())
        self.file = self.workspace.folder / "config.yaml"
        self.file.write_text(configuration.yaml())
        self.run = self.workspace.oracle_run(
            steps=STEPS, init=str(self.workspace.weights), **configuration.oracle_options()
        )

    def export(self):
        config, workspace = self.configuration.model, self.workspace
        policies = {
            tuple(key.split(",")) if "," in key else key: fsdp2_setup.policy_of(policy)
            for key, policy in self.configuration.policies.items()
        }
        path = workspace.folder / "model.pt2"
        fsdpc.export(models.build(config), models.example_inputs(config, batch=config.batch), path,
                     mixed_precision=policies, weights=workspace.weights, quiet=True)  # fmt: skip
        harness.run([harness.TOOLS / "fsdp-capture", path, *workspace.optimizer.flags(),
                     "-o", workspace.captured])  # fmt: skip

    def plan(self, layout):
        c = self.configuration
        return self.workspace.plan(c.mesh(), c.reshard, layout, self.file, c.options())

    def expected(self, record, name):
        """Over an axis of one rank nothing is sent, and what is whole is not gathered."""
        c = self.configuration
        sizes = {"replicate": c.replicas or 1, "shard": c.shards, "dp": c.ranks}
        if name == "collectives":
            return [r for r in record[name] if sizes[r["axis"]] > 1]
        if c.shards == 1:
            return [r for r in record[name] if r["event"] == "post_backward" and c.ranks > 1]
        return record[name]


class Generated(unittest.TestCase):
    maxDiff = None

    def check_report(self, prepared, record, report):
        for name in ("events", "collectives"):
            found = report[name]
            # Recorded are the collectives of forward and backward, and not torch's all_gather, by which
            # what is summed in rank order is reduced.
            unrecorded = {"reduce_scatter"} if prepared.run.det_rs else set()
            if name == "collectives":
                found = [r for r in found if r["kind"] not in unrecorded and r.get("of") != "gradient norm"]
            wanted = prepared.expected(record, name)
            if name == "collectives" and prepared.configuration.sync == "reduce_scatter":
                # What is still to be reduced over replicas is added up when the next reduction begins.
                found, wanted = (sorted(l, key=lambda r: r["kind"] == "all_reduce") for l in (found, wanted))
            self.assertEqual(lines(wanted), lines(found))

    def check_bits(self, prepared, record, final, planned):
        binary = planned.with_suffix("")
        harness.run([harness.TOOLS / "fsdp-compile", planned, "-o", binary])
        log, saved = harness.train(prepared.workspace, binary, prepared.run.ranks, STEPS)
        found = [[float.fromhex(text) for text in line["loss_hex"]] for line in log]
        wanted = [[float.fromhex(text) for text in step] for step in zip(*record["losses"])]
        self.assertEqual(found, wanted)
        names = saved if set(saved) <= set(final) else final  # without other names of tied weights
        self.assertIsNone(harness.bitwise_difference(final, {name: saved[name] for name in names}))

    def check(self, prepared, record, final):
        planned, report = prepared.plan("per-param")
        self.check_report(prepared, record, json.loads(report.read_text()))
        if prepared.configuration.layout == "flat":
            planned, _ = prepared.plan("flat")
        self.check_bits(prepared, record, final, planned)

    def test_equal(self):
        numbers = range(OPTIONS.first, OPTIONS.first + OPTIONS.configurations)
        print(f"configurations {numbers[0]} to {numbers[-1]}", flush=True)
        refused = collections.Counter()
        by_ranks = collections.defaultdict(list)
        for number in numbers:
            configuration = Configuration(number)
            by_ranks[configuration.ranks].append(configuration)
        for ranks, configurations in sorted(by_ranks.items()):
            for begin in range(0, len(configurations), 25):
                prepared = []
                for configuration in configurations[begin : begin + 25]:
                    with self.subTest(str(configuration)):
                        prepared.append(Prepared(configuration))
                        self.addCleanup(prepared[-1].workspace.remove)
                if not prepared:
                    continue
                for one, outcome in zip(prepared, oracle.execute([one.run for one in prepared])):
                    with self.subTest(str(one.configuration)):
                        try:
                            self.check(one, *outcome)
                        except harness.CommandFailed as failed:
                            reasons = [r for r in REFUSALS if re.search(r, str(failed))]
                            if not reasons:
                                raise
                            refused[reasons[0]] += 1
        for reason, count in refused.items():
            print(f"refused, {count}: {reason}")
        self.assertLess(sum(refused.values()), len(numbers) / 2)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--configurations", type=int, default=20)
    parser.add_argument("--first", type=int, default=1)
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=sys.argv[:1] + rest)

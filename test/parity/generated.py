#!/usr/bin/env python3
"""Drawn configurations beside FSDP2: events, collectives, losses and parameters are the same, bit for bit.

  generated.py [--configurations 20] [--first 1]

A configuration that fails is named by its number, with which it is drawn again. Few may be refused, and each
only when it is planned, by a message that its configuration explains (Configuration.refusals).
"""

import argparse
import collections
import sys
import unittest

import harness
import oracle
from drawn import Configuration

STEPS = 3
#: Configurations that FSDP2 runs one after another in the same processes.
BATCH = 25
OPTIONS = None


class Prepared:
    """A captured configuration, and what FSDP2 is to do."""

    def __init__(self, configuration):
        self.configuration = configuration
        self.workspace = harness.Workspace(configuration.model, configuration.optimizer, samples=26)
        if configuration.policies:
            self.workspace.capture_package(policies=configuration.policies)
        else:
            self.workspace.capture(configuration.form, configuration.capture_flags())
        self.file = self.workspace.folder / "config.yaml"
        self.file.write_text(configuration.yaml())
        self.run = self.workspace.oracle_run(
            steps=STEPS, init=str(self.workspace.weights), **configuration.oracle_options()
        )

    def plan(self, layout, schedule="fsdp2"):
        c = self.configuration
        more = c.options() if schedule == "fsdp2" else f"{c.options()} schedule={schedule}"
        reshard = "auto" if schedule != "fsdp2" and c.reshard == "none" else c.reshard
        return self.workspace.plan(c.mesh(), reshard, layout, self.file, more)


class Generated(harness.Comparison):
    def prepare(self, configuration):
        """A configuration with its plan, or the message of its refusal."""
        prepared = Prepared(configuration)
        self.addCleanup(prepared.workspace.remove)
        try:
            prepared.planned, prepared.report = prepared.plan("per-param")
        except harness.CommandFailed as failed:
            reasons = [message for message in configuration.refusals() if message in str(failed)]
            if not reasons:
                raise
            return None, reasons[0]
        self.assertEqual(configuration.refusals(), [], "the configuration is not refused")
        return prepared, None

    def check_prepared(self, one, outcome):
        record, configuration = outcome[0], one.configuration
        self.assertLessEqual(set(record["dropped"]), configuration.may_be_dropped())
        # What is still to be reduced over replicas is added up when the next reduction begins.
        is_late = configuration.sync == "reduce_scatter"
        self.check_report(one.run, record, one.report, record["dropped"], are_reductions_mixed=is_late)
        planned = one.planned
        if configuration.layout == "flat" or configuration.schedule != "fsdp2":
            planned, _ = one.plan(configuration.layout, configuration.schedule)
        binary = one.workspace.link(planned)
        self.check_bits(one.run, outcome, *harness.train(one.workspace, binary, one.run.ranks, STEPS))

    def test_equal(self):
        numbers = range(OPTIONS.first, OPTIONS.first + OPTIONS.configurations)
        print(f"configurations {numbers[0]} to {numbers[-1]}", flush=True)
        refused = collections.Counter()
        by_ranks = collections.defaultdict(list)
        for configuration in map(Configuration, numbers):
            with self.subTest(str(configuration)):
                prepared, reason = self.prepare(configuration)
                if prepared:
                    by_ranks[configuration.ranks].append(prepared)
                else:
                    refused[reason] += 1
        for _, prepared in sorted(by_ranks.items()):
            for begin in range(0, len(prepared), BATCH):
                batch = prepared[begin : begin + BATCH]
                outcomes = oracle.execute([one.run for one in batch])
                for one, outcome in zip(batch, outcomes, strict=True):
                    with self.subTest(str(one.configuration)):
                        self.check_prepared(one, outcome)
        for reason, count in refused.items():
            print(f"refused, {count}: {reason}")
        self.assertLessEqual(refused.total(), max(2, len(numbers) / 8))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--configurations", type=int, default=20)
    parser.add_argument("--first", type=int, default=1)
    OPTIONS, rest = parser.parse_known_args()
    unittest.main(argv=sys.argv[:1] + rest)

"""The timelines of steps that --trace writes.

Usage: train_trace_test.py FOLDER, which holds tiny_train-RANKS-LAYOUT.
"""

import json
import unittest

from tiny_run import TinyRunTest

COMPUTE, GATHER, REDUCE = 2, 3, 4


class TrainTraceTest(TinyRunTest):
    def trace(self, ranks, **flags):
        path = self.path("trace.json")
        code, _, err = self.run_alone(ranks, trace=path, **flags)
        self.assertEqual((code, err), (0, []))
        with open(path) as file:
            return json.load(file)

    def slices(self, trace, track):
        found = [e for e in trace["traceEvents"] if e["ph"] == "X" and e["tid"] == track]
        return sorted(found, key=lambda e: e["ts"])

    def test_collectives_and_operators_of_one_step(self):
        """Every collective of the step is on its lane, one after another, under the name that the
        simulated step has for it; what computation waited for it is told."""
        trace = self.trace(2, steps=4)
        self.assertEqual(trace["otherData"]["costs"], "measured, step 3")
        gathers, reductions = self.slices(trace, GATHER), self.slices(trace, REDUCE)
        self.assertEqual([e["name"] for e in gathers], ["all_gather l", "all_gather root"])
        self.assertEqual([e["name"] for e in reductions],
                         ["reduce_scatter root", "reduce_scatter l"])  # fmt: skip
        for lane in (gathers, reductions):
            for slice, following in zip(lane, lane[1:]):
                self.assertLessEqual(slice["ts"] + slice["dur"], following["ts"])
            for slice in lane:
                hidden, exposed = (slice["args"][f"{part} us"] for part in ("hidden", "exposed"))
                self.assertGreaterEqual(exposed, 0)
                self.assertAlmostEqual(hidden, max(0, slice["dur"] - exposed), places=3)
        operators = [e["args"]["operator"] for e in self.slices(trace, COMPUTE)]
        self.assertIn("mm.default", operators)
        updates = [e["name"] for e in self.slices(trace, COMPUTE) if e["args"]["operator"] == "update"]
        self.assertEqual(updates, ["root", "l"])
        self.assertGreaterEqual(min(e["ts"] for e in trace["traceEvents"]), 0)

    def test_waiting_is_exposed(self):
        """Collectives that last are waited for: computation goes on behind their end."""
        path = self.path("trace.json")
        command = [self.binary(2), "--communicator", "fake", "--fake-ranks", "2", "--trace", path,
                   "--fake-gb-per-s", "1", "--fake-latency-us", "20000"]  # fmt: skip
        self.succeed(self.start(command + self.flags(steps=3)))
        with open(path) as file:
            trace = json.load(file)
        first = self.slices(trace, GATHER)[0]
        self.assertGreaterEqual(first["dur"], 20000)
        self.assertGreater(first["args"]["exposed us"], 0)
        resumed = {e["id"]: e["ts"] for e in trace["traceEvents"] if e["ph"] == "f"}
        middles = {e["id"]: e["ts"] for e in trace["traceEvents"] if e["ph"] == "s"}
        self.assertEqual(len(resumed), 4)
        for number, middle in middles.items():
            self.assertGreaterEqual(resumed[number] - middle, 10000)

    def test_no_number_changes(self):
        logs = []
        for flags in ({}, {"trace": self.path("trace.json"), "trace_step": 2}):
            log = self.path("log")
            code, _, err = self.run_alone(2, steps=5, log=log, **flags)
            self.assertEqual((code, err), (0, []))
            with open(log) as file:
                logs.append([json.loads(line)["loss_hex"] for line in file])
        self.assertEqual(*logs)

    def test_with_lag(self):
        trace = self.trace(2, steps=6, loss_lag=3, trace_step=4)
        self.assertEqual(trace["otherData"]["costs"], "measured, step 4")
        self.assertEqual(len(self.slices(trace, GATHER)), 2)

    def test_several_steps(self):
        """Each step is a process; with a lag the next one is issued before the results arrive."""
        for flags in ({}, {"loss_lag": 2}):
            trace = self.trace(2, steps=6, trace_step=3, trace_count=3, **flags)
            self.assertEqual(trace["otherData"]["costs"], "measured, 3 steps from 3 to 5")
            names = {e["pid"]: e["args"]["name"] for e in trace["traceEvents"] if e["name"] == "process_name"}
            self.assertEqual([name.split(", ")[-1] for _, name in sorted(names.items())],
                             ["step 3", "step 4", "step 5"])  # fmt: skip
            entries = {}
            for event in self.slices(trace, COMPUTE):
                entries.setdefault(event["pid"], []).append(event["args"]["entry"])
            self.assertEqual(set(entries), set(names))
            for own in entries.values():
                self.assertEqual(len(own), len(set(own)))
                self.assertEqual(own, sorted(own))

    def test_refusals(self):
        path = self.path("trace.json")
        for flags, word in (
            (dict(trace=path, steps=1), "the first step also measures temporaries"),
            (dict(trace=path, steps=4, trace_step=5), "--trace-step 5 of a run of 4 steps"),
            (dict(trace=self.path("no/trace.json"), steps=3), "cannot be written"),
            (dict(trace=path, steps=6, trace_count=5), "--trace-count 5: from step 3 on the run has 4 steps"),
            (dict(trace=path, steps=6, trace_count=0), "--trace-count 0: expected 1 or more"),
            (dict(steps=6, trace_count=2), "--trace-count 2 is for --trace FILE.json"),
        ):
            self.assert_one_error(self.run_alone(1, **flags), "--trace", word)


if __name__ == "__main__":
    unittest.main()

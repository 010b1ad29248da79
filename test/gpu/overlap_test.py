"""What tools/benchmarks/gpu/overlap.py counts as hidden, on timelines written by hand."""

import json
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "benchmarks" / "gpu"))

import overlap  # noqa: E402

GATHER, REDUCE = 3, 4


def collective(name, track, begin, duration, exposed):
    return {"ph": "X", "name": name, "pid": 0, "tid": track, "ts": begin, "dur": duration,
            "args": {"part": "forward", "hidden us": max(0, duration - exposed),
                     "exposed us": exposed}}  # fmt: skip


class OverlapTest(unittest.TestCase):
    def compare(self, predicted, measured):
        with tempfile.TemporaryDirectory() as folder:
            paths = [pathlib.Path(folder) / name for name in ("predicted", "measured")]
            for path, slices in zip(paths, (predicted, measured)):
                # A slice of computation, which is none of the communication.
                compute = {"ph": "X", "name": "mm", "pid": 0, "tid": 2, "ts": 0, "dur": 500}
                path.write_text(json.dumps({"traceEvents": [compute, *slices]}))
            return overlap.compare(*paths)

    def test_exposed_where_it_should_be_hidden(self):
        """Of two collectives that the schedule hides wholly, one is waited for half of its time."""
        predicted = [collective("a", GATHER, 0, 10, 0), collective("b", REDUCE, 20, 10, 0)]
        measured = [collective("a", GATHER, 5, 100, 50), collective("b", REDUCE, 200, 100, 0)]
        figures = self.compare(predicted, measured)
        self.assertEqual(figures["hidden_of_hideable"], 0.75)
        self.assertEqual(figures["exposed_us"], 50)
        self.assertEqual([row["collective"] for row in figures["worst"]], ["a"])

    def test_what_the_schedule_exposes_does_not_count(self):
        """The first gather is exposed in the schedule already; more hidden than that is no credit."""
        predicted = [collective("a", GATHER, 0, 10, 10), collective("b", GATHER, 10, 10, 5)]
        measured = [collective("a", GATHER, 0, 40, 40), collective("b", GATHER, 40, 40, 0)]
        self.assertEqual(self.compare(predicted, measured)["hidden_of_hideable"], 1.0)

    def test_order_is_that_of_time(self):
        predicted = [collective("b", GATHER, 20, 10, 0), collective("a", GATHER, 0, 10, 10)]
        measured = [collective("a", GATHER, 0, 10, 10), collective("b", GATHER, 11, 10, 10)]
        self.assertEqual(self.compare(predicted, measured)["hidden_of_hideable"], 0.0)

    def test_another_schedule_is_refused(self):
        predicted = [collective("a", GATHER, 0, 10, 0), collective("b", GATHER, 10, 10, 0)]
        for measured in (predicted[:1], [predicted[0], collective("c", GATHER, 10, 10, 0)]):
            with self.assertRaisesRegex(overlap.Mismatch, "slice 2 on the gather track is b"):
                self.compare(predicted, measured)


if __name__ == "__main__":
    unittest.main()

"""How tools/benchmarks/gpu/operators.py pairs measured with predicted slices, on timelines written by hand."""

import json
import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "benchmarks" / "gpu"))

import operators  # noqa: E402
import overlap  # noqa: E402

COMPUTE, GATHER = 2, 3


def slice_of(operator, begin, duration, size=None):
    arguments = {"operator": operator} | ({"bytes": size} if size else {})
    return {"ph": "X", "name": "layers.0", "pid": 0, "tid": COMPUTE, "ts": begin, "dur": duration,
            "args": arguments}  # fmt: skip


GATHERED = {"ph": "X", "name": "all_gather a", "pid": 0, "tid": GATHER, "ts": 40, "dur": 10, "args": {}}


class OperatorsTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)

    def write(self, name, slices):
        path = pathlib.Path(self.folder.name) / name
        path.write_text(json.dumps({"traceEvents": slices}))
        return path

    def test_rows(self):
        """Kernels have one name in both; operators of different sizes have rows of their own; what is not
        predicted is measured alone."""
        predicted = self.write("predicted", [slice_of("kernel fused_a", 0, 10), slice_of("mm", 10, 5), GATHERED,
                                             slice_of("mm", 15, 5), slice_of("update", 20, 1)])  # fmt: skip
        measured = self.write("measured", [slice_of("mm", 30, 2, 100), slice_of("fused_a", 0, 20, 1000), GATHERED,
                                           slice_of("mm", 20, 8, 400), slice_of("update", 50, 1),
                                           slice_of("zeroing of 8 bytes", 18, 0.5)])  # fmt: skip
        rows = operators.compare(predicted, measured)
        self.assertEqual([(row["operator"], row["bytes_per_call"], row["calls"]) for row in rows],
                         [("fused_a", 1000, 1), ("mm", 400, 1), ("mm", 100, 1), ("update", None, 1),
                          ("zeroing of 8 bytes", None, 1)])
        self.assertEqual([row["measured_ms"] for row in rows], [0.02, 0.008, 0.002, 0.001, 0.0005])
        self.assertEqual([row["predicted_ms"] for row in rows], [0.01, 0.005, 0.005, 0.001, 0])
        self.assertAlmostEqual(rows[0]["gb_per_s"], 0.05)
        self.assertNotIn("gb_per_s", rows[3])
        self.assertEqual(operators.predicted_ms(predicted), 0.05)

    def test_another_schedule_is_refused(self):
        predicted = self.write("predicted", [slice_of("mm", 0, 1), slice_of("kernel fused_a", 1, 1)])
        for slices in ([slice_of("mm", 0, 1)], [slice_of("mm", 0, 1), slice_of("fused_b", 1, 1)]):
            with self.assertRaisesRegex(overlap.Mismatch, "slice 2 on the compute track is fused_a in"):
                operators.compare(predicted, self.write("measured", slices))


if __name__ == "__main__":
    unittest.main()

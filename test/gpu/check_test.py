"""The checks of tools/gpu-check.sh, run on a CPU with tiny steps: every part ends with figures.

Usage: check_test.py BUILD, a build folder with the compiler's tools and the runtime.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(sys.argv.pop(1))


def run(*command):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True,
                          env={**os.environ, "OMP_NUM_THREADS": "1"})  # fmt: skip


class CheckTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.cases = pathlib.Path(cls.folder.name) / "cases"
        made = run(sys.executable, ROOT / "tools/benchmarks/gpu/make_cases.py", "--tools",
                   BUILD / "bin", "--out", cls.cases, "--size", "tiny")  # fmt: skip
        assert made.returncode == 0, made.stderr

    def check(self, *flags):
        out = pathlib.Path(self.folder.name) / "out"
        process = run(sys.executable, ROOT / "tools/benchmarks/gpu/check.py", "--cases", self.cases,
                      "--build", BUILD, "--out", out, "--device", "cpu", *flags)  # fmt: skip
        return process, out / "figures.json"

    def test_all_parts_give_figures(self):
        """In three calls, of which the last one needs what the second has measured. Speed is of no worth on a
        CPU, but the numbers of training are the same as anywhere."""
        stages = {}
        for stage in ("contact", "numbers", "baselines"):
            process, path = self.check("--only", stage)
            self.assertTrue(path.exists(), process.stderr)
            figures = stages[stage] = json.loads(path.read_text())
            for claim in figures["claims"]:
                self.assertIsNotNone(claim["value"], claim)
            holds = all(claim["holds"] for claim in figures["claims"])
            self.assertEqual(process.returncode, 0 if holds else 1)
        by_name = {claim["claim"]: claim for figures in stages.values() for claim in figures["claims"]}
        self.assertIn("large-auto: step time / FSDP2's", by_name)
        self.assertEqual(by_name["first steps that fail, are no graph or have other losses"]["value"], 0)
        self.assertEqual(len(stages["contact"]["ladder"]), 12)
        curves = stages["numbers"]["curve"]
        self.assertEqual(curves["curve"]["largest_difference"], 0)
        # Generated kernels round less often.
        self.assertGreater(curves["curve-fused"]["largest_difference"], 0)
        self.assertTrue(by_name["curve-fused: first losses beside torch eager's"]["holds"])
        self.assertTrue(by_name["curve-fused: distance from eager / torch's own spread"]["holds"])
        self.assertTrue(by_name["bytes copied between FSDP's buffers per step"]["holds"])
        kernels = stages["baselines"]["overlapped"]["large-fused"]["operators"]
        self.assertTrue(any(row["operator"].startswith("fused_") for row in kernels), kernels)
        for name in ("dropout", "dropout-8"):
            self.assertEqual(stages["numbers"]["replay"][name]["different_steps"], [])

    def test_a_rung_that_fails_leaves_the_others(self):
        """The weights of one model have other sizes: its rungs fail twice each, with the reason, and the others stand."""
        cases = pathlib.Path(self.folder.name) / "other-weights"
        shutil.copytree(self.cases, cases)
        manifest = json.loads((cases / "manifest.json").read_text())
        for case in manifest["cases"]:
            if case["name"] == "mlp":
                case["model"]["dim"] = 128  # other weights than the step has
        (cases / "manifest.json").write_text(json.dumps(manifest))
        process, path = self.check("--cases", cases, "--only", "ladder", "--out", pathlib.Path(self.folder.name) / "rungs")
        self.assertEqual(process.returncode, 1)
        ladder = json.loads((path.parent.parent / "rungs/figures.json").read_text())["ladder"]
        for name, rung in ladder.items():
            self.assertEqual("error" in rung, name.startswith("mlp"), rung)
            self.assertEqual("error" in rung.get("blocking", {}), name.startswith("mlp"), rung)

    def test_a_failed_part_leaves_the_others(self):
        """FSDP2's side fails: claims that need it say why they are not measured, others are."""
        cases = pathlib.Path(self.folder.name) / "broken"
        shutil.copytree(self.cases, cases)
        manifest = json.loads((cases / "manifest.json").read_text())
        manifest["gb_per_s"] = "fast"
        (cases / "manifest.json").write_text(json.dumps(manifest))
        process, path = self.check("--cases", cases, "--only", "reference,curve")
        self.assertEqual(process.returncode, 1)
        figures = json.loads(path.read_text())
        claims = {claim["claim"]: claim for claim in figures["claims"]}
        self.assertIn("FSDP2 step", claims["large-auto: step time / FSDP2's"]["reason"])
        self.assertIn("NOT MEASURED: FSDP2 step", process.stdout)
        self.assertEqual(claims["curve: first losses beside torch eager's"]["value"], 0)

    def test_link_alone(self):
        process, _ = self.check("--link")
        self.assertEqual(process.returncode, 0, process.stderr)
        names = [line.split()[0] for line in process.stdout.splitlines()]
        manifest = json.loads((self.cases / "manifest.json").read_text())
        self.assertEqual(names, [case["name"] for case in manifest["cases"]])

    def test_cases_for_another_device_are_refused(self):
        process, _ = self.check("--device", "cuda")
        self.assertEqual(process.returncode, 1)
        self.assertRegex(process.stderr, "^check.py: error: the cases in .* are for --device cpu")


if __name__ == "__main__":
    unittest.main()

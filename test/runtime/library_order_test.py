#!/usr/bin/env python3
"""Parts of runtime/ include only what they use: an include against the order does not compile.

    library_order_test.py BUILD
"""

import json
import pathlib
import re
import shlex
import subprocess
import sys
import unittest

RUNTIME = pathlib.Path(__file__).resolve().parents[2] / "runtime"
BUILD = pathlib.Path(sys.argv.pop(1))

# A source of each part, a header that it uses, and one of a part that it must not know.
CASES = [
    ("plan/PlanView.cpp", "plan/PlanView.h", "comm/Communicator.h"),
    ("device/CpuDevice.cpp", "device/Device.h", "comm/Communicator.h"),
    ("device/CpuDevice.cpp", "device/Device.h", "executor/OperatorRuntime.h"),
    ("comm/Store.cpp", "device/Device.h", "plan/PlanView.h"),
    ("watch/Watchdog.cpp", "plan/PlanView.h", "executor/Executor.h"),
    ("cpu/BlockedGemm.cpp", "cpu/BlockedGemm.h", "plan/PlanView.h"),
    ("executor/Staging.cpp", "watch/StepProgress.h", "train/TrainOptions.h"),
    ("backend/LoadBackend.cpp", "comm/Communicator.h", "executor/Executor.h"),
    ("checkpoint/MappedFile.cpp", "comm/Communicator.h", "executor/Executor.h"),
    ("data/SampleOrder.cpp", "checkpoint/Weights.h", "train/TrainOptions.h"),
]


class LibraryOrder(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.commands = {
            entry["file"]: entry
            for entry in json.loads((BUILD / "compile_commands.json").read_text())
        }

    def preprocess(self, source, header):
        """Preprocesses `header` as a part of `source`'s target; the compiler's messages."""
        entry = self.commands[str(RUNTIME / source)]
        words = shlex.split(entry["command"])
        flags = [word for word in words if word.startswith(("-I", "-D", "-std"))]
        flags += [f"-isystem{words[i + 1]}" for i, word in enumerate(words) if word == "-isystem"]
        compiler = next(word for word in words if re.search(r"(\+\+|cc|clang)(-[0-9]+)?$", word)
                        and "ccache" not in word)  # fmt: skip
        done = subprocess.run(
            [compiler, *flags, "-E", "-x", "c++", "-", "-o", "/dev/null"],
            input=f'#include "{header}"\n', capture_output=True, text=True, cwd=entry["directory"],
        )  # fmt: skip
        return done.stderr

    def test_order(self):
        for source, used, unknown in CASES:
            with self.subTest(source=source, header=unknown):
                self.assertEqual(self.preprocess(source, used), "")
                message = self.preprocess(source, unknown)
                self.assertRegex(message, rf"{unknown}.*(No such file|file not found)")

    def test_no_way_around(self):
        """Paths that leave a part's folder would be resolved in the source tree."""
        for file in RUNTIME.rglob("*.[hc]*"):
            if file.is_file():
                self.assertNotRegex(file.read_text(), r'#include "\.\./', file)

    def test_kernels_behind_their_interface(self):
        """Of runtime/cpu others include what chooses kernels and instructions, what updates shards, and what starts
        libraries."""
        interface = {"Capability.h", "FusedKernels.h", "KernelChoice.h", "MathLibraries.h", "VectorAdam.h", "Widen.h"}
        for file in RUNTIME.rglob("*.[hc]*"):
            if file.is_file() and file.parent != RUNTIME / "cpu":
                used = set(re.findall(r'#include "cpu/(.*)"', file.read_text()))
                self.assertLessEqual(used, interface, file)


if __name__ == "__main__":
    unittest.main()

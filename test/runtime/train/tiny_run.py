"""Starts training binaries of the tiny step (TinyTrain.cpp) as a user would."""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import unittest

import torch

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../../tools/python"))
import safetensors_io

BINARIES = sys.argv.pop(1)  # the folder that holds tiny_train-RANKS-LAYOUT
#: LD_LIBRARY_PATH for copies of these binaries: the originals find libraries relative to their own folder.
LIBRARIES = os.path.join(BINARIES, "../lib") + ":" + os.path.join(os.path.dirname(torch.__file__), "lib")
LIMIT_S = 60  # of one process: a test that needs it has failed


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def launcher_free_environment():
    names = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "TORCHELASTIC", "OMPI_", "PMI_", "SLURM_")
    return {k: v for k, v in os.environ.items() if not k.startswith(names + ("OMP_",))}


class TinyRunTest(unittest.TestCase):
    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.folder = stack.enter_context(tempfile.TemporaryDirectory())
        self.processes = []
        stack.callback(self.end_processes)
        generator = torch.Generator().manual_seed(1)
        draw = lambda *sizes: torch.randn(*sizes, generator=generator)
        self.data = {"x": draw(40, 5), "t": draw(40, 3)}
        self.weights = {"l.w": draw(5, 3), "l.b": draw(3), "scale": draw(3)}
        self.weights["count"] = torch.zeros(())
        safetensors_io.save(self.path("data.safetensors"), self.data)
        safetensors_io.save(self.path("init.safetensors"), self.weights)

    def end_processes(self):
        for process in self.processes:
            process.kill()
            process.communicate()

    def path(self, name):
        return os.path.join(self.folder, name)

    def binary(self, ranks, layout="Flat"):
        return os.path.join(BINARIES, f"tiny_train-{ranks}-{layout}")

    def flags(self, **changes):
        flags = {"data": self.path("data.safetensors"), "init": self.path("init.safetensors")}
        flags.update(changes)
        result = []
        for name, value in flags.items():
            if value is not None:
                result += ["--" + name.replace("_", "-"), str(value)]
        return result

    def start(self, command, **environment):
        environment = {**launcher_free_environment(), **environment}
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )
        self.processes.append(process)
        return process

    def start_ranks(self, ranks, flags_of, layout="Flat"):
        common = {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1"}
        common["MASTER_PORT"] = str(free_port())
        return [
            self.start([self.binary(ranks, layout)] + flags_of(rank), RANK=str(rank), **common)
            for rank in range(ranks)
        ]

    def finish(self, process):
        """(exit code, standard output, lines on standard error)"""
        out, err = process.communicate(timeout=LIMIT_S)
        return process.returncode, out, err.splitlines()

    def run_alone(self, ranks, layout="Flat", **flags):
        command = [self.binary(ranks, layout), "--ranks", str(ranks)] + self.flags(**flags)
        return self.finish(self.start(command))

    def succeed(self, process):
        code, out, err = self.finish(process)
        self.assertEqual((code, err), (0, []), out)
        return out

    def assert_one_error(self, result, *words):
        code, _, err = result
        self.assertEqual((code, len(err)), (1, 1), err)
        self.assertTrue(err[0].startswith("error: "), err)
        for word in words:
            self.assertIn(word, err[0])

    def assert_silent_failure(self, result):
        code, _, err = result
        self.assertEqual((code, err), (1, []))

#!/usr/bin/env python3
"""How a training run starts, and how it ends when a rank dies."""

import fcntl
import os
import pathlib
import pty
import re
import shutil
import signal
import struct
import subprocess
import sys
import termios
import unittest

import harness
from oracle import models

CONFIG = models.Config("llama", dim=32, layers=2, seq=16, batch=2)


def shared_memory():
    return set(os.listdir("/dev/shm"))


class Processes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.workspace = harness.Workspace(CONFIG)
        cls.addClassCleanup(cls.workspace.remove)
        cls.workspace.capture()
        cls.binary = cls.workspace.compile(2)

    def arguments(self, name, steps, extra=()):
        folder = self.workspace.folder
        log, save = folder / f"{name}.jsonl", folder / f"{name}.safetensors"
        return harness.training_arguments(self.workspace, log, save, steps, extra)

    def test_torchrun(self):
        """torchrun starts the binary and is its rendezvous; so does a plain environment."""
        # Without the -- torchrun takes --log for an abbreviation of its own --log-dir.
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--no-python",
                    "--nproc-per-node", 2, "--"]  # fmt: skip
        harness.run([*torchrun, self.binary, *self.arguments("torchrun", 3)])
        plain = harness.finish(harness.start_ranks(self.binary, 2, self.arguments("plain", 3)))
        self.assertEqual([status for status, _ in plain], [0, 0], plain)
        by_torchrun, by_environment = (
            [line["loss_hex"] for line in harness.read_log(self.workspace.folder / f"{name}.jsonl")]
            for name in ("torchrun", "plain")
        )
        self.assertEqual(len(by_torchrun), 3)
        self.assertEqual(by_torchrun, by_environment)

    def test_a_bar_while_large_files_are_read(self):
        """On a terminal alone: weights of 67 MB, and the checkpoint of them."""
        large = harness.Workspace(models.Config("mlp", dim=1450, layers=1, batch=1), harness.SGD, 2)
        self.addCleanup(large.remove)
        large.capture()
        binary = large.compile(1)
        run = ["--checkpoint-dir", large.folder / "run", "--save-every", 1, "--steps", 1]
        for flags, text in ((["--init", large.weights], r"\[\.*\] reading weights: \d+ of 64 MiB"),
                            (["--resume"], r"\[\.*\] reading and verifying .*step-")):  # fmt: skip
            controller, terminal = pty.openpty()
            # Wide enough for the path.
            fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 400, 0, 0))
            command = [binary, "--ranks", 1, "--data", large.data, *run, *flags]
            process = subprocess.Popen(list(map(str, command)), stdout=terminal)
            os.close(terminal)
            shown = b""
            try:
                while chunk := os.read(controller, 4096):
                    shown += chunk
            except OSError:  # the process has ended
                pass
            os.close(controller)
            self.assertEqual(process.wait(timeout=harness.TIMEOUT_SECONDS), 0)
            self.assertRegex(shown.decode(), text)
            # Gone before the next line.
            self.assertNotIn("reading", "".join(
                line.split("\x1b[K")[-1] for line in shown.decode().split("\r\n")))  # fmt: skip
        plain = harness.run([binary, "--ranks", 1, "--data", large.data, "--init", large.weights,
                             "--steps", 1])  # fmt: skip
        self.assertNotIn("reading", plain.stdout)

    def libraries(self, file):
        """What the loader finds for `file`, by name."""
        listed = subprocess.run(["ldd", file], check=True, capture_output=True, text=True).stdout
        return dict(re.findall(r"^\s*(\S+) => (/\S+)", listed, re.MULTILINE))

    def test_moved(self):
        """A binary runs with its libraries in another folder, and takes nothing from the build."""
        build = pathlib.Path(os.environ["FSDP_TOOLS"]).parent
        fresh = self.workspace.folder / "fresh"
        (fresh / "lib").mkdir(parents=True)
        moved = fresh / "train"
        shutil.copy(self.binary, moved)
        runtime = build / "lib" / "libfsdp_runtime.so"
        shutil.copy(runtime, fresh / "lib")
        system = ("/lib/", "/lib64/", "/usr/lib/")
        for name, path in self.libraries(runtime).items():
            if not path.startswith(system):
                (fresh / "lib" / name).symlink_to(path)
        for name, path in self.libraries(moved).items():
            self.assertTrue(path.startswith((*system, str(fresh))), f"{name} => {path}")
        for file in (moved, fresh / "lib" / runtime.name):
            dynamic = subprocess.run(["readelf", "-d", file], check=True, capture_output=True,
                                     text=True).stdout  # fmt: skip
            (folders,) = re.findall(r"R(?:UN)?PATH\).*\[(.*)\]", dynamic)
            for folder in folders.split(":"):
                self.assertTrue(folder.startswith("$ORIGIN"), f"{file}: {folders}")
        here = harness.finish(harness.start_ranks(self.binary, 2, self.arguments("here", 2)))
        there = harness.finish(harness.start_ranks(moved, 2, self.arguments("there", 2)))
        self.assertEqual([status for status, _ in here + there], [0] * 4, here + there)
        logs = [harness.read_log(self.workspace.folder / f"{name}.jsonl")
                for name in ("here", "there")]  # fmt: skip
        self.assertEqual(*([line["loss_hex"] for line in log] for log in logs))

    def kill(self, communicator, victim):
        """Kills a rank once steps are running; the other must fail soon, and say why."""
        before = shared_memory()
        log = self.workspace.folder / f"killed-{communicator}-{victim}.jsonl"
        os.mkfifo(log)  # reading it follows the run step by step
        arguments = ["--communicator", communicator, "--timeout", 10, "--data",
                     self.workspace.data, "--init", self.workspace.weights, "--steps", 1000000,
                     "--log", log]  # fmt: skip
        processes = harness.start_ranks(self.binary, 2, arguments)
        self.addCleanup(lambda: [process.kill() for process in processes])
        with open(log) as lines:
            for _ in range(3):
                self.assertTrue(lines.readline(), "the run ended before its third step")
            processes[victim].send_signal(signal.SIGKILL)
            ends = harness.finish(processes, timeout=60)
        status, output = ends[1 - victim]
        self.assertGreater(status, 0, f"the surviving rank: {output}")
        # gloo knows connections, not whose they are.
        reason = rf"rank {victim}\b" if communicator == "shm" else "by peer"
        self.assertRegex(output, f"error: .*{reason}")
        self.assertEqual(shared_memory() - before, set(), "shared memory left behind")

    def test_killed_rank_shm(self):
        for victim in (0, 1):
            with self.subTest(victim=victim):
                self.kill("shm", victim)

    def test_killed_rank_gloo(self):
        self.kill("gloo", 1)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""How a training run starts, and how it ends when a rank is lost."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import unittest

import harness
from oracle import ROOT, models

sys.path.append(str(ROOT / "test"))
from terminal import run_on_terminal  # noqa: E402

CONFIG = models.Config("llama", dim=32, layers=2, seq=16, batch=2)

#: What a rank was doing when another was lost: a collective of a group, or the exchange of losses.
GROUP = r'(?:all_gather|reduce_scatter) of group "[\w.]*"(?: \([^()]*:\d+\))? in (?:forward|backward)'
COLLECTIVE = rf"(?:{GROUP}|all_gather of \d+ bytes on the control lane)"
#: The same, said by the watchdog if it was the first to know.
ENTRY = rf"{GROUP} \(entry \d+ of \d+\)"
UNDER_WAY = rf"; (?:under way: {ENTRY}(?: and {ENTRY})*|no collective was under way)"
#: What ranks of gloo know of one that is lost; True: it serves the rendezvous.
SILENT = {False: "it does not answer", True: "the rendezvous that it serves does not answer"}


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
        # torchrun leaves a folder of logs, which the workspace removes.
        temporary = {"TMPDIR": str(self.workspace.folder)}
        harness.run([*torchrun, self.binary, *self.arguments("torchrun", 3)], temporary)
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
            command = [binary, "--ranks", 1, "--data", large.data, *run, *flags]
            # Wide enough for the path.
            status, shown = run_on_terminal(
                command, harness.TIMEOUT_SECONDS, 400, harness.clean_environment()
            )
            self.assertEqual(status, 0, shown)
            self.assertRegex(shown, text)
            # What is left of each line does not show the bar.
            left = [line.split("\x1b[K")[-1] for line in shown.split("\r\n")]
            self.assertTrue(any(line.startswith("done: ") for line in left), left)
            self.assertNotIn("reading", "".join(left))
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
        libraries = self.libraries(moved)
        self.assertEqual(libraries[runtime.name], str(fresh / "lib" / runtime.name))
        for name, path in libraries.items():
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

    def lose(self, binary, communicator, victim, sent):
        """Sends a signal to one of three ranks once steps are running: each of the others ends with
        one sentence, which names that rank, the collective and, if the deadline passed, the wait."""
        before = shared_memory()
        log = self.workspace.folder / f"{communicator}-{victim}-{sent.name}.jsonl"
        os.mkfifo(log)  # reading it follows the run step by step
        deadline = 10 if sent == signal.SIGSTOP else 60
        arguments = ["--communicator", communicator, "--timeout", deadline, "--data",
                     self.workspace.data, "--init", self.workspace.weights, "--steps", 1000000,
                     "--log", log]  # fmt: skip
        processes = harness.start_ranks(binary, 3, arguments)
        self.addCleanup(lambda: [process.kill() for process in processes])
        lost = processes[victim]
        with open(log) as lines:
            for _ in range(3):
                self.assertTrue(lines.readline(), "the run ended before its third step")
            lost.send_signal(sent)
            others = [rank for rank in range(3) if rank != victim]
            ends = harness.finish([processes[rank] for rank in others], timeout=60)
            lost.kill()
            lost.communicate()
        for rank, (status, output) in zip(others, ends):
            self.assertGreater(status, 0, f"rank {rank}: {output}")
            (error,) = [line for line in output.splitlines() if "error" in line]
            either = "[{}{}]".format(*others)
            wait = rf"; rank {either} has waited (\S+) s, the deadline is {deadline} s"
            reason = {
                ("shm", signal.SIGKILL): rf"rank {victim} \(pid {lost.pid}\) died",
                ("shm", signal.SIGSTOP): rf"rank {victim} \(pid {lost.pid}\) is stopped{wait}",
                ("gloo", signal.SIGKILL): rf"rank {victim} is lost: {SILENT[victim == 0]}",
                ("gloo", signal.SIGSTOP): rf"rank {victim} is lost: {SILENT[victim == 0]}{wait}",
            }[communicator, sent]
            speaker = rf"\[rank {rank}\] " if rank else ""
            match = re.fullmatch(rf"error: {speaker}(?:{COLLECTIVE}: {reason}|{reason}{UNDER_WAY})", error)
            self.assertTrue(match, error)
            if sent == signal.SIGSTOP:
                waited = next(text for text in match.groups() if text)
                self.assertGreaterEqual(float(waited), deadline)
            self.assertNotIn(".cc", output)
        self.assertEqual(shared_memory() - before, set(), "shared memory left behind")

    def test_lost_rank(self):
        binary = self.workspace.compile(3)
        for communicator in ("shm", "gloo"):
            for sent in (signal.SIGKILL, signal.SIGSTOP):
                for victim in (0, 1):
                    with self.subTest(communicator=communicator, sent=sent.name, victim=victim):
                        self.lose(binary, communicator, victim, sent)


if __name__ == "__main__":
    unittest.main()

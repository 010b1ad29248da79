#!/usr/bin/env python3
"""One binary for several meshes: with each number of ranks it is the binary that is compiled for these
alone, and a run goes on by itself when a launcher starts it again with fewer, more or as many ranks."""

import datetime
import fcntl
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import unittest

import torch.distributed as dist

import harness
from oracle import models, safetensors_io

CONFIG = models.Config("llama", dim=32, layers=2, seq=16, batch=2)
STEPS = 4
LIMIT_S = 90
#: On each number of ranks the largest dimension that these divide.
COLUMNS = ["--layout", "per-param", "--shard-placement", "largest"]


class Elastic(harness.Case):
    def setUp(self):
        self.workspace = harness.Workspace(CONFIG, samples=64)
        self.addCleanup(self.workspace.remove)
        self.folder = self.workspace.folder
        self.model = self.folder / "model.pt"
        harness.export.export(CONFIG, "script", str(self.model))

    def compile(self, name, *flags):
        harness.run([harness.TOOLS / "fsdpc", self.model, *models.input_flags(CONFIG),
                     *self.workspace.optimizer.flags(), "--weights", self.workspace.weights, *flags,
                     "-o", self.folder / name])  # fmt: skip
        return self.folder / name

    def meshes(self, name, *meshes, flags=()):
        return self.compile(name, *(word for mesh in meshes for word in ("--mesh", mesh)), *flags)

    def test_each_mesh_is_as_if_it_were_alone(self):
        meshes = {4: "replicate=2,shard=2", 2: "dp=2", 1: "dp=1"}
        flags = ["--eval-model", self.model, *COLUMNS]
        binary = self.meshes("all", *meshes.values(), flags=flags)
        evaluate = ["--eval-data", self.workspace.data, "--eval-every", 2]
        described = harness.run([binary, "--describe"]).stdout
        for ranks, mesh in meshes.items():
            alone = self.meshes(f"alone{ranks}", mesh, flags=flags)
            self.assertIn(harness.run([alone, "--describe"]).stdout, described)
            communicators = ("local", "shm", "gloo") if ranks == 2 else ("local",)
            losses, weights = self.train(alone, ranks, evaluate)
            # Those of the steps, and of the evaluations behind steps 2 and 4.
            self.assertEqual([len(line) for line in losses], [ranks] * (STEPS + STEPS // 2))
            for communicator in communicators:
                with self.subTest(mesh=mesh, communicator=communicator):
                    others, final = self.train(binary, ranks, evaluate, communicator)
                    self.assertEqual(others, losses)
                    self.assertIsNone(harness.bitwise_difference(weights, final))
        # Started by no launcher and without --ranks, the binary is the one of a single rank, as the last one.
        save = self.folder / "alone.safetensors"
        harness.run([binary, "--data", self.workspace.data, "--init", self.workspace.weights,
                     "--steps", STEPS, "--save", save])  # fmt: skip
        self.assertIsNone(harness.bitwise_difference(weights, safetensors_io.load(save)))

    def train(self, binary, ranks, evaluate, communicator="local"):
        """The losses by rank, of the steps and then of the evaluations, and the weights at the end."""
        lines, weights = harness.train(self.workspace, binary, ranks, STEPS, communicator, evaluate)
        log = map(json.loads, (self.folder / "log.jsonl").read_text().splitlines())
        evaluations = [line for line in log if "eval_loss" in line]
        return [line["loss_hex"] for line in lines + evaluations], weights

    def test_other_numbers_of_ranks(self):
        binary = self.meshes("two", "dp=4", "dp=2", flags=["--save-temps", self.folder / "steps"])
        for name in ("captured", "planned", "mesh_2.sharded", "mesh_2.planned"):
            self.assertTrue((self.folder / "steps" / f"{name}.mlir").exists(), name)
        compiled = "compiled for 4 ranks (mesh dp=4), 2 ranks (mesh dp=2)"
        data = ["--data", self.workspace.data]
        refused = lambda text, *words: self.assert_fails(text, harness.run, [binary, *words])
        refused(f"--ranks 3, but this binary is {compiled}", *data, "--ranks", 3)
        refused(f"--fake-ranks 8, but this binary is {compiled}", *data, "--communicator", "fake",
                "--fake-ranks", 8)  # fmt: skip
        refused(f"{compiled}, but was started alone", *data)
        log = self.folder / "fake.jsonl"
        harness.run([binary, *data, "--communicator", "fake", "--fake-ranks", 2, "--steps", 2,
                     "--init", self.workspace.weights, "--log", log])  # fmt: skip
        self.assertEqual([line["step"] for line in harness.read_log(log)], [1, 2])
        self.assertIn("--data", harness.run([binary, "--help"]).stdout)
        environment = {"RANK": "0", "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
        self.assert_fails(f"started 3 processes, but this binary is {compiled}", harness.run,
                          [binary, *data], environment)  # fmt: skip
        self.assert_fails("--mesh dp=4 and --mesh replicate=2,shard=2 both have 4 ranks",
                          self.meshes, "same", "dp=4", "replicate=2,shard=2")  # fmt: skip

    def start_agent(self, port, *words, nodes="1:2", last_call_s=15, environment=None):
        """`last_call_s`: how long the rendezvous waits for more nodes than it needs."""
        command = [sys.executable, "-m", "torch.distributed.run", "--nnodes", nodes,
                   "--nproc-per-node", 2, "--max-restarts", 3, "--rdzv-backend", "c10d",
                   "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", "elastic", "--rdzv-conf",
                   f"last_call_timeout={last_call_s},keep_alive_interval=1,keep_alive_max_attempt=3",
                   "--no-python", *words]  # fmt: skip
        # An agent that is killed leaves its files, which the workspace removes.
        environment = {"TMPDIR": str(self.folder), **(environment or {})}
        # A group of its own: what is killed is a machine.
        with open(self.folder / "agents.txt", "a") as output:
            process = subprocess.Popen(list(map(str, command)), stdout=output, stderr=output,
                                       env={**harness.clean_environment(), **environment},
                                       start_new_session=True)  # fmt: skip
        self.addCleanup(process.wait)
        self.addCleanup(self.kill, process)
        return process

    def kill(self, agent):
        if agent.poll() is None:
            os.killpg(agent.pid, signal.SIGKILL)

    def await_rendezvous(self, port):
        """Returns when the agent that holds the rendezvous serves its store."""
        try:
            dist.TCPStore("127.0.0.1", port, is_master=False, wait_for_workers=False,
                          timeout=datetime.timedelta(seconds=LIMIT_S))  # fmt: skip
        except dist.DistError as error:
            self.fail(f"{error}\n{self.agents_said()}")

    def agents_said(self):
        return (self.folder / "agents.txt").read_text()[-3000:]

    def follow(self, pipe):
        """The lines of steps in a pipe that is open for writing, too: it has no end."""
        text = b""
        while select.select([pipe], [], [], LIMIT_S)[0]:
            *lines, text = (text + os.read(pipe, 4096)).split(b"\n")
            for line in lines:
                if b'"loss"' in line and line.endswith(b"}"):
                    yield json.loads(line)
        self.fail(self.agents_said())

    def follow_run(self, binary):
        """The steps of a run that agents will start, and the words of its command line."""
        log = self.folder / "log.fifo"
        os.mkfifo(log)  # reading it follows the run step by step
        pipe = os.open(log, os.O_RDWR)
        self.addCleanup(os.close, pipe)
        # The run cannot get so far ahead that a checkpoint which is compared is removed.
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 4096)
        words = [binary, "--data", self.workspace.data, "--init", self.workspace.weights, "--steps",
                 1000000, "--timeout", 20, "--log-file", log, "--checkpoint-dir", self.folder / "run",
                 "--save-every", 5, "--keep", 30, "--shuffle", "--seed", 3, "--resume", "--quiet"]  # fmt: skip
        return self.follow(pipe), words

    def check_continuation(self, binary, steps, line, reached, before):
        """The run, which had come to step `reached`, went on with `line` from a checkpoint of `before`
        ranks, as a run of its number of ranks does that resumes from it."""
        ranks, first = len(line["loss_hex"]), line["step"] - 1
        after = [line] + [next(steps) for _ in range(2)]
        # A save waits for the one before: all but the last that had begun when this step did are complete.
        self.assertGreaterEqual(first, (reached - 1) // 5 * 5 - 5)
        self.assertEqual(first % 5, 0)
        self.assertEqual([line["step"] for line in after], [first + 1, first + 2, first + 3])
        kept = self.folder / "run" / f"step-{first:09}"
        manifest = json.loads((kept / "checkpoint.json").read_text())
        self.assertEqual(manifest["ranks"], before)
        log = self.folder / "again.jsonl"
        # As between machines: gloo's sums of more than 2 ranks have an order of their own.
        arguments = ["--communicator", "gloo", "--data", self.workspace.data, "--resume", kept,
                     "--steps", first + 3, "--log", log]  # fmt: skip
        for status, output in harness.finish(harness.start_ranks(binary, ranks, arguments)):
            self.assertEqual(status, 0, output)
        again = harness.read_log(log)
        self.assertEqual([line["loss_hex"] for line in again], [line["loss_hex"] for line in after])

    def next_steps(self, steps, ranks, count=11):
        """So many steps of so many ranks; the last one's number."""
        for _ in range(count):
            line = next(steps)
            self.assertEqual(len(line["loss_hex"]), ranks)
        return line["step"]

    def test_a_run_goes_on_with_the_ranks_that_are_left(self):
        """Two machines with 2 ranks each, of which one is lost: from the last checkpoint."""
        binary = self.meshes("two", "dp=4", "dp=2")
        steps, words = self.follow_run(binary)
        port = harness.free_port()
        agents = [self.start_agent(port, *words)]
        self.await_rendezvous(port)  # this one holds the rendezvous
        agents.append(self.start_agent(port, *words))
        reached = self.next_steps(steps, 4)
        self.kill(agents[1])
        line = next(line for line in steps if len(line["loss_hex"]) == 2)
        self.check_continuation(binary, steps, line, reached, before=4)

    def test_a_run_goes_on_with_ranks_that_come(self):
        """One machine with 2 ranks, which another one joins: from the last checkpoint on all 4 ranks."""
        binary = self.meshes("two", "dp=4", "dp=2", flags=COLUMNS)
        steps, words = self.follow_run(binary)
        port = harness.free_port()
        # Else torchrun's agent keeps the address of the store that ended with the first rendezvous.
        apart = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        self.start_agent(port, *words, last_call_s=1, environment=apart)
        reached = self.next_steps(steps, 2)
        self.start_agent(port, *words, last_call_s=1, environment=apart)
        line = next(line for line in steps if len(line["loss_hex"]) == 4)
        self.check_continuation(binary, steps, line, reached, before=2)

    def test_a_rank_that_is_killed_is_started_again(self):
        """torchrun starts all ranks anew when one dies; no loss differs from the uninterrupted run's."""
        binary = self.meshes("one", "dp=2")
        steps, words = self.follow_run(binary)
        agent = self.start_agent(harness.free_port(), *words, nodes=1)
        seen = [next(steps) for _ in range(11)]
        os.kill(self.process_of(agent, rank=1), signal.SIGKILL)
        while seen[-1]["step"] == len(seen):
            seen.append(next(steps))
        self.check_continuation(binary, steps, seen[-1], seen[-2]["step"], before=2)
        log = self.folder / "uninterrupted.jsonl"
        harness.run([binary, "--ranks", 2, *words[1:5], "--shuffle", "--seed", 3, "--steps",
                     seen[-2]["step"], "--log", log])  # fmt: skip
        whole = {line["step"]: line["loss_hex"] for line in harness.read_log(log)}
        for line in seen:
            self.assertEqual(line["loss_hex"], whole[line["step"]], line["step"])

    def process_of(self, agent, rank):
        """The process that an agent has started for a rank."""
        for entry in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                variables = (entry / "environ").read_bytes().split(b"\0")
            except OSError:  # it has ended
                continue
            if parent == agent.pid and f"RANK={rank}".encode() in variables:
                return int(entry.name)
        self.fail(f"rank {rank} does not run")


if __name__ == "__main__":
    unittest.main()

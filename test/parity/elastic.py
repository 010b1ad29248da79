#!/usr/bin/env python3
"""One binary for several meshes: with each number of ranks it is the binary that is compiled for these
alone, and a run goes on by itself when a launcher starts it again with fewer ranks."""

import fcntl
import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
import unittest

import harness
from oracle import models, safetensors_io

CONFIG = models.Config("llama", dim=32, layers=2, seq=16, batch=2)
STEPS = 4
LIMIT_S = 90


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
        flags = ["--eval-model", self.model, "--layout", "per-param"]
        binary = self.meshes("all", *meshes.values(), flags=flags)
        evaluate = ["--eval-data", self.workspace.data, "--eval-every", 2]
        described = harness.run([binary, "--describe"]).stdout
        for ranks, mesh in meshes.items():
            alone = self.meshes(f"alone{ranks}", mesh, flags=flags)
            self.assertIn(harness.run([alone, "--describe"]).stdout, described)
            results = []
            for one in (binary, alone):
                lines, weights = harness.train(self.workspace, one, ranks, STEPS, extra=evaluate)
                log = (self.folder / "log.jsonl").read_text().splitlines()
                evaluations = [line for line in map(json.loads, log) if "eval_loss" in line]
                results.append([line["loss_hex"] for line in lines + evaluations])
                results.append(weights)
            self.assertEqual(results[0], results[2])
            self.assertIsNone(harness.bitwise_difference(results[1], results[3]))
        for communicator in ("shm", "gloo"):
            log, _ = harness.train(self.workspace, binary, 2, STEPS, communicator)
            self.assertEqual(len(log[0]["loss_hex"]), 2)
        _, final = harness.train(self.workspace, binary, 1, STEPS)
        # Alone it is the one rank's.
        save = self.folder / "alone.safetensors"
        harness.run([binary, "--data", self.workspace.data, "--init", self.workspace.weights,
                     "--steps", STEPS, "--save", save])  # fmt: skip
        self.assertIsNone(harness.bitwise_difference(final, safetensors_io.load(save)))

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
        harness.run([binary, *data, "--communicator", "fake", "--fake-ranks", 2, "--steps", 2,
                     "--init", self.workspace.weights])  # fmt: skip
        self.assertIn("--data", harness.run([binary, "--help"]).stdout)
        environment = {"RANK": "0", "WORLD_SIZE": "3", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
        self.assert_fails(f"started 3 processes, but this binary is {compiled}", harness.run,
                          [binary, *data], environment)  # fmt: skip
        self.assert_fails("--mesh dp=4 and --mesh replicate=2,shard=2 both have 4 ranks",
                          self.meshes, "same", "dp=4", "replicate=2,shard=2")  # fmt: skip

    def start_agent(self, port, *words):
        command = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "1:2",
                   "--nproc-per-node", 2, "--max-restarts", 3, "--rdzv-backend", "c10d",
                   "--rdzv-endpoint", f"127.0.0.1:{port}", "--rdzv-id", "elastic", "--rdzv-conf",
                   "last_call_timeout=15,keep_alive_interval=1,keep_alive_max_attempt=3",
                   "--no-python", *words]  # fmt: skip
        # A group of its own: what is killed is a machine.
        with open(self.folder / "agents.txt", "a") as output:
            process = subprocess.Popen(list(map(str, command)), env=harness.clean_environment(),
                                       stdout=output, stderr=output, start_new_session=True)  # fmt: skip
        self.addCleanup(process.wait)
        self.addCleanup(self.kill, process)
        return process

    def kill(self, agent):
        if agent.poll() is None:
            os.killpg(agent.pid, signal.SIGKILL)

    def wait_for(self, port):
        """Until somebody listens there."""
        end = time.monotonic() + LIMIT_S
        while time.monotonic() < end:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
        self.fail((self.folder / "agents.txt").read_text()[-3000:])

    def follow(self, pipe):
        """The lines of steps in a pipe that is open for writing, too: it has no end."""
        text = b""
        while select.select([pipe], [], [], LIMIT_S)[0]:
            *lines, text = (text + os.read(pipe, 4096)).split(b"\n")
            for line in lines:
                if b'"loss"' in line and line.endswith(b"}"):
                    yield json.loads(line)
        self.fail((self.folder / "agents.txt").read_text()[-3000:])

    def test_a_run_goes_on_with_the_ranks_that_are_left(self):
        """Two machines with 2 ranks each, of which one is lost: from the last checkpoint."""
        binary = self.meshes("two", "dp=4", "dp=2")
        log, run = self.folder / "log.fifo", self.folder / "run"
        os.mkfifo(log)  # reading it follows the run step by step
        pipe = os.open(log, os.O_RDWR)
        self.addCleanup(os.close, pipe)
        # The run cannot get so far ahead that the checkpoint below is removed.
        fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 4096)
        port = harness.free_port()
        words = [binary, "--data", self.workspace.data, "--init", self.workspace.weights, "--steps",
                 1000000, "--timeout", 20, "--log-file", log, "--checkpoint-dir", run, "--save-every",
                 5, "--keep", 30, "--shuffle", "--seed", 3, "--resume", "--quiet"]  # fmt: skip
        steps = self.follow(pipe)
        first_with = lambda ranks: next(line for line in steps if len(line["loss_hex"]) == ranks)
        agents = [self.start_agent(port, *words)]
        self.wait_for(port)  # this one holds the rendezvous
        agents.append(self.start_agent(port, *words))
        for _ in range(8):
            wide = next(steps)
            self.assertEqual(len(wide["loss_hex"]), 4)
        self.kill(agents[1])
        line = first_with(2)
        first = line["step"] - 1
        after = [line] + [next(steps) for _ in range(2)]
        self.kill(agents[0])
        self.assertGreaterEqual(first, wide["step"] // 5 * 5)
        self.assertEqual(first % 5, 0)
        kept = run / f"step-{first:09}"
        self.assertEqual([line["step"] for line in after], [first + 1, first + 2, first + 3])
        log = self.folder / "again.jsonl"
        harness.run([binary, "--ranks", 2, "--communicator", "local", "--data", self.workspace.data,
                     "--resume", kept, "--steps", first + 3, "--log", log])  # fmt: skip
        again = harness.read_log(log)
        self.assertEqual([line["loss_hex"] for line in again], [line["loss_hex"] for line in after])
        manifest = json.loads((kept / "checkpoint.json").read_text())
        self.assertEqual(manifest["ranks"], 4)


if __name__ == "__main__":
    unittest.main()

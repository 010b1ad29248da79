"""The training binary as a user starts it: threads and processes, results, files, failures, signals.

Usage: train_binary_test.py FOLDER, which holds tiny_train-RANKS-LAYOUT (see TinyTrain.cpp).
"""

import array
import contextlib
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

import torch

BINARIES = sys.argv.pop(1)
LIMIT_S = 60  # of one process: a test that needs it has failed
BATCH = 4


def write_safetensors(path, tensors):
    header, data = {}, b""
    for name, tensor in tensors.items():
        flat = array.array("f", tensor.flatten().tolist()).tobytes()
        offsets = [len(data), len(data) + len(flat)]
        header[name] = {"dtype": "F32", "shape": list(tensor.shape), "data_offsets": offsets}
        data += flat
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def read_safetensors(path):
    with open(path, "rb") as file:
        content = file.read()
    (length,) = struct.unpack("<Q", content[:8])
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    header.pop("__metadata__", None)
    tensors = {}
    for name, entry in header.items():
        assert entry["dtype"] == "F32"
        begin, end = entry["data_offsets"]
        values = array.array("f", data[begin:end])
        tensors[name] = torch.tensor(values.tolist()).reshape(entry["shape"])
    return tensors


def read_log(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


class TinyModel(torch.nn.Module):
    """What TinyPlan.h computes."""

    def __init__(self):
        super().__init__()
        self.l = torch.nn.Module()
        self.l.w = torch.nn.Parameter(torch.zeros(5, 3))
        self.l.b = torch.nn.Parameter(torch.zeros(3))
        self.scale = torch.nn.Parameter(torch.zeros(3))
        self.tied = torch.nn.Module()
        self.tied.scale = self.scale
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x, t):
        d = (x @ self.l.w + self.l.b) * self.scale - t
        return (d * d).mean()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def launcher_free_environment():
    names = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "TORCHELASTIC", "OMPI_", "PMI_", "SLURM_")
    return {k: v for k, v in os.environ.items() if not k.startswith(names + ("OMP_",))}


class TrainBinaryTest(unittest.TestCase):
    def setUp(self):
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        self.folder = stack.enter_context(tempfile.TemporaryDirectory())
        self.processes = []
        stack.callback(self.end_processes)
        generator = torch.Generator().manual_seed(1)
        draw = lambda *sizes: torch.randn(*sizes, generator=generator)
        self.data = {"x": draw(40, 5), "t": draw(40, 3)}
        self.weights = {"l.w": draw(5, 3), "l.b": draw(3), "scale": draw(3), "count": torch.zeros(())}
        write_safetensors(self.path("data.safetensors"), self.data)
        write_safetensors(self.path("init.safetensors"), self.weights)

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

    def reference(self, ranks, steps, lr=0.01):
        """Per-step losses of every rank and the final state, by torch: gradients are averaged in rank
        order, as the collectives do."""
        model = TinyModel()
        model.load_state_dict({**self.weights, "tied.scale": self.weights["scale"]})
        optimizer = torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.0, foreach=False)
        losses = []
        for step in range(steps):
            rank_losses, sums = [], None
            for rank in range(ranks):
                begin = (step * ranks + rank) * BATCH
                rows = [(begin + i) % 40 for i in range(BATCH)]
                loss = model(self.data["x"][rows], self.data["t"][rows])
                gradients = torch.autograd.grad(loss, list(model.parameters()))
                sums = gradients if sums is None else [s + g for s, g in zip(sums, gradients)]
                rank_losses.append(loss.item())
            for parameter, total in zip(model.parameters(), sums):
                parameter.grad = total / ranks
            optimizer.step()
            model.count += 1
            losses.append(rank_losses)
        return losses, model.state_dict()

    # Results ------------------------------------------------------------------------------------

    def check_against_torch(self, ranks, layout, log, saved):
        losses, state = self.reference(ranks, 25)
        records = read_log(log)
        self.assertEqual([r["loss_hex"] for r in records], [[l.hex() for l in step] for step in losses])
        self.assertEqual([r["step"] for r in records], list(range(1, 26)))
        for record, step in zip(records, losses):
            self.assertEqual(record["loss"], sum(step) / ranks)
        tensors = read_safetensors(saved)
        self.assertEqual(sorted(tensors), sorted(state))
        for name, tensor in tensors.items():
            self.assertTrue(torch.equal(tensor, state[name]), name)
        TinyModel().load_state_dict(tensors)  # strict

    def test_threads_equal_torch(self):
        """Losses and saved parameters are torch's, bit for bit, for both layouts."""
        for ranks in (1, 2):
            for layout in ("Flat", "PerParam"):
                with self.subTest(ranks=ranks, layout=layout):
                    log, saved = self.path("log.jsonl"), self.path("saved.safetensors")
                    code, out, err = self.run_alone(ranks, layout, steps=25, log=log, save=saved)
                    self.assertEqual((code, err), (0, []))
                    self.assertIn("step  1/25", out)
                    self.assertIn("step 25/25", out)
                    self.assertIn("done: 25 steps", out)
                    self.check_against_torch(ranks, layout, log, saved)

    def test_processes_equal_torch(self):
        """So are those of two processes, through shared memory (the default on one host) and gloo."""
        for communicator in (None, "shm", "gloo"):
            with self.subTest(communicator=communicator):
                log, saved = self.path("log.jsonl"), self.path("saved.safetensors")
                flags = self.flags(steps=25, log=log, save=saved, communicator=communicator)
                ranks = self.start_ranks(2, lambda rank: flags)
                out = self.succeed(ranks[0])
                self.assertIn(f"({communicator or 'shm'})", out)
                self.assertEqual(self.succeed(ranks[1]), "")
                self.check_against_torch(2, "Flat", log, saved)

    def test_grad_norm_is_that_of_the_averaged_gradient(self):
        self.run_alone(2, log=self.path("log.jsonl"), steps=1)
        model = TinyModel()
        model.load_state_dict({**self.weights, "tied.scale": self.weights["scale"]})
        model(self.data["x"][:8], self.data["t"][:8]).backward()
        norm = torch.linalg.vector_norm(torch.cat([p.grad.flatten() for p in model.parameters()]))
        record = read_log(self.path("log.jsonl"))[0]
        self.assertAlmostEqual(record["grad_norm"], norm.item(), places=5)

    def test_saved_weights_can_be_started_from(self):
        saved = self.path("saved.safetensors")
        self.assertEqual(self.run_alone(2, steps=5, save=saved)[0], 0)
        again = self.path("again.safetensors")
        log = self.path("log.jsonl")
        # The rate 0 moves nothing, on another number of ranks and in another layout.
        code, _, err = self.run_alone(1, "PerParam", steps=1, lr=0, init=saved, save=again, log=log)
        self.assertEqual((code, err), (0, []))
        first, second = read_safetensors(saved), read_safetensors(again)
        self.assertEqual((first.pop("count"), second.pop("count")), (5, 6))
        for name, tensor in first.items():
            self.assertTrue(torch.equal(tensor, second[name]), name)

    def test_one_pass_by_default_and_schedules_in_the_log(self):
        log = self.path("log.jsonl")
        flags = dict(lr=8, lr_schedule="linear", min_lr=4, warmup_steps=2)
        self.assertEqual(self.run_alone(2, log=log, **flags)[0], 0)
        self.assertEqual([r["lr"] for r in read_log(log)], [4, 8, 8 - 4 / 3, 8 - 8 / 3, 4])

    def test_shuffle_reads_every_sample_once_a_pass(self):
        logs = []
        for seed in (1, 1, 2):
            log = self.path("log.jsonl")
            command = [self.binary(1), "--shuffle"] + self.flags(lr=0, seed=seed, log=log)
            self.succeed(self.start(command))
            logs.append([r["loss_hex"] for r in read_log(log)])
        self.assertEqual(logs[0], logs[1])
        self.assertNotEqual(logs[0], logs[2])
        mean = lambda log: sum(float.fromhex(x) for (x,) in log) / len(log)
        self.assertAlmostEqual(mean(logs[0]), mean(logs[2]), places=4)

    def test_weights_beside_the_binary_are_the_default(self):
        copy = self.path("train")
        shutil.copy(self.binary(1), copy)
        command = [copy] + self.flags(init=None, steps=1)
        result = self.finish(self.start(command))
        self.assert_one_error(result, "--init", copy + ".safetensors")
        shutil.copy(self.path("init.safetensors"), copy + ".safetensors")
        self.assertIn(copy + ".safetensors", self.succeed(self.start(command)))

    def test_quiet_prints_nothing(self):
        out = self.succeed(self.start([self.binary(1), "--quiet"] + self.flags(steps=2)))
        self.assertEqual(out, "")

    def test_describe_needs_nothing_else(self):
        out = self.succeed(self.start([self.binary(2), "--describe"]))
        self.assertIn("tiny", out)
        self.assertIn("reduce_scatter", out)

    # Failures -----------------------------------------------------------------------------------

    def test_wrong_number_of_ranks(self):
        result = self.finish(self.start([self.binary(2), "--ranks", "3"] + self.flags()))
        self.assert_one_error(result, "--ranks 3", "2 ranks")
        self.assert_one_error(self.finish(self.start([self.binary(2)] + self.flags())), "2 ranks")
        common = dict(WORLD_SIZE="3", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
        results = [
            self.finish(self.start([self.binary(2)] + self.flags(), RANK=str(rank), **common))
            for rank in range(3)
        ]
        self.assert_one_error(results[0], "3 processes", "2 ranks")
        self.assert_silent_failure(results[1])
        self.assert_silent_failure(results[2])

    def test_wrong_flag_is_said_once(self):
        ranks = self.start_ranks(2, lambda rank: self.flags(steps=0))
        self.assert_one_error(self.finish(ranks[0]), "--steps 0")
        self.assert_silent_failure(self.finish(ranks[1]))

    def test_a_bad_file_on_one_rank_ends_all(self):
        bad = {
            "init": (self.path("none.safetensors"), "none.safetensors"),
            "data": (self.path("init.safetensors"), "no tensor 'x'"),
        }
        for flag, (file, words) in bad.items():
            for communicator in ("shm", "gloo"):
                for guilty in (0, 1):
                    with self.subTest(flag=flag, communicator=communicator, guilty=guilty):
                        ranks = self.start_ranks(
                            2,
                            lambda rank: self.flags(
                                communicator=communicator, **({flag: file} if rank == guilty else {})
                            ),
                        )
                        expected = ["[rank 1]", words] if guilty else [words]
                        self.assert_one_error(self.finish(ranks[0]), *expected)
                        self.assert_silent_failure(self.finish(ranks[1]))

    def test_errors_of_threads_are_said_once(self):
        write_safetensors(self.path("short.safetensors"), {"x": torch.zeros(7, 5), "t": torch.zeros(7, 3)})
        result = self.run_alone(2, data=self.path("short.safetensors"))
        self.assert_one_error(result, "has 7 samples", "needs 8")
        result = self.run_alone(2, steps=3, warmup_steps=3)
        self.assert_one_error(result, "--warmup-steps 3", "3 steps")

    def test_outputs_are_checked_before_training(self):
        for flag in ("save", "log"):
            with self.subTest(flag=flag):
                file = self.path("none/file.safetensors")
                code, out, err = self.run_alone(2, **{flag: file})
                self.assert_one_error((code, out, err), f"--{flag} {file}")
                self.assertNotIn("step", out)

    def test_a_full_disk_ends_all_ranks(self):
        ranks = self.start_ranks(2, lambda rank: self.flags(log="/dev/full"))
        self.assert_one_error(self.finish(ranks[0]), "--log /dev/full")
        self.assert_silent_failure(self.finish(ranks[1]))

    # Peers and signals --------------------------------------------------------------------------

    def start_endless(self, ranks, as_threads=False, **flags):
        """Starts a long run and returns once its log shows a step: (processes, log reader)."""
        fifo = self.path("fifo")
        if not os.path.exists(fifo):
            os.mkfifo(fifo)
        flags = self.flags(steps=10**9, log=fifo, **flags)
        if as_threads:
            processes = [self.start([self.binary(ranks), "--ranks", str(ranks)] + flags)]
        else:
            processes = self.start_ranks(ranks, lambda rank: flags)
        # Opening blocks until the writer is there; a writer that fails first must not hang the test.
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            with contextlib.suppress(BlockingIOError):
                if b"\n" in os.read(reader, 4096):
                    break
        else:
            self.fail("no step within the limit")
        os.set_blocking(reader, True)
        return processes, reader

    def drain(self, reader):
        """Reads the rest of the log, so that its writer is never blocked; its last lines."""
        tail = b""
        while chunk := os.read(reader, 65536):
            tail = (tail + chunk)[-4096:]
        return tail.splitlines()

    def test_interrupt_stops_all_ranks_at_the_same_step(self):
        for signum in (signal.SIGINT, signal.SIGTERM):
            for as_threads in (False, True):
                with self.subTest(signum=signum, as_threads=as_threads):
                    saved = self.path("saved.safetensors")
                    processes, reader = self.start_endless(2, as_threads, save=saved)
                    processes[-1].send_signal(signum)  # the last rank alone
                    last = json.loads(self.drain(reader)[-1])
                    outputs = [self.succeed(process) for process in processes]
                    self.assertIn("stopped by a signal after", outputs[0])
                    self.assertIn("weights saved", outputs[0])
                    # The buffer counts the steps that were run.
                    self.assertEqual(read_safetensors(saved)["count"].item(), last["step"])
                    os.remove(saved)

    def wait_until_handled(self, process, signum):
        deadline = time.monotonic() + LIMIT_S
        while time.monotonic() < deadline:
            with open(f"/proc/{process.pid}/status") as file:
                fields = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
            pending = int(fields["SigPnd"], 16) | int(fields["ShdPnd"], 16)
            if not pending & 1 << (signum - 1):
                return
        self.fail("the signal stays pending")

    def test_second_interrupt_kills(self):
        processes, _ = self.start_endless(2, timeout=LIMIT_S)
        processes[1].send_signal(signal.SIGSTOP)  # now rank 0 cannot finish its step
        for _ in range(2):
            processes[0].send_signal(signal.SIGINT)
            self.wait_until_handled(processes[0], signal.SIGINT)
        code, _, _ = self.finish(processes[0])
        self.assertEqual(code, -signal.SIGINT)

    def test_a_killed_peer_ends_the_others(self):
        for communicator in ("shm", "gloo"):
            for victim in (0, 1):
                with self.subTest(communicator=communicator, victim=victim):
                    processes, reader = self.start_endless(2, communicator=communicator, timeout=20)
                    processes[victim].kill()
                    self.drain(reader)
                    self.assert_one_error(self.finish(processes[1 - victim]))

    def test_a_stalled_peer_ends_the_others_after_the_timeout(self):
        processes, reader = self.start_endless(2, timeout=1)
        processes[1].send_signal(signal.SIGSTOP)
        self.drain(reader)
        self.assert_one_error(self.finish(processes[0]))


if __name__ == "__main__":
    unittest.main()

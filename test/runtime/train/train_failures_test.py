"""Errors are one line on rank 0 and exit code 1 everywhere; signals stop all ranks together.

Usage: train_failures_test.py FOLDER, which holds tiny_train-RANKS-LAYOUT.
"""

import contextlib
import json
import os
import re
import select
import signal
import sys
import time
import unittest

import torch

from tiny_run import LIMIT_S, TinyRunTest, free_port, launcher_free_environment, safetensors_io


class TrainFailuresTest(TinyRunTest):
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
                        good = self.flags(communicator=communicator)
                        wrong = self.flags(communicator=communicator, **{flag: file})
                        ranks = self.start_ranks(2, lambda rank: wrong if rank == guilty else good)
                        expected = ["[rank 1]", words] if guilty else [words]
                        self.assert_one_error(self.finish(ranks[0]), *expected)
                        self.assert_silent_failure(self.finish(ranks[1]))

    def test_ranks_with_different_binaries(self):
        common = dict(WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
        ranks = [
            self.start([self.binary(2, layout)] + self.flags(), RANK=str(rank), **common)
            for rank, layout in enumerate(("Flat", "PerParam"))
        ]
        words = "plans differ", "all_gather of group", "on rank 0", "on rank 1"
        self.assert_one_error(self.finish(ranks[0]), *words)
        self.assert_silent_failure(self.finish(ranks[1]))

    def test_errors_of_threads_are_said_once(self):
        short = {"x": torch.zeros(7, 5), "t": torch.zeros(7, 3)}
        safetensors_io.save(self.path("short.safetensors"), short)
        result = self.run_alone(2, data=self.path("short.safetensors"))
        self.assert_one_error(result, "has 7 samples", "needs 8")
        result = self.run_alone(2, steps=3, warmup_steps=3)
        self.assert_one_error(result, "--warmup-steps 3", "3 steps")

    def test_outputs_are_checked_before_training(self):
        for flag in ("save", "log_file"):
            with self.subTest(flag=flag):
                file = self.path("none/file.safetensors")
                code, out, err = self.run_alone(2, **{flag: file})
                self.assert_one_error((code, out, err), f"--{flag.replace('_', '-')} {file}")
                self.assertNotIn("step", out)

    def test_a_full_disk_ends_all_ranks(self):
        ranks = self.start_ranks(2, lambda rank: self.flags(log="/dev/full"))
        self.assert_one_error(self.finish(ranks[0]), "--log-file /dev/full")
        self.assert_silent_failure(self.finish(ranks[1]))

    # Peers and signals --------------------------------------------------------------------------

    def endless_flags(self, **flags):
        fifo = self.path(f"fifo{len(self.processes)}")  # of a run: it holds what nobody has read
        os.mkfifo(fifo)
        return fifo, self.flags(steps=10**9, log=fifo, **flags)

    def open_log(self, fifo):
        """Opens it for reading once it shows a step."""
        # Non-blocking, so that a binary that fails before it opens its log hangs no test.
        reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        self.assertTrue(select.select([reader], [], [], LIMIT_S)[0], "no step within the limit")
        os.set_blocking(reader, True)
        return reader

    def start_endless(self, ranks, as_threads=False, **flags):
        """Starts a long run and returns once its log shows a step: (processes, log reader)."""
        fifo, flags = self.endless_flags(**flags)
        if as_threads:
            processes = [self.start([self.binary(ranks), "--ranks", str(ranks)] + flags)]
        else:
            processes = self.start_ranks(ranks, lambda rank: flags)
        return processes, self.open_log(fifo)

    def drain(self, reader):
        """Reads the rest of the log, so that its writer is never blocked; its last lines."""
        tail, deadline = b"", time.monotonic() + LIMIT_S
        while chunk := os.read(reader, 65536):
            tail = (tail + chunk)[-4096:]
            self.assertLess(time.monotonic(), deadline, "the run does not end")
        return tail.splitlines()

    def test_interrupt_stops_all_ranks_at_the_same_step(self):
        for signum, lag in ((signal.SIGINT, 0), (signal.SIGTERM, 3)):
            for as_threads in (False, True):
                with self.subTest(signum=signum, lag=lag, as_threads=as_threads):
                    saved = self.path("saved.safetensors")
                    processes, reader = self.start_endless(
                        2, as_threads, save=saved, loss_lag=lag
                    )
                    processes[-1].send_signal(signum)  # the last rank alone
                    last = json.loads(self.drain(reader)[-1])
                    outputs = [self.succeed(process) for process in processes]
                    self.assertIn("stopped by a signal after", outputs[0])
                    self.assertIn("weights saved", outputs[0])
                    # The buffer counts the steps that were run.
                    self.assertEqual(safetensors_io.load(saved)["count"].item(), last["step"])
                    os.remove(saved)

    def test_a_closed_socket_is_no_reason_to_die(self):
        processes, reader = self.start_endless(2, as_threads=False)
        processes[0].send_signal(signal.SIGPIPE)  # what a write to a dead peer's socket raises
        processes[-1].send_signal(signal.SIGINT)
        self.drain(reader)
        for process in processes:
            self.succeed(process)

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
        """Also if the peer is rank 0, which serves the store of all."""
        for communicator in ("shm", "gloo"):
            for victim in (0, 1):
                with self.subTest(communicator=communicator, victim=victim):
                    prefix = self.path(f"dump-{communicator}-{victim}")
                    processes, reader = self.start_endless(
                        2, communicator=communicator, timeout=1, failure_dump=prefix
                    )
                    processes[victim].send_signal(signal.SIGSTOP)
                    if victim != 0:  # who writes the log
                        self.drain(reader)
                    self.assert_one_error(self.finish(processes[1 - victim]))
                    with open(f"{prefix}.rank{1 - victim}.txt") as file:
                        lines = file.read().splitlines()
                    starts = "", "step ", "compute: issued ", "gather lane: ", "reduce lane: "
                    for line, start in zip(lines, starts, strict=True):
                        self.assertTrue(line.startswith(start), lines)
                    waited = re.search(rf"rank {victim} .*rank {1 - victim} has waited "
                                       r"([0-9.]+) s, the deadline is 1 s", lines[0])  # fmt: skip
                    self.assertTrue(waited, lines[0])
                    self.assertGreaterEqual(float(waited[1]), 1)
                    processes[victim].kill()

    # Launchers ----------------------------------------------------------------------------------

    AGENT = "import subprocess, sys; subprocess.run(sys.argv[2:], env=eval(sys.argv[1]))"

    def test_ranks_end_with_torchruns_agent(self):
        """The agent is killed; so are its ranks, also behind a wrapper."""
        for wrapper in ([], ["sh", "-c", '"$@"; exit $?', "wrapper"]):
            with self.subTest(wrapper=wrapper):
                environment = launcher_free_environment() | {
                    "TORCHELASTIC_RUN_ID": "run", "RANK": "0", "WORLD_SIZE": "1",
                }  # fmt: skip
                fifo, flags = self.endless_flags()
                agent = self.start(
                    [sys.executable, "-c", self.AGENT, repr(environment), *wrapper,
                     self.binary(1), *flags]
                )  # fmt: skip
                reader = self.open_log(fifo)
                agent.kill()
                self.drain(reader)  # to its end: the writer's end

    def test_a_rank_outlives_the_shell_that_started_it(self):
        """A plain environment has no launcher."""
        fifo, flags = self.endless_flags()
        place = {"RANK": "0", "WORLD_SIZE": "1"}
        shell = self.start(
            ["sh", "-c", '"$@" > /dev/null 2>&1 & echo $!', "shell", self.binary(1), *flags], **place
        )
        _, out, _ = self.finish(shell)
        self.addCleanup(lambda: os.kill(int(out), signal.SIGKILL))
        reader = self.open_log(fifo)
        for _ in range(100):
            self.assertTrue(os.read(reader, 4096))

    def test_the_store_listens_where_it_is_named(self):
        processes, _ = self.start_endless(2, communicator="gloo")
        with open(f"/proc/{processes[0].pid}/environ", "rb") as file:
            variables = dict(entry.split(b"=", 1) for entry in file.read().split(b"\0") if entry)
        port = int(variables[b"MASTER_PORT"])
        listening = []
        for table in ("tcp", "tcp6"):
            with open(f"/proc/net/{table}") as file:
                fields = [line.split() for line in list(file)[1:]]
            listening += [row[1] for row in fields if row[3] == "0A"]
        places = [place for place in listening if int(place.split(":")[1], 16) == port]
        self.assertEqual(places, [f"0100007F:{port:04X}"])

    # Data ---------------------------------------------------------------------------------------

    def test_a_fifo_is_no_data(self):
        os.mkfifo(self.path("fifo.safetensors"))
        result = self.run_alone(2, data=self.path("fifo.safetensors"))
        self.assert_one_error(result, "fifo.safetensors", "not a regular file")

    def test_data_that_is_shortened_ends_all_ranks(self):
        for communicator in ("shm", "gloo"):
            with self.subTest(communicator=communicator):
                data = self.path("short.safetensors")
                safetensors_io.save(data, self.data)
                processes, reader = self.start_endless(2, communicator=communicator, data=data)
                os.truncate(data, 0)
                self.drain(reader)
                self.assert_one_error(self.finish(processes[0]), "'" + data, "was shortened")
                self.assertEqual(self.finish(processes[1])[0], 1)

    def test_a_good_run_leaves_no_dump(self):
        code, _, err = self.run_alone(2, steps=1, failure_dump=self.path("dump"))
        self.assertEqual((code, err), (0, []))
        self.assertFalse([name for name in os.listdir(self.folder) if "dump" in name])

    def test_a_peer_that_never_comes_is_named(self):
        launchers = {
            "torchrun": ("RANK", "WORLD_SIZE"),
            "mpirun": ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
            "srun": ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"),
        }
        command = [self.binary(2)] + self.flags(connect_timeout=0.5)
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        for launcher, (rank, size) in launchers.items():
            for here, missing in ((0, 1), (1, 0)):
                with self.subTest(launcher=launcher, missing=missing):
                    process = self.start(command, **{rank: str(here), size: "2"}, **place)
                    words = f"rank {missing}", f"127.0.0.1 port {place['MASTER_PORT']}"
                    self.assert_one_error(self.finish(process), *words)


if __name__ == "__main__":
    unittest.main()

"""Checkpoints of training binaries: what a run leaves behind when it is stopped or killed at any
moment, what the next one makes of it, and what is refused.

Usage: train_checkpoints_test.py FOLDER, which holds tiny_train-RANKS-LAYOUT.
"""

import json
import os
import pathlib
import shutil
import signal
import unittest

from tiny_run import TinyRunTest, safetensors_io


def read_log(path):
    with open(path) as file:
        return [json.loads(line) for line in file]


def steps_of(log):
    return [(r["step"], r["loss_hex"], r["grad_norm"], r["lr"]) for r in log if "loss" in r]


def saves_of(log):
    return [(r["step"], r["checkpoint"]) for r in log if "checkpoint" in r]


class TrainCheckpointsTest(TinyRunTest):
    def setUp(self):
        super().setUp()
        self.run_folder = pathlib.Path(self.path("run"))

    def flags(self, *switches, **changes):
        changes.setdefault("checkpoint_dir", self.run_folder)
        return super().flags(**changes) + list(switches)

    def train(self, *switches, ranks=2, layout="Flat", **changes):
        """Exit code, output and errors of a run whose ranks are threads."""
        command = [self.binary(ranks, layout), "--ranks", str(ranks)]
        return self.finish(self.start(command + self.flags(*switches, **changes)))

    def succeeds(self, *switches, **changes):
        code, out, err = self.train(*switches, **changes)
        self.assertEqual((code, err), (0, []), out)
        return out

    def refused(self, *switches, words, **changes):
        self.assert_one_error(self.train(*switches, **changes), *map(str, words))

    def checkpoints(self):
        return sorted(path.name for path in self.run_folder.iterdir())

    def reference(self, steps):
        """The lines of the uninterrupted run."""
        log = self.path("reference.jsonl")
        self.succeeds(checkpoint_dir=None, steps=steps, log=log)
        return steps_of(read_log(log))

    # Saving -------------------------------------------------------------------------------------

    def test_saves_every_n_steps_and_the_last_and_keeps_k(self):
        out = self.succeeds(steps=10, save_every=3)
        names = [f"step-{step:09}" for step in (3, 6, 9, 10)]
        self.assertEqual(self.checkpoints(), names)
        for name in names:
            self.assertIn(f"in {self.run_folder}/{name}", out)
        shutil.rmtree(self.run_folder)
        self.succeeds(steps=10, save_every=3, keep=2)
        self.assertEqual(self.checkpoints(), names[-2:])
        shutil.rmtree(self.run_folder)
        self.succeeds(steps=10, save_every=2, keep=1, keep_every=4)
        self.assertEqual(self.checkpoints(), [f"step-{step:09}" for step in (4, 8, 10)])

    def test_copies_and_states_in_place_are_the_same_bytes(self):
        """What is written beside the steps is the state at the step's end, not what became of it."""
        log, saved = self.path("log.jsonl"), {}
        for switches in ([], ["--save-in-place"]):
            shutil.rmtree(self.run_folder, ignore_errors=True)
            out = self.succeeds(*switches, steps=20, save_every=1, log=log)
            folders = sorted(self.run_folder.iterdir())
            self.assertEqual(len(folders), 20)
            saved[len(switches)] = {
                file.relative_to(self.run_folder): file.read_bytes() for file in self.run_folder.rglob("*.*")
            }
            lines = read_log(log)
            self.assertEqual(saves_of(lines), [(i + 1, str(path)) for i, path in enumerate(folders)])
            for line in lines:
                if "checkpoint" in line:
                    self.assertLessEqual(line["exposed_ms"], line["save_ms"])
            self.assertEqual(out.count("of which steps stood still"), 20)
        self.assertEqual(saved[0], saved[1])

    def test_every_layout_resumes_every_other(self):
        reference = {ranks: {} for ranks in (1, 2)}
        for ranks in (1, 2):
            for layout in ("Flat", "PerParam"):
                shutil.rmtree(self.run_folder, ignore_errors=True)
                self.succeeds(ranks=ranks, layout=layout, steps=4, save_every=4)
                for other in ("Flat", "PerParam"):
                    save = self.path("end.safetensors")
                    self.succeeds(ranks=ranks, layout=other, steps=9, resume=self.run_folder,
                                  checkpoint_dir=None, init=None, save=save)  # fmt: skip
                    final = {n: t.tolist() for n, t in safetensors_io.load(save).items()}
                    self.assertEqual(reference[ranks] or final, final)
                    reference[ranks] = final

    def test_results_that_lag_are_in_the_log_before_the_checkpoint(self):
        expected = self.reference(7)
        log = self.path("log.jsonl")
        self.succeeds(steps=7, save_every=3, loss_lag=2, log=log)
        self.assertEqual(steps_of(read_log(log)), expected)
        shutil.rmtree(self.run_folder / "step-000000007")
        self.succeeds("--resume", save_every=3, loss_lag=2, log=log)
        lines = read_log(log)
        self.assertEqual(steps_of(lines), expected + expected[6:])
        # Behind the last line of the first run.
        [place] = [i for i, line in enumerate(lines) if "resumed" in line]
        resumed = lines[place]
        self.assertEqual(lines[place - 1]["step"], 7)
        folder = self.run_folder / "step-000000006"
        self.assertEqual((resumed["step"], resumed["resumed"]), (6, str(folder)))
        self.assertEqual(resumed["bytes"], sum(file.stat().st_size for file in folder.glob("*.safetensors")))
        self.assertGreater(resumed["load_ms"], 0)

    def test_a_disk_that_cannot_be_written_ends_all_ranks(self):
        self.run_folder.write_text("")
        ranks = self.start_ranks(2, lambda rank: self.flags(steps=5, save_every=2))
        self.assert_one_error(self.finish(ranks[0]), str(self.run_folder))
        self.assert_silent_failure(self.finish(ranks[1]))
        # Too many bytes for a file of rank 1: no checkpoint, and the one before stays.
        self.run_folder.unlink()
        self.succeeds(steps=2, save_every=2)
        limit = ["bash", "-c", 'ulimit -f 0; trap "" XFSZ; exec "$@"', "-"]
        command = limit + [self.binary(2), "--ranks", "2"]
        code, _, err = self.finish(
            self.start(command + self.flags("--resume", steps=4, save_every=2))
        )
        self.assertEqual((code, len(err)), (1, 1), err)
        self.assertIn("cannot write", err[0])
        self.assertIn("step-000000004.partial/", err[0])
        self.assertEqual(self.checkpoints(), ["step-000000002"])  # and nothing of the other
        self.succeeds("--resume", steps=4, save_every=2)
        self.assertEqual(self.checkpoints(), ["step-000000002", "step-000000004"])
        # One rank's thread fails while steps go on: all ranks hear of it.
        shutil.rmtree(self.run_folder)
        self.run_folder.mkdir()
        (self.run_folder / "step-000000004").write_text("")
        for switches in ([], ["--save-in-place"]):
            flags = self.flags(*switches, steps=10**9, save_every=4)
            ranks = self.start_ranks(2, lambda rank: flags)
            self.assert_one_error(self.finish(ranks[0]), "cannot put in place", "step-000000004")
            self.assert_silent_failure(self.finish(ranks[1]))
            self.assertEqual(self.checkpoints(), ["step-000000004"])

    # Going on -----------------------------------------------------------------------------------

    def test_flags_of_the_first_run_hold(self):
        for schedule in (dict(lr_schedule="cosine"), dict(lr_schedule="wsd"),
                         dict(lr_schedule="wsd", decay_steps=4)):  # fmt: skip
            with self.subTest(**schedule):
                shutil.rmtree(self.run_folder, ignore_errors=True)
                self.check_flags_of_the_first_run(schedule)

    def check_flags_of_the_first_run(self, schedule):
        flags = dict(lr=0.25, min_lr=0.125, warmup_steps=2, seed=3, steps=8, **schedule)
        log = self.path("log.jsonl")
        self.succeeds("--shuffle", checkpoint_dir=None, log=log, **flags)
        expected = steps_of(read_log(log))
        self.succeeds("--shuffle", save_every=5, log=log, **flags)
        shutil.rmtree(self.run_folder / "step-000000008")
        pathlib.Path(log).unlink()
        self.succeeds("--resume", log=log)
        self.assertEqual(steps_of(read_log(log)), expected[5:])
        self.assertGreater(len({lr for *_, lr in expected[5:]}), 1)
        # Those of the command line win, and it is said.
        out = self.succeeds("--resume", log=log, steps=6, seed=4, lr=0.5)
        self.assertIn("--steps: 6, the checkpoint has 8", out)
        self.assertIn("--seed: 4, the checkpoint has 3", out)
        self.assertIn("--lr: 0.5, the checkpoint has 0.25", out)
        self.assertNotIn("min-lr", out)

    def test_the_log_goes_on(self):
        expected = self.reference(6)
        log = pathlib.Path(self.path("log.jsonl"))
        self.succeeds(steps=4, save_every=2, log=log)
        # What a killed run had begun to write.
        log.write_text(log.read_text() + '{"step": 5, "lo')
        self.succeeds("--resume", steps=6, log=log)
        lines = log.read_text().splitlines()
        self.assertIn('{"step": 5, "lo', lines)
        lines.remove('{"step": 5, "lo')
        self.assertEqual(steps_of(map(json.loads, lines)), expected)
        # A run that begins anew truncates it.
        self.succeeds(checkpoint_dir=None, steps=2, log=log)
        self.assertEqual(len(read_log(log)), 2)

    def test_without_a_checkpoint_the_run_begins_anew(self):
        for _ in range(2):  # the second one has nothing left to do
            out = self.succeeds("--resume", steps=3, save_every=2)
        self.assertIn("step 3 from", out)
        self.assertIn("done: 0 steps", out)
        shutil.rmtree(self.run_folder)
        self.assertIn("the run begins anew", self.succeeds("--resume", steps=3, save_every=2))
        self.refused(resume=self.path("none"), words=["--resume", "none", "no complete checkpoint"],
                     init=None, checkpoint_dir=None)  # fmt: skip

    def test_traced_steps_count_on(self):
        self.succeeds(steps=4, save_every=4)
        trace = self.path("trace.json")
        flags = dict(checkpoint_dir=None, resume=self.run_folder, init=None, trace=trace)
        self.refused(steps=8, trace_step=5, words=["--trace-step 5", "first"], **flags)
        self.succeeds(steps=8, trace_step=6, **flags)
        self.assertTrue(json.loads(pathlib.Path(trace).read_text()))

    # What is refused ----------------------------------------------------------------------------

    def test_later_checkpoints_are_not_mixed_with_others(self):
        self.succeeds(steps=6, save_every=2)
        self.refused(steps=6, save_every=2,
                     words=["step-000000006", "earlier run", "--resume"])  # fmt: skip
        self.refused(steps=6, save_every=2, resume=self.run_folder / "step-000000004", init=None,
                     words=["step-000000006", "goes on from step 4"])  # fmt: skip
        self.refused("--resume", steps=5, words=["--steps 5", "of step 6"])

    def test_damage_is_refused_by_all_ranks(self):
        """Each rank reads a part of the bytes: what one finds, all know."""
        self.succeeds(steps=2, save_every=2)
        folder = self.run_folder / "step-000000002"
        for file in folder.glob("*.safetensors"):
            good = file.read_bytes()
            for place in (9, len(good) // 2, len(good) - 1):
                bad = bytearray(good)
                bad[place] ^= 1
                file.write_bytes(bad)
                for processes in (False, True):
                    with self.subTest(file=file.name, place=place, processes=processes):
                        if processes:
                            flags = self.flags("--resume", steps=4)
                            ranks = self.start_ranks(2, lambda rank: flags)
                            self.assert_one_error(self.finish(ranks[0]), str(file))
                            self.assert_silent_failure(self.finish(ranks[1]))
                        else:
                            self.refused("--resume", steps=4, words=[file])
            file.write_bytes(good)
        self.succeeds("--resume", steps=4)

    def test_incomplete_ones_are_never_taken(self):
        self.succeeds(steps=4, save_every=2)
        (self.run_folder / "step-000000004" / "checkpoint.json").unlink()
        self.refused("--resume", steps=4, words=["step-000000004', which is not complete", "goes on from step 2"])  # fmt: skip
        self.refused(resume=self.run_folder / "step-000000004", init=None, checkpoint_dir=None,
                     words=["step-000000004/shard-00001", "not complete"])  # fmt: skip
        (self.run_folder / "step-000000004").rename(self.run_folder / "step-000000004.partial")
        self.assertIn("step 2 from", self.succeeds("--resume", steps=4, save_every=2))
        self.assertEqual(self.checkpoints(), ["step-000000002", "step-000000004"])

    def test_other_runs_are_refused(self):
        self.succeeds(steps=2, save_every=2)
        manifest = self.run_folder / "step-000000002" / "checkpoint.json"
        good = json.loads(manifest.read_text())
        # What is changed, and nothing else, is damage.
        manifest.write_text(json.dumps({**good, "lr": 3.0}))
        self.refused("--resume", steps=4, words=[manifest, "is damaged", "CRC-32C"])
        del good["crc32c"]
        manifest.write_text(json.dumps({**good, "model": "large"}))
        self.assertIn("model 'tiny', the checkpoint is of model 'large'",
                      self.succeeds("--resume", steps=2))  # fmt: skip
        for key, value, words in (("optimizer", "sgd", ["sgd", "adamw"]),
                                  ("lr_schedule", "steps", ["lr_schedule", "'steps'"]),
                                  ("step", 30, ["step 30 of 2"])):  # fmt: skip
            manifest.write_text(json.dumps({**good, key: value}))
            self.refused("--resume", steps=4, words=[self.run_folder / "step-000000002", *words])

    def test_one_run_at_a_time_saves_to_a_folder(self):
        processes, lines = self.endless(2, save_every=1)
        with lines:
            self.assertEqual(json.loads(lines.readline())["step"], 1)
            self.refused("--resume", steps=10**9, save_every=1,
                         words=["cannot save to", self.run_folder, "another run on this host"])  # fmt: skip
            processes[0].terminate()
            for _ in lines:
                pass
        for process in processes:
            self.succeed(process)
        before = self.checkpoints()
        step = int(before[-1][5:]) + 1
        self.succeeds("--resume", steps=step, save_every=1)
        self.assertEqual(self.checkpoints(), before + [f"step-{step:09}"])

    def test_flags_that_do_not_go_together(self):
        for flags, words in (
            (dict(checkpoint_dir=None, save_every=2), ["--save-every", "--checkpoint-dir"]),
            (dict(save_every=0), ["--save-every 0"]),
            (dict(save_every=2, keep=0), ["--keep 0"]),
            (dict(save_every=2, keep_every=2), ["--keep-every 2", "--keep K"]),
            (dict(save_every=2, keep=1, keep_every=0), ["--keep-every 0"]),
            (dict(), ["--checkpoint-dir", "needs --save-every"]),
            (dict(resume=self.run_folder), ["--init", "--resume"]),
        ):
            self.refused(steps=2, words=words, **flags)
        self.refused("--save-on-exit", checkpoint_dir=None, words=["--save-on-exit"], steps=2)
        self.refused("--resume", checkpoint_dir=None, words=["--resume", "--checkpoint-dir"])
        self.refused("--resume", keep=2, words=["--keep 2", "--save-every"])
        self.refused("--resume", "--save-in-place", words=["--save-in-place", "--save-every"])

    # Stopped and killed -------------------------------------------------------------------------

    def endless(self, ranks, *switches, **changes):
        """Starts a run that saves at every step, follows its log, and returns both."""
        fifo = self.path(f"fifo{len(self.processes)}")
        os.mkfifo(fifo)
        flags = self.flags(*switches, steps=10**9, log=fifo, **changes)
        processes = self.start_ranks(ranks, lambda rank: flags)
        return processes, open(fifo)

    def test_a_signal_saves(self):
        expected = self.reference(40)
        for signum, lag in ((signal.SIGTERM, 0), (signal.SIGINT, 2)):
            with self.subTest(signum=signum):
                shutil.rmtree(self.run_folder, ignore_errors=True)
                processes, lines = self.endless(2, "--save-on-exit", loss_lag=lag)
                with lines:
                    self.assertEqual(json.loads(lines.readline())["step"], 1)
                    processes[1].send_signal(signum)
                    last = [json.loads(line)["step"] for line in lines][-1]
                out = [self.succeed(process) for process in processes][0]
                self.assertIn("stopped by a signal", out)
                self.assertEqual(self.checkpoints(), [f"step-{last:09}"])
                log = self.path(f"log{lag}.jsonl")
                self.succeeds("--resume", steps=last + 1, log=log)
                if last < 40:
                    self.assertEqual(steps_of(read_log(log)), expected[last : last + 1])

    def test_a_kill_at_any_moment_loses_no_complete_checkpoint(self):
        """All ranks, or one of them, are killed while the run saves at every step; the next run goes
        on from the last complete checkpoint, which is at most one step behind the log, or two if
        steps go on while it is written."""
        step = 0
        for attempt in range(12):
            in_place = ["--save-in-place"] if attempt % 2 else []
            processes, lines = self.endless(2, "--resume", *in_place, save_every=1, keep=2)
            with lines:
                for _ in range(1 + attempt % 4):
                    line = lines.readline()
                    self.assertTrue(line, "the run ended by itself")
                first = json.loads(line)["step"]
                victims = processes if attempt % 3 == 0 else [processes[attempt % 2]]
                for process in victims:
                    process.kill()
                seen = [json.loads(line)["step"] for line in lines if line.endswith("\n")]
            for process in processes:
                self.finish(process)
            complete = [
                int(path.parent.name[5:])
                for path in self.run_folder.glob("step-?????????/checkpoint.json")
            ]
            self.assertLessEqual(len(complete), 3)  # that beyond --keep is removed last
            last = max([first, *seen])
            # A step is in the log before it is saved, and in place it is saved before the next one
            # begins; else the step before it is.
            allowed = (last - 1, last) if in_place else (last - 2, last - 1, last)
            self.assertIn(max(complete, default=0), allowed)
            self.assertGreaterEqual(max(complete, default=0), step)
            step = max(complete, default=0)
        expected, log = self.reference(step + 2), self.path("log.jsonl")
        self.succeeds("--resume", steps=step + 2, log=log)
        self.assertEqual(steps_of(read_log(log)), expected[step:])


if __name__ == "__main__":
    unittest.main()

"""Event files are what TensorBoard's own reader reads, also of a run that was resumed.

Usage: train_tensorboard_test.py FOLDER, which holds tiny_train-RANKS-LAYOUT. Needs the package
tensorboard; without it the test is skipped (status 77).
"""

import importlib.util
import json
import struct
import sys
import unittest

if importlib.util.find_spec("tensorboard") is None:
    print("skipped: the package tensorboard is not installed")
    sys.exit(77)

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tiny_run import TinyRunTest


def as_float(value):
    return struct.unpack("f", struct.pack("f", value))[0]


class TensorBoardTest(TinyRunTest):
    def figures(self, log):
        """By tag: step and value, as TensorBoard has them and as the log has them."""
        read = EventAccumulator(self.path("board")).Reload()
        tags = read.Tags()["scalars"]
        found = {tag: [(event.step, event.value) for event in read.Scalars(tag)] for tag in tags}
        with open(log) as file:
            lines = [json.loads(line) for line in file]
        logged = {tag: [(line["step"], as_float(line[tag])) for line in lines if tag in line] for tag in tags}
        return found, logged

    def test_reads_back(self):
        log = self.path("log.jsonl")
        code, _, err = self.run_alone(2, steps=6, log_file=log, tensorboard=self.path("board"))
        self.assertEqual((code, err), (0, []))
        found, logged = self.figures(log)
        self.assertEqual(set(found), {"loss", "grad_norm", "lr", "samples_per_s"})
        self.assertEqual(found, logged)
        self.assertEqual([step for step, _ in found["loss"]], [1, 2, 3, 4, 5, 6])

    def test_a_resumed_run_overtakes_what_was_beyond_its_checkpoint(self):
        log, run = self.path("log.jsonl"), self.path("run")
        flags = dict(tensorboard=self.path("board"), checkpoint_dir=run, save_every=4, log_file=log)
        self.assertEqual(self.run_alone(2, steps=6, **flags)[0], 0)
        flags.update(checkpoint_dir=None, save_every=None, resume=run + "/step-000000004", init=None)
        self.assertEqual(self.run_alone(2, steps=9, lr=0.5, log_file=log, **{k: v for k, v in flags.items() if k != "log_file"})[0], 0)
        found, _ = self.figures(log)
        self.assertEqual([step for step, _ in found["lr"]], list(range(1, 10)))
        self.assertEqual([value for step, value in found["lr"] if step > 4], [0.5] * 5)

    def test_a_folder_that_cannot_be_made(self):
        open(self.path("file"), "w").close()
        self.assert_one_error(self.run_alone(2, steps=1, tensorboard=self.path("file/board")), "--tensorboard", "file")


if __name__ == "__main__":
    unittest.main()

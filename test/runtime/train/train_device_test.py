"""What --device, --communicator fake and their flags do on a machine without a GPU.

Usage: train_device_test.py FOLDER, which holds tiny_train-RANKS-LAYOUT.
"""

import json
import os
import shutil
import unittest

from tiny_run import BINARIES, TinyRunTest, free_port


def has_cuda_library():
    return os.path.exists(os.path.join(BINARIES, "../lib/libfsdp_cuda.so"))


def has_driver():
    return os.path.exists("/proc/driver/nvidia/version")


class TrainDeviceTest(TinyRunTest):
    def test_fake_refuses_peers(self):
        common = dict(WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
        command = [self.binary(2), "--communicator", "fake", "--fake-ranks", "2"] + self.flags()
        result = self.finish(self.start(command, RANK="0", **common))
        self.assert_one_error(result, "--communicator fake needs no peers", "2 processes")

    def test_fake_trains_alone(self):
        for model in ([], ["--fake-gb-per-s", "1", "--fake-latency-us", "10"]):
            with self.subTest(model=model):
                flags = ["--communicator", "fake", "--fake-ranks", "2", *model]
                log = self.path("log")
                command = [self.binary(2), *flags] + self.flags(steps=3, log=log)
                out = self.succeed(self.start(command))
                self.assertIn("2 ranks (fake)", out)
                with open(log) as file:
                    self.assertEqual([json.loads(line)["step"] for line in file], [1, 2, 3])

    @unittest.skipUnless(has_cuda_library(), "built without CUDA")
    @unittest.skipIf(has_driver(), "this machine has a driver")
    def test_no_driver_is_said_in_one_line(self):
        command = [self.binary(2), "--device", "cuda", "--ranks", "2"] + self.flags()
        words = ("--device cuda: no CUDA device can be used: ", "driver")
        self.assert_one_error(self.finish(self.start(command)), *words)
        # Processes of one host: the first one says it, before it waits for anybody.
        ranks = self.start_ranks(2, lambda rank: ["--device", "cuda"] + self.flags())
        self.assert_one_error(self.finish(ranks[0]), *words)
        self.assert_silent_failure(self.finish(ranks[1]))

    def test_no_library_is_said_in_one_line(self):
        # A copy of the runtime without a CUDA library beside it.
        folder = self.path("lib")
        os.mkdir(folder)
        shutil.copy(os.path.join(BINARIES, "../lib/libfsdp_runtime.so"), folder)
        command = [self.binary(2), "--device", "cuda", "--ranks", "2"] + self.flags()
        result = self.finish(self.start(command, LD_LIBRARY_PATH=folder))
        self.assert_one_error(result, "--device cuda: cannot load " + folder + "/libfsdp_cuda.so")


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""FSDP2's own bounds of memory (torch's test_fully_shard_training_memory), for a model of that size on two ranks:
what a planned step holds in forward, backward and update is not more.

torch's test runs one step, whose forward and backward go before the optimizer has any state; here the state is
there from the beginning, and is counted on both sides.
"""

import json
import re
import unittest

import harness
from oracle import models

ADAM = harness.Optimizer("adam", {"lr": 1e-2})
#: Bytes of activations and fragments that torch's test allows.
BUFFER = 16_000_000
#: Blocks of the width of torch's test, twice as many, little else, and a batch of four tokens.
CONFIG = models.Config("llama", dim=768, heads=12, layers=6, vocab=32, seq=4, batch=1)


def elements(module):
    return sum(parameter.numel() for parameter in module.parameters())


class Memory(unittest.TestCase):
    def setUp(self):
        network = models.build(CONFIG, "meta")
        self.whole, self.block = elements(network), elements(network.layers[0])
        self.outside = self.whole - sum(elements(layer) for layer in network.layers)
        self.shard = (self.whole + 1) // 2
        self.workspace = harness.Workspace(CONFIG, ADAM, samples=2)
        self.addCleanup(self.workspace.remove)
        self.workspace.capture()

    def check(self, reshard, forward, backward):
        state = 2 * self.shard
        update = 4 * self.shard  # parameters, gradients, states
        most = 4 * max(max(forward, backward) + state, update) + BUFFER
        _, report = self.workspace.plan(2, reshard)
        prediction = json.loads(report.read_text())["prediction"]
        memory = prediction["memory"]["bytes"]
        live = [sum(sample) for sample in zip(*memory.values())]
        self.assertEqual(max(live), prediction["peak_bytes"])
        begin = next(index for index, count in enumerate(memory["gradient"]) if count > 0)
        self.assertLessEqual(max(live[:begin]), 4 * (forward + state) + BUFFER)
        self.assertLessEqual(max(live[begin:]), 4 * max(backward + state, update) + BUFFER)
        for layout in ("flat", "per-param"):
            with self.subTest(layout=layout):
                planned, _ = self.workspace.plan(2, reshard, layout)
                arena = int(re.search(r"fsdp\.arena_bytes = (\d+)", planned.read_text())[1])
                self.assertLessEqual(arena, most)
                self.assertGreater(arena, 4 * update)  # what is counted is the step's

    def test_resharded(self):
        self.check("true", forward=3 * self.block + self.outside + self.shard,
                   backward=3 * self.block + self.outside + 2 * self.shard)  # fmt: skip

    def test_kept(self):
        self.check("false", forward=self.shard + self.whole + self.block,
                   backward=self.shard + self.whole + 3 * self.block // 2)  # fmt: skip


if __name__ == "__main__":
    unittest.main()

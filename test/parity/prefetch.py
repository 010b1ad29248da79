#!/usr/bin/env python3
"""Explicit lists of groups to prefetch, beside FSDP2: bits, events and collectives."""

import unittest

import harness
from oracle import models

CONFIG = models.Config("llama", dim=32, layers=4, batch=2)
LAYERS = [f"layers.{i}" for i in range(CONFIG.layers)]


def ahead(depth, order):
    """What FSDP2's users write in a loop: each module prefetches the next ones."""
    return {path: order[i + 1 : i + 1 + depth] for i, path in enumerate(order) if order[i + 1 :]}


class Prefetch(harness.Comparison):
    def check_lists(self, entries, forward=None, backward=None, reshard=("true", "none"), root="", more="",
                    communicators=("local",), **options):  # fmt: skip
        """`entries` are the lines of `groups`, as many as there are rules."""
        workspace = self.workspace(CONFIG)
        config = workspace.folder / "config.yaml"
        config.write_text("groups:\n" + "".join(f"  - {entry}\n" for entry in entries) + root)
        for mode in reshard:
            run, expected = self.expect(
                workspace, reshard_after_forward=mode, forward_prefetch=forward or {},
                backward_prefetch=backward or {}, **options,
            )  # fmt: skip
            # The first mode is linked in both layouts; of the others the report is what prefetching changes.
            layouts = ("flat", "per-param") if mode == reshard[0] else ("per-param",)
            with self.subTest(reshard=mode):
                self.check(workspace, run, expected, 2, layouts, communicators=communicators,
                           more=more, config=config)  # fmt: skip

    def test_forward_depth(self):
        for depth in (1, 2):
            self.check_lists([f'{{modules: ["layers.*"], forward_prefetch: {depth}}}'],
                             forward=ahead(depth, LAYERS))  # fmt: skip

    def test_backward_depth(self):
        for depth in (1, 3):
            self.check_lists([f'{{modules: ["layers.*"], backward_prefetch: {depth}}}'],
                             backward=ahead(depth, LAYERS[::-1]),
                             reshard=("true", "false", "none"))  # fmt: skip

    def test_both_with_the_root(self):
        self.check_lists(['{modules: ["layers.*"], forward_prefetch: 2, backward_prefetch: 2}'],
                         forward=ahead(2, LAYERS) | {"": LAYERS[:2]},
                         backward=ahead(2, LAYERS[::-1]) | {"": LAYERS[:2:-1]},
                         root='root: {forward_prefetch: 2, backward_prefetch: ["layers.3"]}\n')  # fmt: skip

    def test_far_away(self):
        """What is gathered long before its use stays gathered until then."""
        self.check_lists(['{modules: ["layers.0"], forward_prefetch: ["layers.3", "layers.1"]}',
                          '{modules: ["layers.1", "layers.2"]}',
                          '{modules: ["layers.3"], backward_prefetch: ["layers.0"]}'],
                         forward={"layers.0": ["layers.3", "layers.1"]},
                         backward={"layers.3": ["layers.0"]})  # fmt: skip

    def test_back_in_forward(self):
        """A group whose forward is over: what is gathered serves the backward."""
        self.check_lists(['{modules: ["layers.0", "layers.1"]}',
                          '{modules: ["layers.2"], forward_prefetch: ["layers.0"]}',
                          '{modules: ["layers.3"]}'],
                         forward={"layers.2": ["layers.0"]}, reshard=("true",))  # fmt: skip

    def test_microbatches(self):
        self.check_lists(['{modules: ["layers.*"], forward_prefetch: 1, backward_prefetch: 2}'],
                         forward=ahead(1, LAYERS), backward=ahead(2, LAYERS[::-1]),
                         more="microbatches=2", microbatches=2, communicators=("local", "shm", "gloo"))  # fmt: skip


if __name__ == "__main__":
    unittest.main()

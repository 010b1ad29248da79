#!/usr/bin/env python3
"""tools/python/fsdpc: what a forward keeps for the next one, in attributes, buffers and memory that tensors share, is part of the
step, noted or refused."""

import collections
import contextlib
import io
import random
import unittest

import torch
import torch.nn as nn

import exported
import fsdpc  # exported says where it is
from exported import Model


def counted_below(model, x):
    model.linear.calls = getattr(model.linear, "calls", 0) + 1
    return model.linear(x)


class State(exported.Exported):
    def test_random_numbers_of_libraries(self):
        """Numbers that are drawn only at the first call are allowed."""

        def once(model, x):
            if not hasattr(once, "drawn"):
                once.drawn = random.random()
            return model.linear(x)

        self.export(Model(once))

    def test_harmless_attributes(self):
        """They change, and the program is the same."""
        model = Model(counted_below)
        model.linear.calls = 3
        self.export(model)
        self.assertEqual(model.linear.calls, 3)

    def test_containers_are_restored(self):
        """What a forward puts into them is gone after the export; containers of other kinds are left alone."""

        class Settings(dict):
            pass

        def forward(model, x):
            model.state["last"] = model.linear(x)
            model.settings["scale"] = 2
            return model.state["last"] * model.settings["scale"]

        model = Model(forward)
        model.settings = Settings(scale=2, name="first")
        self.export(model)
        self.assertEqual(model.state, {"calls": 0, "mode": "train"})
        self.assertEqual(model.settings, {"scale": 2, "name": "first"})
        model.state["state"] = model.state
        self.path.unlink()
        self.expect_refusal("a list or dict in an attribute contains itself", model)

    def test_tensors_kept_for_the_next_step(self):
        """A note says that each step begins with the value at the export."""

        def forward(model, x):
            y = model.linear(x + model.kept[0])
            model.kept = [y.detach()]
            return y

        model = Model(forward)
        model.kept = [torch.zeros(4)]
        with contextlib.redirect_stderr(io.StringIO()) as told:
            fsdpc.export(model, {"x": torch.randn(4, 4)}, self.path)
        self.assertIn("attribute 'kept' of the model", told.getvalue())
        self.assertTrue(torch.equal(model.kept[0], torch.zeros(4)))

    def test_tensors_kept_from_the_first_step_on(self):
        """A note, if the next forward would compute something else."""

        def remembering(model, x):
            y = model.linear(x)
            result = y if model.kept is None else y + model.kept[0]
            model.kept = (y.detach(), y.detach())
            return result

        def logging(model, x):
            model.kept = model.linear(x)
            return model.kept

        for forward, is_noted in ((remembering, True), (logging, False)):
            model = Model(forward)
            model.kept = None
            with contextlib.redirect_stderr(io.StringIO()) as told:
                fsdpc.export(model, {"x": torch.randn(2, 4)}, self.path)
            self.assertEqual("'kept' of the model is None now" in told.getvalue(), is_noted)
            self.assertIsNone(model.kept)

    def test_tensors_kept_in_containers_from_the_first_step_on(self):
        def remembering(model, x):
            y = model.linear(x)
            if len(model.kept):
                y = y + next(iter(model.kept.values() if isinstance(model.kept, dict) else model.kept))
            if isinstance(model.kept, dict):
                model.kept["y"] = y.detach()
            else:
                model.kept.append(y.detach())
            return y

        for kept in ({}, [], collections.deque(maxlen=2)):
            with self.subTest(kept=kept):
                model = Model(remembering)
                model.kept = kept
                with contextlib.redirect_stderr(io.StringIO()) as told:
                    fsdpc.export(model, {"x": torch.randn(2, 4)}, self.path)
                self.assertIn("attribute 'kept' of the model has no tensors now", told.getvalue())
                self.assertIs(model.kept, kept)
                self.assertEqual(len(kept), 0)

    def test_counters(self):
        """A note, if nothing depends on them yet; a deque's length is such a number."""

        def counting(model, x):
            model.calls += 1
            loss = model.linear(x)
            return loss * 2 if model.calls % 4 == 0 else loss

        def appending(model, x):
            model.calls.append(1.0)
            return model.linear(x) * len(model.calls)

        model = Model(counting)
        with contextlib.redirect_stderr(io.StringIO()) as told:
            fsdpc.export(model, {"x": torch.randn(2, 4)}, self.path)
        self.assertIn("the forward changes attribute 'calls' of the model (1, then 2), and each step computes what a forward does now",
                      told.getvalue())  # fmt: skip
        self.assertEqual(model.calls, 0)
        self.path.unlink()
        model = Model(appending)
        model.calls = collections.deque(maxlen=3)
        self.expect_refusal("the forward changes attribute 'calls'", model)

    def test_buffers_that_become_others(self):
        def widen(model, x):
            model.mean = 0.9 * model.mean + x.double().mean(0)
            return model.linear(x)

        def grow(model, x):
            model.mean = torch.cat([model.mean, x.mean(0)])
            return model.linear(x)

        self.expect_refusal(r"buffer 'mean', torch.float32 \[4\], by torch.float64 \[4\]: a step keeps", Model(widen))
        self.expect_refusal(r"buffer 'mean', torch.float32 \[4\], by torch.float32 \[8\]: a step keeps", Model(grow))

    def test_shared_memory_refused(self):
        model = Model(lambda model, x: model.other(model.linear(x)))
        model.other = nn.Linear(4, 4)
        model.other.weight.data = model.linear.weight.data
        self.expect_refusal("'other.weight' and 'linear.weight' are different tensors of one memory", model)
        model.other.weight = model.linear.weight
        self.export(model)

    def test_buffers_in_one_memory(self):
        """Refused if one is written: the step would not change the other."""
        whole = torch.zeros(12)
        others = {"overlapping": whole[4:], "inside": whole[2:6].view(2, 2), "apart": whole[8:]}

        def make(forward):
            model = Model(forward)
            model.register_buffer("mean", whole[:8])
            return model

        def write(model, x):
            model.mean.mul_(0.9).add_(x.detach().mean())
            return model.linear(x) + model.other.sum()

        read = lambda model, x: model.linear(x) + model.mean.sum() + model.other.sum()
        for name, other in others.items():
            for persistent in (True, False):
                for forward in (write, read):
                    model = make(forward)
                    model.register_buffer("other", other, persistent=persistent)
                    if forward is write and name != "apart":
                        self.expect_refusal("the forward writes 'mean', in whose memory 'other' lies, too", model)
                    else:
                        self.export(model)
                        self.path.unlink()
        for view in (lambda mean: mean, lambda mean: mean[1:]):
            model = make(write)
            model.other = view(model.mean)
            self.expect_refusal("the forward writes 'mean', in whose memory a tensor of an attribute", model)
        model = make(write)
        model.register_buffer("other", model.mean)  # one buffer of two names
        self.export(model)


if __name__ == "__main__":
    unittest.main()

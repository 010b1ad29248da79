"""What tools/benchmarks/gpu/curve.py takes for a right loss curve, with tiny steps of torch on a CPU."""

import pathlib
import sys
import unittest
import unittest.mock

import torch

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools" / "benchmarks" / "gpu"))

import cases  # noqa: E402
import curve  # noqa: E402
from cases import models  # noqa: E402


class CurveTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        torch.set_num_threads(1)
        cls.config = cases.cases("tiny")["curve"].model
        torch.manual_seed(0)
        cls.model = models.build(cls.config, "cpu")
        cls.values = {name: value.clone() for name, value in cls.model.state_dict().items()}
        cls.data = models.example_inputs(cls.config, batch=curve.SAMPLES)
        cls.curves = {"eager": cls.train(), "moved": [cls.train(seed) for seed in range(curve.MOVED)]}

    @classmethod
    def train(cls, seed=None):
        moved = None if seed is None else torch.Generator().manual_seed(seed)
        return curve.eager_losses(cls.config, cls.values, cls.data, "cpu", curve.STEPS, moved)

    def judge(self, losses):
        """(the first steps hold, all steps hold)"""
        figures = curve.judge(losses, self.curves)
        return figures["first_steps"] <= curve.FIRST_BOUND, figures["of_spread"] <= curve.SPREAD

    def test_another_moved_run_is_right(self):
        self.assertEqual(self.judge(self.train(seed=curve.MOVED + 1)), (True, True))

    def test_a_wrong_learning_rate(self):
        """Of one that is 3 % off all steps tell, of one that is half the first do, too."""
        for factor, first in ((1.03, True), (0.5, False)):
            with unittest.mock.patch.dict(cases.ADAMW, lr=cases.ADAMW["lr"] * factor):
                self.assertEqual(self.judge(self.train()), (first, False), factor)

    def test_a_dropped_gradient(self):
        names = [name for name, _ in self.model.named_parameters()]
        step = torch.optim.AdamW.step
        for name in ("layers.0.mlp.w2.weight", "layers.1.attn.wv.weight"):

            def drop(optimizer):
                optimizer.param_groups[0]["params"][names.index(name)].grad = None
                step(optimizer)

            with unittest.mock.patch.object(torch.optim.AdamW, "step", drop):
                self.assertFalse(self.judge(self.train())[1], name)

    def test_a_loss_that_is_no_number(self):
        with self.assertRaisesRegex(ValueError, "the loss of step 3 is nan"):
            curve.judge([1.0, 1.0, float("nan")], {"eager": [1.0] * 3, "moved": [[1.1] * 3]})


if __name__ == "__main__":
    unittest.main()

"""What the tests of steps that keep something on the host share: a step is trained for its bits, and its planned
module is asked for bytes."""

import json
import re

import harness
from oracle import safetensors_io

STEPS = 5


def module_number(planned, attribute):
    return int(re.search(rf"fsdp\.{attribute} = (\d+)", planned.read_text())[1])


class Offloading(harness.WorkspaceCase):
    def train(self, workspace, ranks, more, mesh=None, layout="flat", config=None, reshard=None, flags=()):
        """Planned module, report, losses by step and rank, parameters and buffers afterwards. `flags`: of the run."""
        if reshard is None:
            reshard = "auto" if "schedule" in more else "none"
        planned, report = workspace.plan(mesh or ranks, reshard, layout, config, more)
        binary = workspace.link(planned)
        log, save = workspace.folder / "log.jsonl", workspace.folder / "final.safetensors"
        log.unlink(missing_ok=True)
        harness.run([binary, "--ranks", ranks, *flags,
                     *harness.training_arguments(workspace, log, save, STEPS)])  # fmt: skip
        losses = [line["loss_hex"] for line in harness.read_log(log)]
        self.assertEqual(len(losses), STEPS)
        return planned, json.loads(report.read_text()), losses, safetensors_io.load(save)

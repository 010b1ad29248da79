#!/usr/bin/env python3
"""Scheduled and planned modules as people could edit them, through fsdp-compile.

Steps are edited by rule: operations dropped, doubled and moved, operands, literals, streams and places
changed. What fsdp-compile takes must mean what the step meant before (step_meaning.py, which knows nothing
of the compiler); what it refuses it refuses with a message. Kinds of edits that no rule forbids, since the
bits stay the same, are marked `keeps`; every other kind is refused, or compiles to the same plan.

  edited_steps_test.py [--all] [--seed N] [--seconds N] [--kind NAME]
"""

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile
import time

import group_edits  # noqa: F401, adds kinds
import step_edits  # noqa: F401, likewise
from edit_kinds import KEEPS, KINDS
from step_meaning import VALUE, meaning
from step_text import Step

TOOLS = os.environ["FSDP_TOOLS"]
INPUTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Inputs")

#: Inputs have no random operators.
DROPOUT = """
module attributes {fsdp.phase = #fsdp.module_phase<captured>} {
  fsdp.param @a.w : tensor<8x8xf32>
  fsdp.param @b.w : tensor<8x8xf32>
  fsdp.optimizer sgd lr = 0.1 weight_decay = 0.0 momentum = 0.9
  func.func @step() -> tensor<f32> {
    %step = fsdp.input "step" : i64
    %lr = fsdp.input "lr" : f64
    %x = fsdp.input "x" : tensor<8x8xf32>
    %a = fsdp.read @a.w : tensor<8x8xf32>
    %ma = aten.call "mm.default"(%x, %a) fwd in "a" : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %da:2 = aten.call "native_dropout.default"(%ma, 1.000000e-01, true) fwd in "a" rng 0 : (tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xi1>)
    %b = fsdp.read @b.w : tensor<8x8xf32>
    %mb = aten.call "mm.default"(%da#0, %b) fwd in "b" : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %db:2 = aten.call "native_dropout.default"(%mb, 1.000000e-01, true) fwd in "b" rng 1 : (tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x8xi1>)
    %loss = aten.call "sum.default"(%db#0, none) fwd in "" : (tensor<8x8xf32>) -> tensor<f32>
    %gb = aten.call "mul.Tensor"(%da#0, %db#1) bwd in "b" : (tensor<8x8xf32>, tensor<8x8xi1>) -> tensor<8x8xf32>
    %ga0 = aten.call "mm.default"(%x, %b) bwd in "a" : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
    %ga = aten.call "mul.Tensor"(%ga0, %da#1) bwd in "a" : (tensor<8x8xf32>, tensor<8x8xi1>) -> tensor<8x8xf32>
    fsdp.grad @a.w, %ga : tensor<8x8xf32>
    fsdp.grad @b.w, %gb : tensor<8x8xf32>
    fsdp.update @a.w step %step lr %lr
    fsdp.update @b.w step %step lr %lr
    return %loss : tensor<f32>
  }
}
"""

MODELS = ["mlp", "gpt2", "llama", "convnet", "dropout"]
SEARCH = "device=h100 schedule=auto budget=40"
#: Options of the pipeline, and how gradients are clipped.
CLIP = " clip_grad_norm = 1.0"
CONFIGS = {
    "one": ("", ""),
    "one-clip": ("", CLIP),
    "dp": ("mesh=dp=2", ""),
    "dp-auto": (f"mesh=dp=2 {SEARCH} buckets", ""),
    "dp-clip": ("mesh=dp=2", CLIP),
    "dp-per-param": ("mesh=dp=2 layout=per-param", ""),
    "dp-true": ("mesh=dp=2 reshard-after-forward=true", ""),
    "dp-offload": ("mesh=dp=2 offload-optimizer=all", ""),
    "hsdp": ("mesh=replicate=2,shard=2", ""),
    "dp-each": ("mesh=dp=2 microbatches=2 microbatch-loss=sum", ""),
    "dp-last": ("mesh=dp=2 microbatches=3 microbatch-loss=sum gradient-sync=last", ""),
    "hsdp-partial": ("mesh=replicate=2,shard=2 microbatches=2 microbatch-loss=sum gradient-sync=reduce_scatter", ""),
    "hsdp-clip": ("mesh=replicate=2,shard=2", CLIP),
    "dp-clip-1": ("mesh=dp=2", CLIP + " clip_norm_type = 1"),
    "hsdp-clip-inf": ("mesh=replicate=2,shard=2", CLIP + " clip_norm_type = inf"),
    "dp-chunk": ("mesh=dp=4 reshard-after-forward=2", ""),
    "dp-chunk-per-param": ("mesh=dp=4 reshard-after-forward=2 layout=per-param", CLIP + " clip_norm_type = inf"),
    "hsdp-chunk-each": ("mesh=replicate=2,shard=4 reshard-after-forward=2 microbatches=2 microbatch-loss=sum", ""),
    "hsdp-auto": (f"mesh=replicate=2,shard=2 {SEARCH} buckets", CLIP),
}


class Case:
    """A model in a configuration, scheduled or planned."""

    def __init__(self, model, config, phase, folder):
        self.name = f"{model}.{config}.{phase}"
        self.folder = folder
        options, clip = CONFIGS[config]
        text = DROPOUT if model == "dropout" else open(os.path.join(INPUTS, model + ".mlir")).read()
        text = re.sub(r"(fsdp\.optimizer .*)", r"\1" + clip, text)
        text = tool("fsdp-opt", [f"--fsdp-pipeline={options} up-to={phase}"], text)
        self.text = text
        self.step = Step(text)
        self.meaning = self.plan = None

    def judge(self, kind_name, lines):
        """Null where the edit is refused with a message or harmless, else what is wrong."""
        path = os.path.join(self.folder, "edited.mlir")
        text = "\n".join(lines) + "\n"
        with open(path, "w") as file:
            file.write(text)
        command = [os.path.join(TOOLS, "fsdp-compile"), path]
        run = subprocess.run(command + ["--object", "-o", path + ".o"], capture_output=True, text=True)
        if run.returncode not in (0, 1) or "Stack dump" in run.stderr or "PLEASE submit" in run.stderr:
            return f"crashes with {run.returncode}: {run.stderr[-400:]}"
        if run.returncode == 1:
            return None if "error: " in run.stderr else f"is refused without a message: {run.stderr}"
        self.accepted += 1
        # The plan's text says nothing of operands once names are stripped; the meaning does.
        if kind_name not in KEEPS and not self.same_plan(command):
            return "is accepted and makes another plan"
        if self.meaning is None:
            self.meaning = meaning(self.planned(self.text))
        found = meaning(self.planned(text))
        if found != self.meaning:
            differ = [k for k in self.meaning if self.meaning[k] != found.get(k)]
            return f"is accepted and changes the meaning of {differ}"
        return None

    accepted = 0

    def planned(self, text):
        return text if "module_phase<planned>" in text else tool("fsdp-opt", ["--fsdp-plan-memory"], text)

    def same_plan(self, command):
        if self.plan is None:
            path = os.path.join(self.folder, "original.mlir")
            with open(path, "w") as file:
                file.write(self.text)
            self.plan = plan_of(path)
        return plan_of(command[1]) == self.plan


def plan_of(path):
    text = tool("fsdp-compile", [path, "--emit", "plan"])
    text = re.sub(r" loc \S+", "", text)
    return re.sub(VALUE, "%", text)


def tool(name, arguments, text=None):
    run = subprocess.run([os.path.join(TOOLS, name), *arguments], input=text, capture_output=True, text=True)
    if run.returncode:
        raise RuntimeError(f"{name} {arguments}: {run.stderr}")
    return run.stdout


def check_meaning(folder):
    """That the meaning is the same in any order of issue, and another where bytes are overwritten."""
    first, second = (Case("mlp", config, "planned", folder) for config in ("dp", "dp-auto"))
    assert meaning(first.text) == meaning(second.text)
    for kind_name in ("call-offset-0", "swap-gradients", "sub-for-add"):
        lines = KINDS[kind_name](first.step, random.Random(0))
        assert meaning("\n".join(lines)) != meaning(first.text), kind_name


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true", help="every kind on every model, configuration and phase")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=30, help="once each kind has been tried, stop after this")
    parser.add_argument("--kind", help="one kind of edit alone")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}, {len(KINDS)} kinds of edits")
    kinds = [k for k in KINDS if arguments.kind in (None, k)]
    names = [(m, c, p) for m in MODELS for c in CONFIGS for p in ("scheduled", "planned")]
    rng = random.Random(arguments.seed)
    start, tried, wrong, cases = time.monotonic(), {}, [], {}
    with tempfile.TemporaryDirectory() as folder:
        check_meaning(folder)

        def attempt(case_name, kind_name, number):
            if case_name not in cases:
                cases[case_name] = Case(*case_name, folder)
            case = cases[case_name]
            seed = f"{arguments.seed} {case_name} {kind_name} {number}"
            lines = KINDS[kind_name](case.step, random.Random(seed))
            if not lines or lines == case.step.lines:
                return False
            tried[kind_name] = tried.get(kind_name, 0) + 1
            problem = case.judge(kind_name, lines)
            if problem:
                wrong.append(kind_name)
                changed = [l for l in lines if l not in case.step.lines][:3]
                print(f"WRONG {kind_name} of {case.name}, seed '{seed}': {problem}")
                for line in changed:
                    print("   ", line.strip()[:300])
                sys.stdout.flush()
            return True

        if arguments.all:
            for case_name in names:
                for kind_name in kinds:
                    for number in range(3):
                        attempt(case_name, kind_name, number)
        else:
            # A few cases for all kinds, others where a kind does not apply to these.
            rng.shuffle(names)
            number = 0
            while number == 0 or time.monotonic() - start < arguments.seconds:
                for kind_name in kinds:
                    for case_name in names[number % 6 :: 6] + names:
                        if attempt(case_name, kind_name, number):
                            break
                    if number and time.monotonic() - start > arguments.seconds:
                        break
                number += 1
    accepted = sum(case.accepted for case in cases.values())
    print(f"{sum(tried.values())} edits, {accepted} accepted, {time.monotonic() - start:.0f} s")
    # The norm stands between the last reduction and its own.
    untried = [k for k in kinds if k not in tried and k != "move-norm"]
    if untried:
        print("kinds that apply to no case:", ", ".join(untried))
    return bool(wrong) or bool(untried)


if __name__ == "__main__":
    sys.exit(main())

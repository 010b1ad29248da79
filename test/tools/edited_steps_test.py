#!/usr/bin/env python3
"""Sharded, scheduled and planned modules as people could edit them, through fsdp-compile.

Steps are edited by rule: operations dropped, doubled and moved, operands, literals, streams and places
changed. What fsdp-compile takes must mean what the step meant before (step_meaning.py, which knows nothing
of the compiler); what it refuses it refuses with a message. Sharded modules are scheduled by fsdp-opt first,
with and without --fsdp-verify-sharded. The first round tries each kind in each phase that it applies to, and
in the phase sharded with and without the verifier. Kinds of edits that no rule forbids, since the bits stay
the same, are marked `keeps`; every other kind is refused, or compiles to the same plan.

  edited_steps_test.py [--all] [--seed N] [--seconds N] [--kind NAME] [--phase NAME]
"""

import argparse
import itertools
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
OPT, COMPILE = os.path.join(TOOLS, "fsdp-opt"), os.path.join(TOOLS, "fsdp-compile")
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

PHASES = ["sharded", "scheduled", "planned"]
MODELS = ["mlp", "gpt2", "llama", "convnet", "dropout"]
SEARCH = "device=h100 schedule=auto budget=40"
#: Options of the pipeline, and how gradients are clipped.
CLIP = " clip_grad_norm = 1.0"
#: Of a step whose gradients are multiplied by the scale, see scaled().
SCALE = " loss_scale = 4.0 growth_factor = 2.0 backoff_factor = 0.5 growth_interval = 20"
CONFIGS = {
    "one": ("", ""),
    "one-clip": ("", CLIP),
    "dp": ("mesh=dp=2", ""),
    "dp-auto": (f"mesh=dp=2 {SEARCH} buckets", ""),
    "dp-clip": ("mesh=dp=2", CLIP),
    "dp-per-param": ("mesh=dp=2 layout=per-param", ""),
    "dp-columns": ("mesh=dp=2 layout=per-param shard-placement=largest", ""),
    "dp-true": ("mesh=dp=2 reshard-after-forward=true", ""),
    "dp-offload": ("mesh=dp=2 offload-optimizer=all", ""),
    "dp-activations": ("mesh=dp=2 offload-activations=all", ""),
    "dp-activations-auto": (f"mesh=dp=2 offload-activations=all offload-optimizer=all {SEARCH}", ""),
    "dp-host-clip": ("mesh=dp=2 offload-policy=cpu", CLIP),
    "one-host-clip": ("offload-policy=cpu", CLIP),
    "dp-host-each": ("mesh=dp=2 offload-policy=cpu microbatches=3 microbatch-loss=sum", CLIP),
    "hsdp-host-auto": (f"mesh=replicate=2,shard=2 {SEARCH} offload-policy=cpu", CLIP),
    "hsdp": ("mesh=replicate=2,shard=2", ""),
    "dp-each": ("mesh=dp=2 microbatches=2 microbatch-loss=sum", ""),
    "dp-last": ("mesh=dp=2 microbatches=3 microbatch-loss=sum gradient-sync=last", ""),
    "hsdp-partial": ("mesh=replicate=2,shard=2 microbatches=2 microbatch-loss=sum gradient-sync=reduce_scatter", ""),
    "hsdp-clip": ("mesh=replicate=2,shard=2", CLIP),
    "dp-clip-1": ("mesh=dp=2", CLIP + " clip_norm_type = 1"),
    "dp-scale": ("mesh=dp=2", SCALE),
    "one-scale": ("", SCALE),
    "hsdp-scale-clip-1": ("mesh=replicate=2,shard=2 microbatches=2 microbatch-loss=sum", CLIP + " clip_norm_type = 1" + SCALE),
    "dp-host-scale": (f"mesh=dp=2 {SEARCH} offload-policy=cpu", SCALE),
    "hsdp-clip-inf": ("mesh=replicate=2,shard=2", CLIP + " clip_norm_type = inf"),
    "dp-chunk": ("mesh=dp=4 reshard-after-forward=2", ""),
    "dp-chunk-per-param": ("mesh=dp=4 reshard-after-forward=2 layout=per-param", CLIP + " clip_norm_type = inf"),
    "hsdp-chunk-each": ("mesh=replicate=2,shard=4 reshard-after-forward=2 microbatches=2 microbatch-loss=sum", ""),
    "hsdp-auto": (f"mesh=replicate=2,shard=2 {SEARCH} buckets", CLIP),
    "meshes": ("config={meshes}", ""),
    "meshes-clip": ("config={meshes} microbatches=2 microbatch-loss=sum", CLIP),
    "stages": ("config={stages} microbatches=3 microbatch-loss=sum", ""),
    "stages-last": ("config={stages} microbatches=2 microbatch-loss=sum gradient-sync=last", CLIP),
}
#: Modules that are groups where a configuration comes from a file, and which of them begin stages.
GROUPS = {
    "mlp": ["layers.0", "layers.1", "norm, head"],
    "gpt2": ["h.0", "h.1", "ln_f"],
    "llama": ["tok", "layers.0", "layers.1", "norm, head"],
    "convnet": ["stem", "layers.0", "layers.1", "head"],
    "dropout": ["a", "b"],
}
STAGES = {"mlp": "layers.0, layers.1", "llama": "tok, layers.1", "convnet": "stem, layers.1", "dropout": "a, b"}
MESHES = ["{replicate: 2, shard: 2}", "{replicate: 4, shard: 1}"]


def write_config(model, folder):
    """Files of the pipeline's options, by name: meshes of groups, or stages in order 1f1b."""
    files = {}
    for name in ("meshes", "stages"):
        lines = ["mesh: {dp: 4}", "groups:"]
        for i, modules in enumerate(GROUPS[model]):
            mesh = f", mesh: {MESHES[i]}" if name == "meshes" and i < len(MESHES) else ""
            lines.append(f"  - {{modules: [{modules}]{mesh}}}")
        if name == "stages":
            lines.append(f"accumulation: {{order: 1f1b, stages: [{STAGES.get(model, '')}]}}")
        files[name] = os.path.join(folder, f"{model}.{name}.yaml")
        with open(files[name], "w") as file:
            file.write("\n".join(lines) + "\n")
    return files


def scaled(text):
    """The step with its gradients times the loss scale."""
    text = re.sub(r"(func\.func @step.*\n)", r"\1    %loss_scale = fsdp.loss_scale : tensor<f32>\n", text, count=1)
    names = itertools.count()

    def scale(match):
        param, value, type_ = match.groups()
        own = f"%scaled_{next(names)}"
        return (f'    {own} = aten.call "mul.Tensor"({value}, %loss_scale) bwd in "" : ({type_}, tensor<f32>) -> {type_}\n'
                f"    fsdp.grad {param}, {own} : {type_}")  # fmt: skip

    return re.sub(r"    fsdp\.grad (@\S+), (%\S+) : (tensor<.*>)", scale, text)


def applies(model, config):
    return model in STAGES or "{stages}" not in CONFIGS[config][0]


class Case:
    """A model in a configuration, and the text of it in a phase."""

    def __init__(self, model, config, phase, folder):
        self.name = f"{model}.{config}.{phase}"
        self.folder = folder
        options, clip = CONFIGS[config]
        text = DROPOUT if model == "dropout" else open(os.path.join(INPUTS, model + ".mlir")).read()
        text = re.sub(r"(fsdp\.optimizer .*)", r"\1" + clip, text)
        if SCALE in clip:
            text = scaled(text)
        options = options.format(**write_config(model, folder))
        plain = "" if phase == "sharded" else " fusion=off"  # the model of meanings has no kernels
        text = tool("fsdp-opt", [f"--fsdp-pipeline={options}{plain} up-to={phase}"], text)
        self.text = text
        self.step = Step(text)
        self.meaning = self.plan = None
        #: From the phase sharded to the phase scheduled, as the pipeline does it.
        self.passes = []
        if phase == "sharded":
            search = options[options.index(SEARCH) :] if SEARCH in options else ""
            schedule = ["--fsdp-schedule", "--fsdp-assign-streams"]
            self.passes = [f"--fsdp-optimize-schedule={search}"] if search else schedule

    def judge(self, kind_name, lines, is_verified):
        """None where the edit is refused with a message or harmless, else what is wrong. `is_verified`: of a
        sharded module, that it is verified before it is scheduled, too."""
        path = os.path.join(self.folder, "edited.mlir")
        with open(path, "w") as file:
            file.write("\n".join(lines) + "\n")
        if self.passes:
            scheduled = os.path.join(self.folder, "edited.scheduled.mlir")
            verify = ["--fsdp-verify-sharded"] if is_verified else []
            run = subprocess.run([OPT, path, *verify, *self.passes, "-o", scheduled], capture_output=True, text=True)
            if run.returncode:
                return explain_refusal(run)
            path = scheduled
        run = subprocess.run([COMPILE, path, "--object", "-o", path + ".o"], capture_output=True, text=True)
        if run.returncode:
            return explain_refusal(run)
        self.accepted += 1
        # The plan's text says nothing of operands once names are stripped; the meaning does.
        if kind_name not in KEEPS and not self.same_plan(path):
            return "is accepted and makes another plan"
        if self.meaning is None:
            self.meaning = meaning(plan_memory(self.scheduled(self.text)))
        with open(path) as file:
            found = meaning(plan_memory(file.read()))
        if found != self.meaning:
            differ = [k for k in self.meaning if self.meaning[k] != found.get(k)]
            return f"is accepted and changes the meaning of {differ}"
        return None

    accepted = 0

    def scheduled(self, text):
        return tool("fsdp-opt", self.passes, text) if self.passes else text

    def same_plan(self, edited):
        if self.plan is None:
            path = os.path.join(self.folder, "original.mlir")
            with open(path, "w") as file:
                file.write(self.scheduled(self.text))
            self.plan = plan_of(path)
        return plan_of(edited) == self.plan


def explain_refusal(run):
    """None where a tool refuses its input with a message, else what is wrong."""
    if run.returncode != 1 or "Stack dump" in run.stderr or "PLEASE submit" in run.stderr:
        return f"crashes with {run.returncode}: {run.stderr[-400:]}"
    return None if "error: " in run.stderr else f"is refused without a message: {run.stderr}"


def plan_memory(text):
    return text if "module_phase<planned>" in text else tool("fsdp-opt", ["--fsdp-plan-memory"], text)


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


def by_turn(names, phase, number):
    """The cases of a phase: first a sixth of them, each time another one."""
    names = [name for name in names if name[2] == phase]
    return names[number % 6 :: 6] + names


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--all", action="store_true", help="every kind on every model, configuration and phase")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=90, help="after the first round, stop at this time")
    parser.add_argument("--kind", help="one kind of edit alone")
    parser.add_argument("--phase", choices=PHASES, help="modules of one phase alone")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}, {len(KINDS)} kinds of edits")
    kinds = [k for k in KINDS if arguments.kind in (None, k)]
    phases = [p for p in PHASES if arguments.phase in (None, p)]
    names = [(m, c, p) for m in MODELS for c in CONFIGS if applies(m, c) for p in phases]
    rng = random.Random(arguments.seed)
    start, tried, wrong, cases = time.monotonic(), {}, [], {}
    #: Edits of sharded modules, with and without --fsdp-verify-sharded.
    verified = {True: 0, False: 0}
    with tempfile.TemporaryDirectory() as folder:
        check_meaning(folder)

        def attempt(case_name, kind_name, number, is_verified):
            if case_name not in cases:
                cases[case_name] = Case(*case_name, folder)
            case = cases[case_name]
            seed = f"{arguments.seed} {case_name} {kind_name} {number}"
            lines = KINDS[kind_name](case.step, random.Random(seed))
            if not lines or lines == case.step.lines:
                return False
            tried[kind_name, case_name[2]] = tried.get((kind_name, case_name[2]), 0) + 1
            verified[is_verified] += bool(case.passes)
            problem = case.judge(kind_name, lines, is_verified)
            if problem:
                wrong.append(kind_name)
                changed = [l for l in lines if l not in case.step.lines][:3]
                verifier = ", verified" if case.passes and is_verified else ""
                print(f"WRONG {kind_name} of {case.name}{verifier}, seed '{seed}': {problem}")
                for line in changed:
                    print("   ", line.strip()[:300])
                sys.stdout.flush()
            return True

        if arguments.all:
            for case_name in names:
                for kind_name in kinds:
                    for number in range(3):
                        attempt(case_name, kind_name, number, is_verified=number % 2 == 0)
        else:
            # A few cases for all kinds, others where a kind does not apply to these.
            rng.shuffle(names)

            def attempt_one(order, kind_name, number, is_verified):
                """In the first case of phases in this order that the kind applies to."""
                for case_name in (n for p in order for n in by_turn(names, p, number)):
                    if attempt(case_name, kind_name, number, is_verified):
                        return

            for kind_name in kinds:
                for phase in phases:
                    for is_verified in (True, False) if phase == "sharded" else (False,):
                        attempt_one([phase], kind_name, 0, is_verified)
            print(f"first round: {sum(tried.values())} edits, {time.monotonic() - start:.0f} s")
            # Each time another phase first.
            number = 1
            while time.monotonic() - start < arguments.seconds:
                for turn, kind_name in enumerate(kinds, number):
                    order = [phases[(turn + i) % len(phases)] for i in range(len(phases))]
                    attempt_one(order, kind_name, number, is_verified=turn % 2 == 0)
                    if time.monotonic() - start > arguments.seconds:
                        break
                number += 1
    accepted = sum(case.accepted for case in cases.values())
    print(f"{sum(tried.values())} edits, {accepted} accepted, {time.monotonic() - start:.0f} s")
    for phase in phases:
        counts = [count for (_, where), count in tried.items() if where == phase]
        print(f"  {phase}: {len(counts)} kinds, {sum(counts)} edits")
    if "sharded" in phases:
        print(f"  sharded: {verified[True]} edits with --fsdp-verify-sharded, {verified[False]} without")
    # The norm stands between the last reduction and its own.
    untried = [k for k in kinds if k != "move-norm" and not any((k, p) in tried for p in phases)]
    if untried:
        print("kinds that apply to no case:", ", ".join(untried))
    if arguments.kind is None and arguments.phase in (None, "sharded") and not all(verified.values()):
        print("no sharded module with --fsdp-verify-sharded, or none without")
        return True
    return bool(wrong) or (bool(untried) and arguments.phase is None)


if __name__ == "__main__":
    sys.exit(main())

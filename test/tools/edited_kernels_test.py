#!/usr/bin/env python3
"""Edits of generated kernels: fsdp-compile must refuse each with a message.

Each edit changes a number, operator, operand, type or kernel in scheduled modules, so that the step computes
something else. The models are fused with `exact` and with `fast`. edited_steps_test.py edits modules without kernels.

  edited_kernels_test.py [--seed N] [--edits N]
"""

import argparse
import os
import random
import re
import subprocess
import sys
import tempfile

from edit_kinds import pick
from edited_steps_test import explain_refusal
from step_meaning import VALUE

TOOLS = os.environ["FSDP_TOOLS"]
OPT, COMPILE = os.path.join(TOOLS, "fsdp-opt"), os.path.join(TOOLS, "fsdp-compile")
INPUTS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "Inputs")
OTHER = {"mul.Tensor": "div.Tensor", "add.Tensor": "sub.Tensor", "mul.Scalar": "div.Scalar", "add.Scalar": "sub.Scalar",
         "relu.default": "neg.default", "silu.default": "sigmoid.default", "rsqrt.default": "sqrt.default"}  # fmt: skip


class Text:
    """The lines of a module, and the numbers of the lines in each kernel's body."""

    def __init__(self, lines):
        self.lines = lines
        self.bodies, begin = [], None
        for i, line in enumerate(lines):
            if "fsdp.kernel @" in line:
                begin = i
            elif begin is not None and line == "  }":
                self.bodies.append(range(begin + 1, i))
                begin = None
        self.launches = [i for i, line in enumerate(lines) if "fsdp.launch @" in line]

    def types(self, body):
        """(type, maker) of a body's values by name, without values that are one of several results."""
        found = {}
        for i in body:
            line = self.lines[i].strip()
            if line.startswith("^bb0"):
                found.update((m[1], (m[2], m[1])) for m in re.finditer(r"(%\w+): (tensor<.*?>)(?=[,)])", line))
            elif match := re.match(r"(%\w+) = (.*) -> (tensor<.*>)$", line):
                found[match[1]] = match[3], match[2]
        return found


def substitute(text, rng, lines, pattern, new):
    """One match in one of the lines, replaced."""
    places = [(i, m) for i in lines for m in re.finditer(pattern, text.lines[i])]
    place = pick(rng, places)
    if place is None:
        return None
    i, match = place
    made = new(match) if callable(new) else new
    line = text.lines[i]
    return {i: line[: match.start()] + made + line[match.end() :]}


def calls(text):
    return [i for body in text.bodies for i in body if "aten.call" in text.lines[i]]


def other_integer(text, rng):
    return substitute(text, rng, calls(text), r"(?<=, )-?\d+(?=[,)])", lambda m: str(int(m[0]) + 1))


def other_number(text, rng):
    return substitute(text, rng, calls(text), r"(?<=, )-?\d\.\d+e[+-]\d+(?=[,)])", "3.000000e-01")


def other_operator(text, rng):
    names = "|".join(re.escape(name) for name in OTHER)
    return substitute(text, rng, calls(text), rf'(?<=aten.call ")({names})(?=")', lambda m: OTHER[m[0]])


def other_operand(text, rng):
    """Replaces an operand by an earlier value of its type from another call."""
    choices = []
    for body in text.bodies:
        known = text.types(body)
        made = {name: i for i in body for name in re.findall(rf"^\s*({VALUE}) =", text.lines[i])}
        for i in body:
            if "aten.call" not in text.lines[i] and "fsdp.yield" not in text.lines[i]:
                continue
            begin = text.lines[i].find(" = ") + 1
            for match in re.finditer(rf"{VALUE}(?=[,)\] ])", text.lines[i]):
                if match.start() < begin or match[0] not in known:
                    continue
                choices += [
                    (i, match, name)
                    for name, what in known.items()
                    if made.get(name, 0) < i and what[0] == known[match[0]][0] and what[1] != known[match[0]][1]
                ]
    choice = pick(rng, choices)
    if choice is None:
        return None
    i, match, name = choice
    return {i: text.lines[i][: match.start()] + name + text.lines[i][match.end() :]}


def swapped_results(text, rng):
    """Swaps two yielded values of one type."""
    yields = [body[-1] for body in text.bodies]
    return swap(text, rng, yields)


def swapped_launch(text, rng):
    return swap(text, rng, text.launches)


def swap(text, rng, lines):
    choices = []
    for i in lines:
        head, types = text.lines[i].rsplit(" : ", 1)
        begin = max(head.find("("), head.find("fsdp.yield"))
        values = list(re.finditer(VALUE, head[begin:]))
        types = re.findall(r"tensor<[^<>]*(?:<[^<>]*>)?[^<>]*>", types)
        choices += [
            (i, begin, a, b)
            for k, a in enumerate(values)
            for j, b in enumerate(values[:k])
            if types[k] == types[j] and a[0] != b[0]
        ]
    choice = pick(rng, choices)
    if choice is None:
        return None
    i, begin, a, b = choice
    head, rest = text.lines[i][:begin], text.lines[i][begin:]
    return {i: head + rest[: b.start()] + a[0] + rest[b.end() : a.start()] + b[0] + rest[a.end() :]}


def other_size(text, rng):
    """Doubles a size in all types of a body that have it."""
    body = pick(rng, text.bodies)
    sizes = {size for i in body for size in re.findall(r"(?<=[<x])(\d+)(?=x)", text.lines[i]) if int(size) > 1}
    size = pick(rng, sorted(sizes))
    if size is None:
        return None
    new = str(int(size) * 2)
    return {i: re.sub(rf"(?<=[<x]){size}(?=x)", new, text.lines[i]) for i in body}


def other_dtype(text, rng):
    return substitute(text, rng, [i for body in text.bodies for i in body], r"(?<=x)(f32|bf16)\b", "f16")


def other_kernel(text, rng):
    names = sorted({re.search(r"launch (@\w+)", text.lines[i])[1] for i in text.launches})
    return substitute(text, rng, text.launches, r"@\w+", lambda m: pick(rng, [n for n in names if n != m[0]] or [m[0]]))


def dropped_call(text, rng):
    """Removes a call; users of its result use its first operand instead."""
    i = pick(rng, calls(text))
    match = i and re.match(rf'\s*(%\w+) = aten.call "[^"]*"\((?:\[)?({VALUE})', text.lines[i])
    if not match:
        return None
    body = next(body for body in text.bodies if i in body)
    name, operand = re.escape(match[1]), match[2]
    edited = {j: re.sub(rf"{name}(?![\w#])", operand, text.lines[j]) for j in body if j > i}
    return {**edited, i: ""}


KINDS = [other_integer, other_number, other_operator, other_operand, swapped_results, swapped_launch, other_size,
         other_dtype, other_kernel, dropped_call]  # fmt: skip


def judge(lines, folder):
    """None if fsdp-compile refuses the module with a message, else a description of the failure."""
    path = os.path.join(folder, "edited.mlir")
    with open(path, "w") as file:
        file.write("\n".join(lines) + "\n")
    run = subprocess.run([COMPILE, path, "--object", "-o", path + ".o"], capture_output=True, text=True)
    return "is accepted" if run.returncode == 0 else explain_refusal(run)


def fused(model, rounding):
    options = f"--fsdp-pipeline=mesh=dp=2 fusion={rounding} up-to=scheduled"
    command = [OPT, os.path.join(INPUTS, model + ".mlir"), options]
    return Text(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--edits", type=int, default=1, help="of each kind in each model and rounding")
    arguments = parser.parse_args()
    tried, wrong = dict.fromkeys((kind.__name__ for kind in KINDS), 0), 0
    names = [(model, rounding) for model in ("mlp", "llama", "gpt2", "convnet") for rounding in ("exact", "fast")]
    with tempfile.TemporaryDirectory() as folder:
        for model, rounding in names:
            text = fused(model, rounding)
            if not text.bodies:
                continue
            if judge(text.lines, folder) != "is accepted":
                sys.exit(f"{model}, {rounding}: what nobody edited is refused")
            for kind, number in ((kind, number) for kind in KINDS for number in range(arguments.edits)):
                edited = kind(text, random.Random(f"{arguments.seed} {model} {rounding} {kind.__name__} {number}"))
                lines = [edited.get(i, line) for i, line in enumerate(text.lines)] if edited else text.lines
                if lines == text.lines:
                    continue
                tried[kind.__name__] += 1
                if problem := judge(lines, folder):
                    wrong += 1
                    print(f"WRONG {kind.__name__} of {model}, {rounding}, number {number}: {problem}")
                    for i in list(edited)[:3]:
                        print(f"    {text.lines[i].strip()[:200]}\n -> {lines[i].strip()[:200]}")
    print(f"{sum(tried.values())} edits: {tried}")
    return bool(wrong) or not all(tried.values())


if __name__ == "__main__":
    sys.exit(main())

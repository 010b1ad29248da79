"""Kinds of edits: each takes a step and a source of chance and gives lines, or None where it does not apply.

`KEEPS` are the kinds that no rule forbids where the bits stay the same.
"""

import re

from step_meaning import result_names, split
from step_text import renamed

KINDS = {}
KEEPS = set()


def kind(name, keeps=False):
    def add(function):
        KINDS[name] = function
        if keeps:
            KEEPS.add(name)
        return function

    return add


def pick(rng, items):
    items = list(items)
    return rng.choice(items) if items else None


def add_kinds_of_op(name, word):
    @kind(f"drop-{name}", keeps=name in ("call", "read", "shard", "chunk"))
    def drop(step, rng):
        lines = step.find(word + " ") + step.find(word + "(")
        unused = [i for i in lines if not any(step.users.get(v) for v in result_names(step.lines[i]))]
        i = pick(rng, unused or lines)
        return None if i is None else step.replaced(i)

    @kind(f"double-{name}", keeps=name in ("call", "read", "shard", "chunk", "gather"))
    def double(step, rng):
        i = pick(rng, step.find(word))
        return None if i is None else step.replaced(i, step.lines[i], renamed(step.lines[i]))

    @kind(f"move-{name}", keeps=True)
    def move(step, rng):
        i = pick(rng, step.find(word))
        if i is None:
            return None
        low, high = step.range_to_move(i)
        to = pick(rng, [t for t in range(low, high + 1) if t not in (i, i + 1)])
        # The ends are where rules are broken.
        to = pick(rng, [t for t in (low, high) if t not in (i, i + 1)] + [to] * (to is not None))
        return None if to is None else step.moved(i, to)


def edit_list(line, begin, end, change):
    """`change` of the operands between two marks, of which types say nothing else."""
    first = line.index(begin) + len(begin)
    last = line.index(end, first)
    return line[:first] + ", ".join(change(split(line[first:last]))) + line[last:]


def substitute(step, rng, pattern, new, *words, body=True):
    """One match of a pattern in one line."""
    lines = step.body if body else range(step.first)
    found = [
        (i, m)
        for i in lines
        if all(w in step.lines[i] for w in words)
        for m in re.finditer(pattern, step.lines[i])
    ]
    chosen = pick(rng, found)
    if chosen is None:
        return None
    i, match = chosen
    text = new(match) if callable(new) else new
    line = step.lines[i]
    return step.replaced(i, line[: match.start()] + text + line[match.end() :])


def add_substitution(name, pattern, new, *words, keeps=False, body=True):
    @kind(name, keeps=keeps)
    def change(step, rng):
        chosen = new
        if isinstance(new, list):
            chosen = lambda m: rng.choice([n for n in new if n != m[0]])
        return substitute(step, rng, pattern, chosen, *words, body=body)

"""The lines of a module and what is in them."""

import re

from step_meaning import VALUE, call_types, mix, result_names, split


class Step:
    """The lines of a module and what is in them. Edits make a new list of lines."""

    def __init__(self, text):
        self.lines = text.splitlines()
        self.first = next(i for i, l in enumerate(self.lines) if "func.func" in l) + 1
        self.last = next(i for i, l in enumerate(self.lines) if l.strip().startswith("return"))
        self.body = range(self.first, self.last)
        self.types, self.maker, self.users = {}, {}, {}
        self.number = {}  # what a value is computed from: equal ones may stand for each other
        for i in self.body:
            self.note(i)
        for v in self.operands(self.last):
            self.users.setdefault(v, []).append(self.last)

    def operands(self, i):
        return re.findall(VALUE, re.sub(r"^\s*%\S+ = ", "", self.lines[i]))

    def note(self, i):
        line = self.lines[i]
        for v in self.operands(i):
            self.users.setdefault(v, []).append(i)
        results = result_names(line)
        if "aten.call" in line:
            types = call_types(line)[1]
        elif " -> " in line:
            types = [line.split(" -> ")[-1]]
        elif " : " in line and "start" not in line:
            types = split(line.rsplit(" : ", 1)[1])
        else:
            types = ["!fsdp.handle"] * len(results)
        shown = re.sub(r"^\s*%\S+ = ", "", re.sub(r' (?:fwd|bwd) in ".*?"| at \[[^]]*\]| at \d+', "", line))
        shown = re.sub(VALUE, lambda m: str(self.number.get(m[0])), shown)
        if "fsdp.all_gather.wait" in line:  # of the group, whichever of its gathers it is
            start = self.maker.get(self.operands(i)[0])
            shown = "" if start is None else re.search(r"!fsdp\.shard<@[^,]*, \w+", self.lines[start])[0]
        for k, (result, type_) in enumerate(zip(results, types)):
            self.types[result], self.maker[result] = type_.strip(), i
            self.number[result] = mix(shown, k)

    def find(self, *words, without=()):
        return [
            i
            for i in self.body
            if all(w in self.lines[i] for w in words) and not any(w in self.lines[i] for w in without)
        ]

    def range_to_move(self, i):
        """Between which lines it may stand for SSA: from behind what it uses to before its users."""
        low = max([self.maker[v] + 1 for v in self.operands(i) if v in self.maker] + [self.first])
        users = [u for v in result_names(self.lines[i]) for u in self.users.get(v, [])]
        return low, min(users + [self.last])

    def replaced(self, i, *new):
        return self.lines[:i] + list(new) + self.lines[i + 1 :]

    def moved(self, i, to):
        """`to` is an index of the lines as they are: the line stands before that one."""
        rest = self.lines[:i] + self.lines[i + 1 :]
        to -= to > i
        return rest[:to] + [self.lines[i]] + rest[to:]

    def others_before(self, i, value):
        """Values of the same type that mean something else."""
        return [
            v
            for v, type_ in self.types.items()
            if type_ == self.types[value] and self.number[v] != self.number[value] and self.maker[v] < i
        ]


def sub_operand(line, position, value):
    """The line with another value at a place among its operands."""
    head = re.match(r"^(\s*%\S+ = )?", line)[0]
    spans = [m.span() for m in re.finditer(VALUE, line[len(head) :])]
    first, last = (len(head) + n for n in spans[position])
    return line[:first] + value + line[last:]


def renamed(line, suffix="_again"):
    return re.sub(r"^(\s*%[\w.$-]+)", lambda m: m[1] + suffix, line)

"""What a planned module computes, run symbolically over the bytes of its arena.

Every byte holds a number that stands for how it came to be. An operator reads the bytes of its operands
and writes bytes that stand for the callee, its literals and what it read; a collective reads at its start
and again at its wait, and owns what it writes between them. Two modules mean the same if their losses,
shards, optimizer state and buffers end up as the same numbers. Nothing of the compiler's analyses is used,
the module's text alone.
"""

import hashlib
import re
from math import ceil, prod

import numpy

VALUE = r"%[\w.$-]+(?:#\d+)?"
ITEM = {"f64": 8, "i64": 8, "f32": 4, "i32": 4, "f16": 2, "bf16": 2, "i8": 1, "ui8": 1, "i1": 1}


def split(text):
    """At commas outside of brackets."""
    parts, depth, start = [], 0, 0
    for i, c in enumerate(text):
        if c in "<([{":
            depth += 1
        elif c in ")]}" or (c == ">" and text[i - 1] != "-"):
            depth -= 1
        elif c == "," and depth == 0:
            parts.append(text[start:i].strip())
            start = i + 1
    last = text[start:].strip()
    return parts + [last] if last else parts


def mix(*parts):
    digest = hashlib.blake2b("\0".join(str(p) for p in parts).encode(), digest_size=8)
    return int.from_bytes(digest.digest(), "little")


class Tensor:
    def __init__(self, text):
        match = re.match(r"tensor<((?:\d+x)*)(\w+)", text)
        self.shape = [int(d) for d in match[1].split("x")[:-1]]
        self.item = ITEM[match[2]]
        strides = re.search(r"strides<\[(.*?)\](?:, offset = (\d+))?", text)
        self.strides = [int(s) for s in strides[1].split(",") if s.strip()] if strides else None
        self.offset = int(strides[2] or 0) if strides else 0
        self.elements = prod(self.shape)

    def span(self):
        """First byte and the byte behind the last, from the storage's begin."""
        if self.strides is None:
            count = self.elements
        else:
            count = 1 + sum((d - 1) * s for d, s in zip(self.shape, self.strides))
        return self.offset * self.item, (self.offset + count) * self.item


def result_names(line):
    match = re.match(r"\s*(%[\w.$-]+)(?::(\d+))? = ", line)
    if not match:
        return []
    return [f"{match[1]}#{i}" for i in range(int(match[2]))] if match[2] else [match[1]]


def call_types(line):
    match = re.search(r" : \((.*)\) -> (.*)$", line)
    results = match[2].strip()
    return split(match[1]), split(results[1:-1] if results.startswith("(") else results)


class Meaning:
    def __init__(self, text):
        # Of the group of several modules that is named @"norm, head".
        text = re.sub(r'@"([^"]*)"', lambda name: "@" + re.sub(r"\W+", "_", name[1]), text)
        self.lines = text.splitlines()
        self.host_begin = int(re.search(r"fsdp.arena_bytes = (\d+)", text)[1])
        host = re.search(r"fsdp.host_arena_bytes = (\d+)", text)
        # The host's arena lies behind the device's.
        self.memory = numpy.zeros(self.host_begin + (int(host[1]) if host else 0), numpy.uint64)
        self.place = {}  # value: (begin of its storage, type)
        self.scalars = {}  # value without bytes: number
        self.host = {}  # state on the host, by group
        self.flight = {}  # handle: what happens at its wait
        self.chunks = {}  # chunk: its bytes when it was made, and those of the parameters
        self.restored = {}  # handle of the gather of a chunk: the parameters' bytes
        self.params = {}
        self.groups, self.buffers, self.loss = {}, {}, None
        self.shards = {}  # of each mesh
        for line in self.lines:
            self.visit(line.split(" loc(")[0])

    def result(self):
        found = {"loss": self.loss}
        for name, group in self.groups.items():
            found[name] = self.read(*group["shard"]), self.host.get(name) or self.read(*group["state"])
        for name, (begin, type_) in self.buffers.items():
            found[name] = self.read_tensor(begin, type_)
        return found

    # Memory

    def read(self, begin, end):
        return mix(self.memory[begin:end].tobytes().hex())

    def write(self, begin, end, number):
        self.memory[begin:end] = numpy.uint64(number) + numpy.arange(max(end - begin, 0), dtype=numpy.uint64)

    def read_tensor(self, begin, type_):
        first, last = type_.span()
        return mix(self.read(begin + first, begin + last), type_.shape, type_.strides)

    def of(self, value):
        if value in self.scalars:
            return self.scalars[value]
        return self.read_tensor(*self.place[value])

    def put(self, value, begin, type_, number):
        self.place[value] = begin, type_
        self.write(begin + type_.span()[0], begin + type_.span()[1], number)

    # Operations

    def visit(self, line):
        match = re.match(r"\s*(?:%\S+ = )?(fsdp|aten)\.([\w.]+) ?(.*)$", line)
        if not match:
            match = re.match(r"\s*return (%\S+)", line)
            if match:
                self.loss = self.of(match[1])
            return
        visitor = getattr(self, "visit_" + match[2].replace(".", "_"), None)
        if visitor is None:
            raise ValueError(f"no meaning is known of: {line}")
        visitor(line, match[3], result_names(line))

    def visit_param(self, line, rest, results):
        name, type_ = re.match(r"@(\S+) : (.*)$", rest).groups()
        self.params[name] = Tensor(type_)

    def visit_buffer(self, line, rest, results):
        name, type_, begin = re.match(r"@(\S+) : (.*) at (\d+)$", rest).groups()
        self.buffers[name] = int(begin), Tensor(type_)
        self.write(int(begin), int(begin) + self.buffers[name][1].span()[1], mix("buffer", name))

    def visit_optimizer(self, line, rest, results):
        self.optimizer = rest

    def visit_mesh(self, line, rest, results):
        name, shards = re.match(r"@(\S+) <.*?(\d+)>", rest).groups()
        self.shards[name] = int(shards)

    def visit_group(self, line, rest, results):
        name = re.match(r"@(\S+)", rest)[1]
        members = re.findall(r"@([\w.]+)", re.search(r"\[(.*?)\]", rest)[1])
        flat = " flat " in rest
        sizes = [self.params[m].elements * self.params[m].item for m in members]
        shard, host_shard = re.search(r" at shard (\d+)", rest), re.search(r" host_shard (\d+)", rest)
        begin = int(shard[1]) if shard else self.host_begin + int(host_shard[1])
        states = re.search(r" states \[(\d+)", rest)
        shards = self.shards[re.search(r" over @(\S+)", rest)[1]]
        bytes_ = ceil(sum(sizes) / shards)
        group = {"members": members, "sizes": sizes, "flat": flat, "shards": shards, "shard": (begin, begin + bytes_)}
        group["state"] = (int(states[1]), int(states[1]) + bytes_) if states else (0, 0)
        group["host"] = "optimizer_state host" in rest
        group["is_shard_on_host"] = shard is None
        group["dtype"] = re.search(r"gather_dtype (\w+)", rest)
        self.write(*group["shard"], mix("shard", name))
        if group["host"]:
            group["state"] = (0, 0)
            self.host[name] = mix("state", name)
        else:
            self.write(*group["state"], mix("state", name))
        self.groups[name] = group

    def visit_input(self, line, rest, results):
        match = re.match(r'"(\w+)"(?: microbatch (\d+))?(?: at (\d+))? : (.*)$', rest)
        number = mix("input", match[1], match[2])
        if match[3] is None:
            self.scalars[results[0]] = number
        else:
            self.put(results[0], int(match[3]), Tensor(match[4]), number)

    def visit_loss_scale(self, line, rest, results):
        begin, type_ = re.match(r"at (\d+) : (.*)$", rest).groups()
        self.put(results[0], int(begin), Tensor(type_), mix("loss scale"))

    def visit_read(self, line, rest, results):
        name, type_ = re.match(r"@(\S+) : (.*)$", rest).groups()
        if name in self.buffers:
            self.place[results[0]] = self.buffers[name]
            return
        for group in self.groups.values():
            begin = group["shard"][0]
            for member, size in zip(group["members"], group["sizes"]):
                if member == name:
                    self.place[results[0]] = begin, Tensor(type_)
                begin += size

    def visit_write(self, line, rest, results):
        name, value = re.match(rf"@(\S+), ({VALUE})", rest).groups()
        begin, type_ = self.buffers[name]
        self.write(begin, begin + type_.span()[1], mix("copy", self.of(value)))

    def visit_constant(self, line, rest, results):
        self.scalars[results[0]] = mix("constant", rest)

    def visit_call(self, line, rest, results):
        callee = re.match(r'"([^"]+)"', rest)[1]
        arguments, tail = rest[len(callee) + 3 :].rsplit(" : (", 1)[0], ""
        depth = 1
        for i, c in enumerate(arguments):
            depth += (c == "(") - (c == ")")
            if depth == 0:
                arguments, tail = arguments[:i], arguments[i + 1 :]
                break
        operands = re.findall(VALUE, arguments)
        offsets = re.search(r" at \[([^]]*)\]", tail)
        rng = re.search(r" rng \d+", tail)
        types = [Tensor(t) if t.startswith("tensor") else None for t in call_types(line)[1]]
        if offsets is None:  # a view
            for value, type_ in zip(results, types):
                if operands[0] in self.scalars:
                    self.scalars[value] = mix(line, self.scalars[operands[0]])
                else:
                    self.place[value] = self.place[operands[0]][0], type_
            offsets = [-1] * len(results)
            if not callee.split(".")[0].endswith("_"):
                return
        else:
            offsets = [int(o) for o in offsets[1].split(",")]
        read = [self.of(v) for v in operands]
        whole = mix(callee, re.sub(VALUE, "%", arguments), rng and rng[0], *read)
        if callee.split(".")[0].endswith("_") and not callee.startswith("__"):
            begin, type_ = self.place[operands[0]]
            self.write(begin + type_.span()[0], begin + type_.span()[1], whole)
        for i, (value, type_, offset) in enumerate(zip(results, types, offsets)):
            if type_ and offset >= 0:
                self.put(value, offset, type_, mix(whole, i))

    # Collectives

    def launch(self, handle, source, target, finish):
        """`source` gives what is read; `target` is not to be touched until the wait."""
        before = source()
        sign = mix("in flight", handle, before)
        if target:
            self.write(*target, sign)
        poisoned = self.read(*target) if target else None

        def land():
            whole = target is None or self.read(*target) == poisoned
            finish(mix("landed", before, source(), whole))

        self.flight[handle] = land

    def copy(self, handle, source, target):
        """At the wait `target` has the bytes of `source`, if nobody has touched either."""
        before, held = self.read(*source), self.memory[slice(*source)].copy()
        self.write(*target, mix("in flight", handle, before))
        poisoned = self.read(*target)

        def land():
            if self.read(*source) == before and self.read(*target) == poisoned:
                self.memory[slice(*target)] = held
            else:
                self.write(*target, mix("torn", before, self.read(*source), self.read(*target)))

        return land

    def visit_shard(self, line, rest, results):
        self.place[results[0]] = re.match(r"@(\S+)", rest)[1], None

    def visit_all_gather_start(self, line, rest, results):
        shard = re.match(VALUE, rest)[0]
        name, dtype = re.search(r"shard<@(\S+), (\w+)", line).groups()
        group = self.groups[name]
        begin = int(re.search(r" at (\d+)", rest)[1])
        sizes = [self.params[m].elements * ITEM[dtype] for m in group["members"]]
        target = begin, begin + sum(sizes)
        axes = re.search(r"over (\[.*?\])", rest)[1]

        def finish(number):
            at = begin
            for member, size in zip(group["members"], sizes):
                self.write(at, at + size, mix("gathered", axes, dtype, member, number))
                at += size

        self.place[results[0]] = begin, group
        if shard not in self.chunks:
            self.launch(results[0], lambda: self.read(*group["shard"]), target, finish)
            return
        made, params = self.chunks[shard]
        span = self.place[shard][0]
        whole = self.read(*span) == made

        def restore(number):
            finish(number)
            if whole and self.read(*span) == made:
                self.restored[results[0]] = params

        self.launch(results[0], lambda: self.read(*span), target, restore)

    def visit_chunk(self, line, rest, results):
        """A few ranks together have the parameters' bytes as they are now."""
        params = [self.span(v) for v in re.findall(VALUE, re.match(r"\((.*?)\)", rest)[1])]
        begin = int(re.search(r" at (\d+)", rest)[1])
        name, ranks = re.search(r"shard<@(\S+), \w+, (\d+)>", rest).groups()
        span = begin, begin + ceil(sum(last - first for first, last in params) / int(ranks))
        held = [self.memory[first:last].copy() for first, last in params]
        self.write(*span, mix("chunk", name, ranks, *[self.read(*p) for p in params]))
        self.place[results[0]] = span, name
        self.chunks[results[0]] = self.read(*span), held

    def visit_all_gather_wait(self, line, rest, results):
        handle = re.match(VALUE, rest)[0]
        self.flight.pop(handle)()
        begin, group = self.place[handle]
        types = [Tensor(t) for t in split(rest.split(" : ", 1)[1])]
        offsets = re.search(r" at \[([^]]*)\]", rest)
        offsets = [int(o) for o in offsets[1].split(",")] if offsets else None
        copied = [self.read(begin, begin + sum(t.span()[1] for t in types))]
        for i, (value, type_) in enumerate(zip(results, types)):
            if offsets:
                self.put(value, offsets[i], type_, mix(group["members"][i], *copied))
            else:
                self.place[value] = begin, type_
                begin += type_.span()[1]
            if handle in self.restored:
                first, last = self.span(value)
                self.memory[first:last] = self.restored[handle][i]

    def visit_reshard(self, line, rest, results):
        pass

    def pack(self, begin, values):
        """Copies what does not lie in its place; numbers move with the bytes."""
        for value in values:
            place, type_ = self.place[value]
            size = type_.elements * type_.item
            if type_.strides is None and type_.offset == 0:
                self.memory[begin : begin + size] = self.memory[place : place + size].copy()
            else:
                self.write(begin, begin + size, mix("packed", self.of(value)))
            begin += size
        return begin

    def visit_reduce_scatter_start(self, line, rest, results):
        name, grads, tail = re.match(r"@(\S+?)\((.*?)\) (.*)$", rest).groups()
        source, target = [int(o) for o in re.search(r" at \[([^]]*)\]", rest)[1].split(",")]
        values = re.findall(VALUE, grads)
        end = self.pack(source, values)
        kind = re.match(r"over (\[.*?\]) (\w+)", tail).groups()
        shard = target, target + ceil((end - source) / self.groups[name]["shards"])
        overlap = shard[0] < end and source < shard[1]
        self.place[results[0]] = shard, name
        self.launch(
            results[0],
            lambda: self.read(source, end),
            None if overlap else shard,
            lambda number: self.write(*shard, mix("reduced", kind, name, number)),
        )

    def visit_reduce_scatter_wait(self, line, rest, results):
        handle = re.match(VALUE, rest)[0]
        if handle in self.flight:
            self.flight.pop(handle)()
        self.place[results[0]] = self.place[handle]

    def visit_all_reduce_start(self, line, rest, results):
        source = re.match(VALUE, rest)[0]
        kind = re.search(r"over (\[.*?\]) (\w+)", rest).groups()
        if source in self.flight:  # the reduction ends first
            self.flight.pop(source)()
        span = self.span(source)
        self.place[results[0]] = self.place[source]
        held = self.read(*span)
        self.launch(
            results[0],
            lambda: mix(kind, held),
            span,
            lambda number: self.write(*span, mix("all", number)),
        )

    def visit_all_reduce_wait(self, line, rest, results):
        handle = re.match(VALUE, rest)[0]
        self.flight.pop(handle)()
        self.place[results[0]] = self.place[handle]

    def visit_pack(self, line, rest, results):
        name, grads = re.match(r"@(\S+?)\((.*?)\)", rest).groups()
        begin = int(re.search(r" at (\d+)", rest)[1])
        end = self.pack(begin, re.findall(VALUE, grads))
        self.place[results[0]] = (begin, end), name

    def span(self, value):
        place, what = self.place[value]
        return place if isinstance(place, tuple) else (place + what.span()[0], place + what.span()[1])

    def visit_accumulate(self, line, rest, results):
        sum_, gradient = re.match(rf"({VALUE}), ({VALUE})", rest).groups()
        span = self.span(sum_)
        self.write(*span, mix("sum", self.read(*span), self.read(*self.span(gradient))))
        self.place[results[0]] = self.place[sum_]

    # Clipping, updates and state

    def visit_partial_norm(self, line, rest, results):
        norm, grads = re.match(r"(\w+)\((.*?)\)", rest).groups()
        grads = re.findall(VALUE, grads)
        begin = int(re.search(r" at (\d+)", rest)[1])
        # Plans do not say the operands: the runtime adds up the groups in an order of its own.
        sums = sorted(self.scalars[g] if g in self.scalars else self.read(*self.place[g][0]) for g in grads)
        self.put(results[0], begin, Tensor("tensor<f64>"), mix("norm", norm, *sums))

    def visit_shard_norm(self, line, rest, results):
        norm, gradient = re.match(r"(\w+)\((.*?)\)", rest).groups()
        self.scalars[results[0]] = self.read(*self.place[gradient][0])

    def visit_clip_factor(self, line, rest, results):
        self.scalars[results[0]] = mix("clip", *map(self.of, re.findall(VALUE, rest)))

    def visit_fetch_state_start(self, line, rest, results):
        name, offsets = re.match(r"@(\S+) at \[([^]]*)\]", rest).groups()
        offsets = [int(o) for o in offsets.split(",") if o.strip()]
        group = self.groups[name]
        size = group["shard"][1] - group["shard"][0]
        fetched = {}
        if group["is_shard_on_host"]:
            fetched["shard"] = offsets[0], offsets.pop(0) + size
        if group["host"] and offsets:
            fetched["state"] = state = offsets[0], offsets[0] + size
            self.launch(results[0], lambda: self.host[name], state, lambda n: self.write(*state, mix("fetched", n)))
        self.place[results[0]] = fetched, name
        if "shard" in fetched:
            self.also(results[0], self.copy(results[0], group["shard"], fetched["shard"]))

    def also(self, handle, land):
        """Two copies that one wait is for."""
        first = self.flight.get(handle)
        self.flight[handle] = lambda: (first and first(), land())

    def visit_fetch_state_wait(self, line, rest, results):
        handle = re.match(VALUE, rest)[0]
        self.flight.pop(handle)()
        self.place[results[0]] = self.place[handle]

    def visit_store_state_start(self, line, rest, results):
        fetched, name = self.place[re.match(VALUE, rest)[0]]
        if "state" in fetched:
            self.launch(results[0], lambda: self.read(*fetched["state"]), None, lambda n: self.host.update({name: n}))
        if "shard" in fetched:
            self.also(results[0], self.copy(results[0], fetched["shard"], self.groups[name]["shard"]))

    def visit_store_state_wait(self, line, rest, results):
        self.flight.pop(re.match(VALUE, rest)[0])()

    def copy_value(self, rest, results, host):
        """A gradient, or an activation, whose type it keeps."""
        value, begin = re.match(rf"({VALUE}) at (\d+)", rest).groups()
        (first, last), what = self.span(value), self.place[value][1]
        begin = int(begin) + host
        self.place[results[0]] = (begin, begin + last - first), what
        self.flight[results[0]] = self.copy(results[0], (first, last), self.place[results[0]][0])

    def visit_store_start(self, line, rest, results):
        self.copy_value(rest, results, self.host_begin)

    def visit_fetch_start(self, line, rest, results):
        self.copy_value(rest, results, 0)

    visit_store_wait = visit_fetch_state_wait

    def visit_fetch_wait(self, line, rest, results):
        self.visit_fetch_state_wait(line, rest, results)
        place, what = self.place[results[0]]
        if isinstance(what, Tensor):
            self.place[results[0]] = place[0], what

    def visit_update(self, line, rest, results):
        name, gradient = re.match(rf"@(\S+) with ({VALUE})", rest).groups()
        group = self.groups[name]
        others = [self.of(v) for v in re.findall(rf"(?:step|lr|clip|scale) ({VALUE})", rest)]
        state = re.search(rf" state ({VALUE})", rest)
        fetched = self.place[state[1]][0] if state else {}
        span, shard = fetched.get("state", group["state"]), fetched.get("shard", group["shard"])
        number = mix("update", self.optimizer, *others, self.read(*self.place[gradient][0]), self.read(*span), self.read(*shard))
        self.write(*shard, mix(number, "shard"))
        self.write(*span, mix(number, "state"))


def meaning(text):
    return Meaning(text).result()

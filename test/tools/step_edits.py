"""Edits of single operations: their operands, literals, places and order."""

import re

from edit_kinds import add_kinds_of_op, add_substitution, kind, pick, substitute
from step_meaning import VALUE, result_names, split
from step_text import renamed, sub_operand


OPS = {
    "update": "fsdp.update",
    "reshard": "fsdp.reshard",
    "gather": "fsdp.all_gather.start",
    "gather-wait": "fsdp.all_gather.wait",
    "reduction": "fsdp.reduce_scatter.start",
    "reduction-wait": "fsdp.reduce_scatter.wait",
    "all-reduce": "fsdp.all_reduce.start",
    "all-reduce-wait": "fsdp.all_reduce.wait",
    "pack": "fsdp.pack",
    "accumulation": "fsdp.accumulate",
    "write": "fsdp.write",
    "read": "fsdp.read",
    "shard": "fsdp.shard",
    "chunk": "fsdp.chunk",
    "norm": "fsdp.partial_norm",
    "loss-scale": "fsdp.loss_scale",
    "fetch": "fsdp.fetch_state.start",
    "fetch-wait": "fsdp.fetch_state.wait",
    "store": "fsdp.store_state.start",
    "store-wait": "fsdp.store_state.wait",
    "value-store": "fsdp.store.start",
    "value-store-wait": "fsdp.store.wait",
    "value-fetch": "fsdp.fetch.start",
    "value-fetch-wait": "fsdp.fetch.wait",
    "call": "aten.call",
}


for name_, word_ in OPS.items():
    add_kinds_of_op(name_, word_)


def gradients_line(step, rng):
    return pick(rng, step.find("fsdp.reduce_scatter.start") + step.find("fsdp.pack"))


def swap_equal(step, rng, operands):
    pairs = [
        (a, b)
        for a in range(len(operands))
        for b in range(a)
        if step.types.get(operands[a]) == step.types.get(operands[b])
        and step.number.get(operands[a]) != step.number.get(operands[b])
    ]
    return pick(rng, pairs)


@kind("swap-gradients")
def swap_gradients(step, rng):
    i = gradients_line(step, rng)
    grads = step.operands(i)
    pair = swap_equal(step, rng, grads)
    if pair is None:
        return None
    line = sub_operand(sub_operand(step.lines[i], pair[0], grads[pair[1]]), pair[1], grads[pair[0]])
    return step.replaced(i, line)


@kind("double-gradient")
def double_gradient(step, rng):
    i = gradients_line(step, rng)
    grads = step.operands(i)
    pair = swap_equal(step, rng, grads)
    return pair and step.replaced(i, sub_operand(step.lines[i], pair[0], grads[pair[1]]))


@kind("other-gradient")
def other_gradient(step, rng):
    i = gradients_line(step, rng)
    return other_operand_of(step, rng, i)


def other_operand_of(step, rng, i, among=lambda v: True):
    if i is None:
        return None
    operands = step.operands(i)
    k = pick(rng, [k for k, v in enumerate(operands) if v in step.types])
    if k is None:
        return None
    value = pick(rng, filter(among, step.others_before(i, operands[k])))
    return value and step.replaced(i, sub_operand(step.lines[i], k, value))


@kind("other-operand")
def other_operand(step, rng):
    return other_operand_of(step, rng, pick(rng, step.find("aten.call")))


@kind("other-parameter")
def other_parameter(step, rng):
    def is_parameter(v):
        line = step.lines[step.maker[v]]
        return "all_gather.wait" in line or "fsdp.read" in line

    users = [i for i in step.find("aten.call") if any(v in step.types and is_parameter(v) for v in step.operands(i))]
    rng.shuffle(users)
    for i in users:
        for k, v in enumerate(step.operands(i)):
            if v in step.types and is_parameter(v):
                value = pick(rng, filter(is_parameter, step.others_before(i, v)))
                if value:
                    return step.replaced(i, sub_operand(step.lines[i], k, value))
    return None


@kind("swap-operands")
def swap_operands(step, rng):
    lines = step.find("aten.call")
    rng.shuffle(lines)
    for i in lines:
        operands = step.operands(i)
        pair = swap_equal(step, rng, operands)
        if pair:
            line = sub_operand(step.lines[i], pair[0], operands[pair[1]])
            return step.replaced(i, sub_operand(line, pair[1], operands[pair[0]]))
    return None


@kind("other-write")
def other_write(step, rng):
    return other_operand_of(step, rng, pick(rng, step.find("fsdp.write")))


@kind("other-return")
def other_return(step, rng):
    return other_operand_of(step, rng, step.last)


@kind("other-handle")
def other_handle(step, rng):
    return other_operand_of(step, rng, pick(rng, step.find(".wait") + step.find("fsdp.reshard")))


@kind("other-stored")
def other_stored(step, rng):
    return other_operand_of(step, rng, pick(rng, step.find("fsdp.store.start") + step.find("fsdp.fetch.start")))


@kind("other-state")
def other_state(step, rng):
    return substitute(step, rng, r"!fsdp\.state<@(\S+?)>", lambda m: f"!fsdp.state<@{m[1]}0>")


@kind("stale-parameter", keeps=True)
def stale_parameter(step, rng):
    """The parameter as an earlier or later gather yields it."""
    found = []
    for i in step.find("aten.call"):
        for k, v in enumerate(step.operands(i)):
            if v in step.maker and "all_gather.wait" in step.lines[step.maker[v]]:
                found += [
                    (i, k, w)
                    for w in step.types
                    if w != v and step.number[w] == step.number[v] and step.maker[w] < i
                ]
    chosen = pick(rng, found)
    return chosen and step.replaced(chosen[0], sub_operand(step.lines[chosen[0]], chosen[1], chosen[2]))


STREAMS = [f"on {s}" for s in ("gather", "reduce", "replicate", "compute")]
add_substitution("other-stream", r"\bon \w+", STREAMS, keeps=True)
add_substitution("other-axis", r'over \["\w+"\]', ['over ["dp"]', 'over ["shard"]', 'over ["replicate"]'])
add_substitution("two-axes", r'over \["shard"\]', 'over ["replicate", "shard"]')
add_substitution("no-axis", r'over \["\w+"\]', "over []")
add_substitution("sum-for-avg", r"\] avg\b", "] sum")
add_substitution("avg-for-sum", r"\] sum\b", "] avg")
add_substitution("max-for-sum", r"\] sum\b", "] max")
add_substitution("sum-for-max", r"\] max\b", "] sum")
add_substitution("neg-for-relu", r'"relu\.default"', '"neg.default"')
add_substitution("sub-for-add", r'"add\.Tensor"', '"sub.Tensor"')
add_substitution("div-for-mul", r'"mul\.(Tensor|Scalar)"', lambda m: f'"div.{m[1]}"')
add_substitution("add-in-place", r'"add\.(Tensor|Scalar)"', lambda m: f'"add_.{m[1]}"')
add_substitution("relu-in-place", r'"(relu|neg|silu)\.default"', lambda m: f'"{m[1]}_.default"')
add_substitution("mul-in-place", r'"mul\.(Tensor|Scalar)"', lambda m: f'"mul_.{m[1]}"')
add_substitution("out-variant", r'"(\w+)\.default"', lambda m: f'"{m[1]}.out"', "aten.call")
add_substitution("unknown-callee", r'"(\w+)\.default"', lambda m: f'"{m[1]}x.default"', "aten.call")
add_substitution("other-scalar", r"(?<=, )\d\.\d+e[+-]\d+", "3.000000e-01", "aten.call")
add_substitution("other-integer", r"(?<=, )\d+(?=[,)])", lambda m: str(int(m[0]) + 1), "aten.call")
add_substitution("other-flag", r"(?<=, )(true|false)(?=[,)])", ["true", "false"], "aten.call")
add_substitution("other-list", r"\[(\d+), (\d+)", lambda m: f"[{m[2]}, {int(m[1]) + 1}", "aten.call")
add_substitution("none-for-operand", rf"{VALUE}, (?={VALUE})", "none, ", "aten.call")
add_substitution("other-rng", r"rng \d+", lambda m: f"rng {int(m[0][4:]) + 1}")
add_substitution("no-rng", r" rng \d+", "")
add_substitution("an-rng", r' in "[\w.]*"(?! rng)', lambda m: m[0] + " rng 0", "aten.call")
add_substitution("other-phase", r"\b(fwd|bwd)\b", lambda m: "bwd" if m[0] == "fwd" else "fwd", keeps=True)
add_substitution("other-module", r' in "[\w.]+"', ' in "nowhere"', keeps=True)
add_substitution("no-coalesced", r" coalesced", "", keeps=True)
add_substitution("coalesced", r"on \w+(?! coalesced)", lambda m: m[0] + " coalesced", ".start", keeps=True)
add_substitution("offset-0", r" at \d+", " at 0", keeps=True)
add_substitution("offset-elsewhere", r" at \d+", lambda m: f" at {int(m[0][4:]) + 64}", keeps=True)
add_substitution("offset-misaligned", r" at \d+", lambda m: f" at {int(m[0][4:]) + 4}")
add_substitution("offset-negative", r" at \d+", " at -64")
add_substitution("offset-huge", r" at \d+", " at 9223372036854775744")
add_substitution("no-offset", r" at (\d+|\[.*?\])", "")
add_substitution("call-offset", r" at \[(\d+)", lambda m: f" at [{int(m[1]) + 64}", keeps=True)
add_substitution("call-offset-0", r" at \[(\d+)", " at [0", keeps=True)
add_substitution("call-offset-none", r" at \[(\d+)", " at [-1")
add_substitution("second-offset", r"(at \[\d+, )(\d+)", lambda m: f"{m[1]}{int(m[2]) + 64}", keeps=True)
add_substitution("second-offset-0", r"(at \[\d+, )(\d+)", lambda m: f"{m[1]}0", keeps=True)
add_substitution("update-without-gradient", r"(fsdp\.update @\S+) with %\S+(.*) : !fsdp\.shard<[^>]*>", lambda m: m[1] + m[2])
add_substitution("update-without-clip", r" clip %\w+", "")
add_substitution("update-without-scale", r"(fsdp\.update .*) scale %\w+", lambda m: m[1])
add_substitution("clip-without-scale", r"(clip_factor .*) scale %\w+", lambda m: m[1])
add_substitution("update-without-state", r"(fsdp\.update .*) state %\w+(.*), !fsdp\.state<[^>]*>", lambda m: m[1] + m[2])
add_substitution("swap-step-and-lr", r"step %step lr %lr", "step %lr lr %step")
add_substitution("shard-dtype", r"(!fsdp\.shard<@[\w.]+, )f32", lambda m: m[1] + "bf16")
add_substitution("type-shape", r"tensor<(\d+)x(\d+)x", lambda m: f"tensor<{m[2]}x{m[1]}x", "aten.call")
add_substitution("type-strides", r"strides<\[(\d+), (\d+)", lambda m: f"strides<[{m[2]}, {m[1]}")
add_substitution("type-offset", r"offset = \d+", "offset = 0")
add_substitution("type-dtype", r"(\d)xf32>", lambda m: m[1] + "xf64>")
add_substitution("other-input", r'fsdp\.input "\w+"', 'fsdp.input "other"')
add_substitution("input-for-input", r'fsdp\.input "(targets|ids|tokens)"', 'fsdp.input "x"')
add_substitution("other-group-of-shard", r"fsdp\.shard @[\w.]+", "fsdp.shard @root")
add_substitution("no-argument", r"@step\(\)", "@step(%extra: i64)", body=False)
add_substitution("phase-captured", r"module_phase<\w+>", "module_phase<captured>", body=False)
add_substitution("phase-sharded", r"module_phase<\w+>", "module_phase<sharded>", body=False)
add_substitution("phase-other", r"module_phase<(\w+)>", lambda m: "module_phase<%s>" % ("planned" if m[1] == "scheduled" else "scheduled"), body=False)
add_substitution("other-provenance", r'(provenance = "\w)\w', lambda m: m[1] + "-", body=False)
add_substitution("smaller-arena", r"arena_bytes = (\d+)", lambda m: f"arena_bytes = {int(m[1]) - 64}", body=False)
add_substitution("arena-0", r"arena_bytes = (\d+)", "arena_bytes = 0", body=False)
add_substitution("param-shape", r"(param @\S+ : tensor<)(\d+)x(\d+)x", lambda m: f"{m[1]}{m[3]}x{m[2]}x" if m[2] != m[3] else f"{m[1]}1x{m[2]}x{m[3]}x", body=False)
add_substitution("param-dtype", r"(param @.*)f32>", lambda m: m[1] + "bf16>", body=False)
add_substitution("mesh-without", r"<dp = 2>", "<dp = 1>", body=False)
add_substitution("mesh-with", r"<dp = 1>", "<dp = 2>", body=False)
add_substitution("mesh-axes-swapped", r"<replicate = 2, shard = 2>", "<shard = 2, replicate = 2>", body=False)
add_substitution("group-without-replicas", r' replicated "replicate"', "", body=False)
add_substitution("clip-in-optimizer", r"(momentum = \S+|eps = \S+)$", lambda m: m[0] + " clip_grad_norm = 1.0", body=False)
add_substitution("no-scale-in-optimizer", r" loss_scale = .* growth_interval = \S+", "", body=False)
add_substitution("no-clip-in-optimizer", r" clip_grad_norm = \S+", "", body=False)


def used_values(step, i):
    return [v for v, m in step.maker.items() if m < i and step.types[v].startswith("tensor") and any(u > i for u in step.users.get(v, []))]


@kind("insert-in-place")
def insert_in_place(step, rng):
    """A dead operator that overwrites a value which is used later."""
    i = rng.choice(step.body)
    v = pick(rng, [v for v in used_values(step, i) if "f32" in step.types[v]])
    if v is None:
        return None
    t = step.types[v]
    return step.replaced(i, f'    %dead = aten.call "mul_.Scalar"({v}, 2.000000e+00) fwd in "" : ({t}) -> {t}', step.lines[i])


@kind("insert-all-reduce")
def insert_all_reduce(step, rng):
    """A reduction in place of a value that is used later, or of a view of it."""
    i = rng.choice(step.body)
    mesh = re.search(r"mesh @\S+ <.*?(\w+) = \d+>", "\n".join(step.lines))[1]
    v = pick(rng, [v for v in used_values(step, i) if "f32" in step.types[v]])
    if v is None:
        return None
    t, lines = step.types[v], []
    if rng.random() < 0.7 and "strides" not in t:
        shape = re.search(r"<((?:\d+x)*)", t)[1].split("x")[:-1]
        lines.append(f'    %dead = aten.call "view.default"({v}, [{", ".join(shape)}]) bwd in "" : ({t}) -> {t}')
        v = "%dead"
    lines.append(f'    %dead_n = fsdp.all_reduce.start {v} over ["{mesh}"] sum bwd on reduce : {t}')
    lines.append(f"    %dead_t = fsdp.all_reduce.wait %dead_n : {t}")
    return step.replaced(i, *lines, step.lines[i])


@kind("insert-all-reduce-of-buffer")
def insert_all_reduce_of_buffer(step, rng):
    """A reduction in place of what is read again next time."""
    header = [l for l in step.lines if re.match(r"\s*fsdp\.(buffer|input)", l) and "tensor" in l and "f32" in l]
    line = pick(rng, header)
    if line is None:
        return None
    mesh = re.search(r"mesh @\S+ <.*?(\w+) = \d+>", "\n".join(step.lines))[1]
    if "buffer" not in line:
        return None
    name, t = re.search(r"(@\S+) : (tensor<\S+>)", line).groups()
    i = rng.choice(step.body)
    return step.replaced(
        i,
        f"    %dead = fsdp.read {name} : {t}",
        f'    %dead_n = fsdp.all_reduce.start %dead over ["{mesh}"] sum bwd on reduce : {t}',
        f"    %dead_t = fsdp.all_reduce.wait %dead_n : {t}",
        step.lines[i],
    )


@kind("loss-after-updates")
def loss_after_updates(step, rng):
    """What the loss is computed from is computed again, behind updates and writes."""
    value = step.operands(step.last)[0]
    lines, todo = set(), [value]
    while todo:
        i = step.maker.get(todo.pop())
        if i is not None and i not in lines and ("aten.call" in step.lines[i] or "fsdp.read" in step.lines[i]):
            lines.add(i)
            todo += step.operands(i)
    made = {re.sub(r"#.*", "", v) for i in lines for v in result_names(step.lines[i])}
    again = [
        re.sub(r"%[\w.$-]+", lambda m: m[0] + "_again" if m[0] in made else m[0], step.lines[i])
        for i in sorted(lines) + [step.last]
    ]
    return step.lines[: step.last] + again + step.lines[step.last + 1 :]


@kind("late-operator", keeps=True)
def late_operator(step, rng):
    """An operator as late as its users allow, on parameters and buffers read again there."""
    lines = [i for i in step.find("aten.call") if any("fsdp.read" in step.lines[step.maker[v]] for v in step.operands(i) if v in step.maker)]
    i = pick(rng, lines)
    if i is None:
        return None
    high = step.range_to_move(i)[1]
    reads = {v: step.maker[v] for v in step.operands(i) if v in step.maker and "fsdp.read" in step.lines[step.maker[v]]}
    again = [renamed(step.lines[m]) for m in reads.values()]
    line = re.sub(VALUE, lambda m: m[0] + "_again" if m[0] in reads else m[0], step.lines[i])
    return step.lines[:i] + step.lines[i + 1 : high] + again + [line] + step.lines[high:]


@kind("insert-write")
def insert_write(step, rng):
    i = pick(rng, step.find("fsdp.write"))
    return i and step.replaced(i, step.lines[i], re.sub(r", %\S+", ", %s", step.lines[i]))


@kind("insert-random", keeps=True)
def insert_random(step, rng):
    """A dead random operator, with the number of another."""
    i = pick(rng, step.find(" rng "))
    if i is None:
        return None
    low, high = step.range_to_move(i)
    return step.replaced(i, renamed(step.lines[i], "_dead"), step.lines[i])


@kind("swap-rng")
def swap_rng(step, rng):
    return [re.sub(r" rng ([01])\b", lambda m: f" rng {1 - int(m[1])}", l) for l in step.lines] if step.find(" rng ") else None


@kind("swap-adjacent", keeps=True)
def swap_adjacent(step, rng):
    i = rng.choice(step.body[:-1])
    if set(result_names(step.lines[i])) & set(step.operands(i + 1)):
        return None
    return step.moved(i, i + 2)


@kind("swap-distant", keeps=True)
def swap_distant(step, rng):
    i, j = sorted(rng.sample(step.body, 2))
    out = list(step.lines)
    out[i], out[j] = out[j], out[i]
    return out


@kind("empty-step")
def empty_step(step, rng):
    return step.lines[: step.first] + step.lines[step.last :]


@kind("truncated")
def truncated(step, rng):
    return step.lines[: rng.choice(step.body)]

"""Edits of groups, of what is reduced, added up and clipped, and of what updates take."""

import re

from edit_kinds import add_substitution, edit_list, kind, pick, substitute
from step_meaning import VALUE, result_names
from step_text import sub_operand


@kind("swap-in-group")
def swap_in_group(step, rng):
    def change(match):
        names = match[1].split(", ")
        a, b = rng.sample(range(len(names)), 2)
        names[a], names[b] = names[b], names[a]
        return "[" + ", ".join(names) + "] of"

    return substitute(step, rng, r"\[(@\S+, [^]]*)\] of", change, "fsdp.group", body=False)


@kind("swap-between-groups")
def swap_between_groups(step, rng):
    names = [re.findall(r"@[\w.]+", re.search(r"\[(.*?)\]", l)[1]) for l in step.lines if "fsdp.group @" in l]
    if len(names) < 2:
        return None
    a, b = rng.sample(names, 2)
    x, y = rng.choice(a), rng.choice(b)
    return [
        re.sub(r"@[\w.]+", lambda m: {x: y, y: x}.get(m[0], m[0]), l) if "fsdp.group @" in l else l for l in step.lines
    ]


@kind("drop-from-group")
def drop_from_group(step, rng):
    return substitute(step, rng, r"(\[@[^]]*), @[^],]+\] of", lambda m: m[1] + "] of", "fsdp.group", body=False)


@kind("gather-of-another-group")
def gather_of_another_group(step, rng):
    return substitute(
        step, rng, r"all_gather\.start (%\w+) (.*)<@[\w.]+,", lambda m: f"all_gather.start %s {m[2]}<@layers.0,"
    ) or substitute(step, rng, r"all_gather\.start %\w+", "all_gather.start %s")


@kind("update-of-another-group")
def update_of_another_group(step, rng):
    return substitute(step, rng, r"fsdp\.update @[\w.]+", "fsdp.update @root")


@kind("reduction-of-another-group")
def reduction_of_another_group(step, rng):
    names = [m[1] for l in step.lines if (m := re.search(r"fsdp\.group (@\S+)", l))]
    return substitute(step, rng, r"(reduce_scatter\.start|pack) @[\w.]+", lambda m: f"{m[1]} {rng.choice(names)}") if len(names) > 1 else None


@kind("updates-swapped")
def updates_swapped(step, rng):
    """Two updates, each with the gradient of the other."""
    lines = step.find("fsdp.update")
    if len(lines) < 2:
        return None
    a, b = rng.sample(lines, 2)
    names = [re.search(r"update @\S+", step.lines[i])[0] for i in (a, b)]
    out = list(step.lines)
    out[a], out[b] = out[a].replace(*names), out[b].replace(*reversed(names))
    return out


@kind("shards-swapped")
def shards_swapped(step, rng):
    lines = step.find("fsdp.shard @")
    if len(lines) < 2:
        return None
    a, b = rng.sample(lines, 2)
    out = list(step.lines)
    out[a], out[b] = (re.sub(r"%\w+ =", re.match(r"\s*(%\w+)", step.lines[j])[1] + " =", step.lines[i]) for i, j in ((a, b), (b, a)))
    return out


def norm_of(line):
    """What precedes the operands of the norm."""
    return re.search(r"partial_norm \w+\(", line)[0]


@kind("norm-without-one")
def norm_without_one(step, rng):
    i = pick(rng, step.find("fsdp.partial_norm"))
    if i is None:
        return None
    line = edit_list(step.lines[i], norm_of(step.lines[i]), ")", lambda v: v[1:])
    return step.replaced(i, edit_list(line, ": (", ") ->", lambda v: v[1:]))


@kind("norm-swapped")
def norm_swapped(step, rng):
    """Plans do not say the order: the runtime has one of its own."""
    i = pick(rng, step.find("fsdp.partial_norm"))
    if i is None:
        return None
    line = edit_list(step.lines[i], norm_of(step.lines[i]), ")", lambda v: v[::-1])
    return step.replaced(i, edit_list(line, ": (", ") ->", lambda v: v[::-1]))


@kind("norm-of-parameters")
def norm_of_parameters(step, rng):
    i = pick(rng, step.find("fsdp.partial_norm"))
    return i and step.find("fsdp.shard @") and step.replaced(i, edit_list(step.lines[i], norm_of(step.lines[i]), ")", lambda v: ["%s"] + v[1:]))


NORMS = ["1", "2", "inf"]
add_substitution("norm-type", r"(?<=partial_norm )\w+", NORMS)
add_substitution("norm-type-of-optimizer", r"(?<=clip_norm_type = )\w+", NORMS, body=False)


@kind("clip-of-one-rank")
def clip_of_one_rank(step, rng):
    return substitute(step, rng, r"clip_factor %total", "clip_factor %part")


add_substitution("mesh-of-another-group", r"(?<= over )@mesh\S*", ["@mesh", "@mesh_0", "@mesh_1"], "fsdp.group", body=False)
add_substitution("chunk-of-other-ranks", r"(?<=f32, )2>", ["4>", "8>", "1>"], "fsdp.chunk")
add_substitution("other-chunks-of-group", r"(?<=true to )\d+", ["1", "3", "4", "8"], body=False)
add_substitution("no-chunks-of-group", r" to \d+", "", body=False)

# Where a shard's elements lie changes no bit.
add_substitution("shard-dims-swapped", r"(?<=shard_dims \[)[^]]*", lambda m: m[0].translate(str.maketrans("01", "10")),
                 keeps=True, body=False)  # fmt: skip
add_substitution("no-shard-dims", r" shard_dims \[[^]]*\]", "", keeps=True, body=False)


def gather_of_other_chunk(step, rng, is_same_group):
    """A gather that takes another chunk: of its own group or of another one."""
    groups = {result_names(step.lines[i])[0]: group_of_chunk(step.lines[i]) for i in step.find("fsdp.chunk")}
    choices = []
    for i in step.find("all_gather.start"):
        chunk = step.operands(i)[0]
        if chunk in groups:
            same = [other for other in groups if (groups[other] == groups[chunk]) == is_same_group]
            choices += [(i, other) for other in same if other != chunk]
    chosen = pick(rng, choices)
    return chosen and step.replaced(chosen[0], sub_operand(step.lines[chosen[0]], 0, chosen[1]))


def group_of_chunk(line):
    return re.search(r"!fsdp\.shard<(@[^,]*),", line)[1]


@kind("gather-of-chunk-of-another-group")
def gather_of_chunk_of_another_group(step, rng):
    return gather_of_other_chunk(step, rng, is_same_group=False)


@kind("gather-of-chunk-of-another-microbatch", keeps=True)
def gather_of_chunk_of_another_microbatch(step, rng):
    """The group's own chunk of another microbatch has the same bits."""
    return gather_of_other_chunk(step, rng, is_same_group=True)


@kind("gather-of-shard", keeps=True)
def gather_of_shard(step, rng):
    """All ranks bring the shards that a few have as chunks."""
    i = pick(rng, [i for i in step.find("all_gather.start") if re.search(r", \d+>", step.lines[i])])
    if i is None:
        return None
    group, dtype = re.search(r"!fsdp\.shard<(@[^,]*), (\w+),", step.lines[i]).groups()
    shard = result_names(step.lines[step.find(f"fsdp.shard {group} ")[0]])[0]
    line = re.sub(r"!fsdp\.shard<.*>", f"!fsdp.shard<{group}, {dtype}>", step.lines[i])
    return step.replaced(i, sub_operand(line, 0, shard))


@kind("gather-of-all-by-few")
def gather_of_all_by_few(step, rng):
    """A few ranks meet for the shards of all."""
    i = pick(rng, [i for i in step.find("all_gather.start") if not re.search(r", \d+>", step.lines[i])])
    return i and step.replaced(i, re.sub(r"(!fsdp\.shard<@[^,]*, \w+)>", r"\1, 2>", step.lines[i]))


@kind("chunk-coalesced")
def chunk_coalesced(step, rng):
    """One launch of gathers that other ranks meet in."""
    few = [i for i in step.find("all_gather.start") if re.search(r", \d+>", step.lines[i])]
    all_ = [i for i in step.find("all_gather.start") if i not in few]
    pairs = [(i, j) for i in few for j in all_ if step.range_to_move(j)[0] <= i and step.range_to_move(j)[1] > i]
    pair = pick(rng, pairs)
    if pair is None:
        return None
    i, j = pair
    lines = step.lines[:j] + step.lines[j + 1 :]
    at = i - (j < i)
    coalesced = re.sub(r" on gather\b", " on gather coalesced", step.lines[j])
    return lines[: at + 1] + [coalesced] + lines[at + 1 :]


@kind("update-before-average")
def update_before_average(step, rng):
    """With what the reduce-scatter yields, not yet averaged over the replicas."""
    i = pick(rng, [i for i in step.find("fsdp.update") if "%f" in step.lines[i]])
    if i is None:
        return None
    group = re.search(r"update @(\S+)", step.lines[i])[1]
    wait = pick(rng, step.find("reduce_scatter.wait", f"<@{group},"))
    if wait is None:  # all of the group lies on each rank
        return None
    return step.replaced(i, re.sub(r"with %\S+", "with " + result_names(step.lines[wait])[0], step.lines[i]))


@kind("update-with-parameters")
def update_with_parameters(step, rng):
    i = pick(rng, step.find("fsdp.update"))
    group = re.search(r"update @(\S+)", step.lines[i])[1]
    shard = pick(rng, step.find(f"fsdp.shard @{group} "))
    return shard and step.replaced(i, re.sub(r"with %\S+", "with " + result_names(step.lines[shard])[0], step.lines[i]))


# Steps of several microbatches.
add_substitution("microbatch-of-call", r" microbatch \d+", lambda m: " microbatch 7", "aten.call", keeps=True)
add_substitution("microbatch-of-input", r" microbatch \d+", "", "fsdp.input")
add_substitution("more-microbatches", r"accumulation<\d+", "accumulation<7", body=False)
add_substitution("one-microbatch", r"accumulation<\d+", "accumulation<1", body=False)
add_substitution("accumulation-without-count", r"fsdp\.accumulation = [^>]*>, ", "", body=False)


def accumulation(step, rng):
    return pick(rng, step.find("fsdp.accumulate"))


@kind("accumulation-swapped")
def accumulation_swapped(step, rng):
    """The second gradient's bytes hold the sum."""
    i = accumulation(step, rng)
    if i is None:
        return None
    a, b = step.operands(i)
    return step.replaced(i, sub_operand(sub_operand(step.lines[i], 0, b), 1, a))


@kind("accumulation-of-one")
def accumulation_of_one(step, rng):
    i = accumulation(step, rng)
    if i is None:
        return None
    a, b = step.operands(i)
    return step.replaced(i, sub_operand(step.lines[i], 1, a))


@kind("accumulation-into-parameters")
def accumulation_into_parameters(step, rng):
    """Nothing reads the sum: the parameters would change unseen."""
    i = accumulation(step, rng)
    shards = step.find("fsdp.shard @")
    if i is None or not shards:
        return None
    shard = rng.choice(shards)
    name = result_names(step.lines[shard])[0]
    type_ = re.search(r"!fsdp\.shard<[^>]*>", step.lines[shard])[0]
    return step.replaced(i, step.lines[i], f"%unseen = fsdp.accumulate {name}, {name} : {type_}, {type_}")


@kind("sum-left-out")
def sum_left_out(step, rng):
    """What uses the sum takes the gradients of the microbatches before alone."""
    i = accumulation(step, rng)
    if i is None:
        return None
    sum_, before = result_names(step.lines[i])[0], step.operands(i)[0]
    out = step.replaced(i)
    return [re.sub(rf"{re.escape(sum_)}(?![\w.$#-])", before, line) for line in out]


@kind("average-of-parameters")
def average_of_parameters(step, rng):
    """An all-reduce in place of a shard of parameters."""
    i = pick(rng, [i for i in step.find("fsdp.all_reduce.start") if "!fsdp.shard" in step.lines[i]])
    if i is None:
        return None
    name = re.search(r"!fsdp\.shard<(@[^,]*),", step.lines[i])[1]
    shard = pick(rng, step.find(f"fsdp.shard {name} "))
    return shard and step.replaced(i, sub_operand(step.lines[i], 0, result_names(step.lines[shard])[0]))

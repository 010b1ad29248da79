"""docs/fsdp2.md names everything that the installed torch's fully_shard offers, and nothing else.

Usage: fsdp2_test.py SOURCE
"""

import dataclasses
import inspect
import pathlib
import re
import sys

import torch.distributed.fsdp._fully_shard as fsdp2


def methods(cls):
    return {name for name in vars(cls) if not name.startswith("_")}


def offered():
    """Heading of the page: the names that belong below it."""
    policies = (fsdp2.MixedPrecisionPolicy, fsdp2.OffloadPolicy, fsdp2.CPUOffloadPolicy)
    return {
        "Functions and classes": set(fsdp2.__all__),
        "Arguments of `fully_shard`": set(inspect.signature(fsdp2.fully_shard).parameters),
        "Methods of `FSDPModule`": methods(fsdp2.FSDPModule),
        "Methods of `UnshardHandle`": methods(fsdp2.UnshardHandle),
        "Fields of policies": {f"{p.__name__}.{field.name}" for p in policies for field in dataclasses.fields(p)},
    }


def main():
    page = (pathlib.Path(sys.argv[1]) / "docs/fsdp2.md").read_text()
    sections = dict(section.split("\n", 1) for section in page.split("\n## ")[1:])
    expected = offered()
    problems = [f"the page has no section '{heading}'" for heading in expected.keys() - sections.keys()]
    for heading in expected.keys() & sections.keys():
        rows = re.findall(r"^\| `([\w.]+)` \| +\S", sections[heading], re.MULTILINE)
        problems += [f"{heading}: {name} stands there twice" for name in set(rows) if rows.count(name) > 1]
        problems += [f"{heading}: torch has {name}, the page has not" for name in sorted(expected[heading] - set(rows))]
        problems += [f"{heading}: the page has {name}, torch has not" for name in sorted(set(rows) - expected[heading])]
    print("\n".join(problems) or f"{sum(map(len, expected.values()))} names")
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())

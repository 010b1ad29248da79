#!/usr/bin/env python3
"""Fills docs/from-module-to-binary.md with one layer's text of each phase, from a real capture.

  module_to_binary.py PAGE --tools BIN --update
  module_to_binary.py PAGE --tools BIN --check

The page's Python block is run, then its commands (lines that begin with `$ `). The block behind a comment
`<!-- layers.1 of FILE -->` becomes what FILE says of that layer: calls of its modules, its group, its shards,
and what starts, awaits or reshards them; `...` where lines are left out. The block behind `<!-- FILE -->`
becomes the file's lines that the block showed before, by their first word.
"""

import argparse
import difflib
import os
import pathlib
import re
import subprocess
import sys
import tempfile

WIDTH = 150
DEFINITION = re.compile(r"\s*(%[\w.]+)(?::\d+)? = ")
VALUE = re.compile(r"%[\w.]+")


def tidy(line):
    line = re.sub(r" loc(\(.*\)| \S+)$", "", line.strip())
    return line if len(line) <= WIDTH else line[: WIDTH - 4].rstrip() + " ..."


def lines_of_layer(text, layer):
    """The lines that are about the layer, and those that use its shards or wait for its collectives."""
    own = re.compile(rf'["@]{re.escape(layer)}\b')
    entry = re.compile(r"handle (\d+)")
    handles, shown, last = set(), [], None
    for number, line in enumerate(text.splitlines()):
        names = set(VALUE.findall(line.split(" = ", 1)[-1]))
        # In MLIR a handle is a value, in the plan it is a number.
        numbers = {f"handle {n}" for n in entry.findall(line)}
        follows = bool(names & handles and "fsdp." in line) or bool(numbers & handles)
        if not (own.search(line) or follows) or re.match(r"\s*(fsdp\.param|parameter) ", line):
            continue
        if re.search(r"fsdp\.(shard|\w+\.start)", line):
            handles.update(DEFINITION.findall(line))
        handles.update(numbers)
        if last is not None and number > last + 1:
            shown.append("...")
        shown.append(tidy(line))
        last = number
    return shown


def fill(page, tools, folder):
    python = re.search(r"```python\n(.*?)```", page, re.S)[1]
    (folder / "module.py").write_text(python)
    run = lambda command: subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True, env=dict(
        os.environ, PATH=f"{tools.resolve()}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"))  # fmt: skip
    run([sys.executable, "module.py"])
    for command in re.findall(r"^    \$ (.*(?:\\\n.*)*)", page, re.M):
        run(["bash", "-c", command])

    def block(match):
        layer, file = match[1], match[2]
        text = (folder / file).read_text()
        if layer:
            lines = lines_of_layer(text, layer)
        else:
            kept = [line.split()[0] for line in match[4].splitlines() if line.split()]
            lines = [tidy(line) for line in text.splitlines() if line.split()[:1] and line.split()[0] in kept]
        return f"{match[0][: match.start(3) - match.start()]}{match[3]}\n" + "\n".join(lines) + "\n```"

    return re.sub(r"<!-- (?:(\S+) of )?(\S+) -->\n(```\w*)\n(.*?)\n?```", block, page, flags=re.S)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("--tools", type=pathlib.Path, required=True)
    goal = parser.add_mutually_exclusive_group(required=True)
    goal.add_argument("--update", action="store_true", help="write the page")
    goal.add_argument("--check", action="store_true", help="compare only")
    arguments = parser.parse_args()
    kept = arguments.page.read_text()
    with tempfile.TemporaryDirectory(prefix="fsdpc-docs-") as folder:
        page = fill(kept, arguments.tools, pathlib.Path(folder))
    if arguments.update:
        arguments.page.write_text(page)
        return 0
    sys.stdout.writelines(difflib.unified_diff(
        kept.splitlines(True), page.splitlines(True), str(arguments.page), "what the tools say"))  # fmt: skip
    if page != kept:
        print("renew it: ninja fsdp-docs-update")
    return page != kept


if __name__ == "__main__":
    sys.exit(main())

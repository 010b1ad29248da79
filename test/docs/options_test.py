#!/usr/bin/env python3
"""Options that tools have are in the docs, and the pipeline's table has the pipeline's options.

  options_test.py --tools BIN --source ROOT
"""

import argparse
import pathlib
import re
import subprocess
import sys

#: The training binaries of tests stand for all: their options are those of every model.
TOOLS = ["fsdp-capture", "fsdp-checkpoint", "fsdp-compile", "fsdp-diff", "fsdp-explain", "fsdp-plan", "fsdp-profile", "fsdpc",
         "tiny_train-1-Flat"]  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tools", type=pathlib.Path, required=True)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    arguments = parser.parse_args()
    pages = [*(arguments.source / "docs").glob("*.md"), arguments.source / "README.md"]
    words = set(re.findall(r"--[a-z][a-z-]*", " ".join(page.read_text() for page in pages)))
    ask = lambda tool: subprocess.run([arguments.tools / tool, "--help"], capture_output=True, text=True, check=True).stdout
    configuration = (arguments.source / "docs/configuration.md").read_text()

    pipeline = re.search(r"^ +--fsdp-pipeline .*\n((?:    .*\n)+)", ask("fsdp-opt"), re.M)[1]
    options = set(re.findall(r"^ +--([a-z-]+)", pipeline, re.M))
    section = re.search(r"(?ms)^## The pipeline$(.*?)^## ", configuration)[1]
    rows = re.findall(r"(?m)^\| (`.*?`) \|", section)
    listed = {name for row in rows for name in re.findall(r"`([a-z-]+)`", row)}
    problems = [f"the pipeline has '{name}', docs/configuration.md does not list it" for name in options - listed]
    problems += [f"docs/configuration.md lists '{name}', the pipeline has no such option" for name in listed - options]

    # The pipeline takes what its search takes, and fsdpc what the pipeline takes, as the page says.
    reference = (arguments.source / "docs/reference/passes.md").read_text()
    search = re.search(r"(?s)### `-fsdp-optimize-schedule`.*?#### Options\n\n```\n(.*?)```", reference)[1]
    problems += [f"fsdp-optimize-schedule has '{name}', the pipeline does not"
                 for name in set(re.findall(r"(?m)^-([a-z-]+)", search)) - options]  # fmt: skip
    renamed = {"buckets": "no-buckets", "report": "fsdp-report", "up-to": "save-temps", "verify": "help"}
    mine = set(re.findall(r"--([a-z-]+)", ask("fsdpc")))
    problems += [f"the pipeline has '{name}', fsdpc has no such flag"
                 for name in options if renamed.get(name, name) not in mine]  # fmt: skip
    count = 0
    for tool in TOOLS:
        flags = set(re.findall(r"^ +(?:-\w,)?(--[a-z][a-z-]*)", ask(tool), re.M))
        assert "--help" in flags, tool
        count += len(flags)
        unknown = flags - words - {"--" + name for name in options}
        problems += [f"{tool} has {flag}, no page names it" for flag in sorted(unknown)]
    print(f"{len(options)} options of the pipeline, {count} flags of {len(TOOLS)} tools")
    print("\n".join(problems))
    return bool(problems)


if __name__ == "__main__":
    sys.exit(main())

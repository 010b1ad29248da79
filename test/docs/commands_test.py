#!/usr/bin/env python3
r"""Runs the commands that pages show and compares what they show of the output.

  commands_test.py PAGE... --tools BIN --source ROOT [--all] [--update]

A command begins with `$ ` in an indented block; `\` at the end of a line continues it. What follows, up to
the next command or the end of the block, is its output: `...` as a line stands for any lines, at the end of a
line for any text, and `~` before a figure says that it differs between machines or runs. Spaces count as one.
A command must succeed, unless the page shows an error; fsdp-diff's status 1 says that files differ. All commands
run in one folder, in order; those of a block behind `<!-- slow -->` with --all only. --update writes what commands
print now into the pages: lines that differ in figures alone, and whole outputs where nothing is left out. Read the
page's diff: a line of a table may be another row than before.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

LIMIT_S = 240


def find_commands(text, with_slow):
    """Pairs of a command and the lines of its output, in order."""
    commands = []
    for mark, block in re.findall(r"(^<!-- slow -->\n)?((?:^(?:    .*|[ \t]*)\n)+)", text, re.M):
        if mark and not with_slow:
            continue
        current = None
        for line in block.splitlines():
            line = line[4:].rstrip()
            if line.startswith("$ "):
                current = [line[2:], []]
                commands.append(current)
            elif current and current[0].endswith("\\"):
                current[0] = current[0][:-1] + line.strip()
            elif current:
                current[1].append(line)
    return [(command, [line for line in lines if line]) for command, lines in commands]


def expects_failure(command, expected):
    return any("error: " in line for line in expected) or command.startswith("fsdp-diff")


def pattern_of(line):
    rest = line.endswith("...")
    words = (line[:-3] if rest else line).split()
    parts = []
    for word in words:
        match = re.fullmatch(r"(\W*)~([0-9.,]*[0-9])(.*)", word)
        parts.append(re.escape(match[1]) + r"[0-9.,]*[0-9]" + re.escape(match[3]) if match else re.escape(word))
    return re.compile(r"\s+".join(parts) + (r"(\s.*)?" if rest else "") + "$")


def compare(expected, output):
    """Null, or the first line that the output does not have where the page shows it."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    at, skips = 0, False
    for line in expected:
        if line.strip() == "...":
            skips = True
            continue
        pattern = pattern_of(line.strip())
        while at < len(lines) and not pattern.match(lines[at]):
            if not skips:
                return f"the page shows\n  {line.strip()}\nthe command says\n  {lines[at]}"
            at += 1
        if at == len(lines):
            return f"the page shows a line that the command does not print:\n  {line.strip()}"
        at, skips = at + 1, False
    if expected and not skips and at < len(lines):
        return f"the page lacks what the command prints at its end:\n  {lines[at]}"
    return None


def skeleton_of(line):
    """What a line says besides figures, their units and the spaces between."""
    return re.sub(r"~?[0-9][0-9.,]*( ?[numkKMGT]?i?[sB]\b)?", "#", " ".join(line.removesuffix("...").split()))


def update(text, expected, output):
    """The page's text with what the command prints now."""
    lines = [line.rstrip() for line in output.splitlines() if line.strip()]
    shown = "".join(f"    {line}\n" for line in expected)
    if shown in text and not any(line.endswith("...") or "~" in line for line in expected):
        return text.replace(shown, "".join(f"    {line}\n" for line in lines), 1)
    at = 0
    for line in expected:
        if line.strip() == "...":
            continue
        same = [i for i in range(at, len(lines)) if pattern_of(line.strip()).match(lines[i].strip())]
        alike = [i for i in range(at, len(lines)) if skeleton_of(lines[i]).startswith(skeleton_of(line))]
        if same or not alike:
            at = same[0] + 1 if same else at
            continue
        words = line.split()
        best = max(alike, key=lambda i: sum(a == b for a, b in zip(words, lines[i].split())))
        at = best + 1
        printed = lines[best]
        if line.endswith("..."):
            printed = re.match(r"(\s*\S+){%d}" % len(line.removesuffix("...").split()), printed)[0] + " ..."
        text = text.replace(f"    {line}\n", f"    {printed}\n", 1)
    return text


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("pages", type=pathlib.Path, nargs="+")
    parser.add_argument("--tools", type=pathlib.Path, required=True)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    parser.add_argument("--all", action="store_true", help="slow commands, too")
    parser.add_argument("--update", action="store_true", help="write what commands print now into the pages")
    arguments = parser.parse_args()
    commands = []
    for page in arguments.pages:
        found = find_commands(page.read_text(), arguments.all)
        assert found, f"{page} shows no commands"
        commands += [(page, *command) for command in found]
    launchers = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "TORCHELASTIC", "OMPI_", "PMI_", "SLURM_")
    environment = {k: v for k, v in os.environ.items() if not k.startswith(launchers)}
    python = pathlib.Path(sys.executable).parent
    environment |= {"PATH": f"{arguments.tools}:{python}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    problems = 0
    with tempfile.TemporaryDirectory(prefix="fsdpc-docs-") as folder:
        os.symlink(arguments.source / "tools", os.path.join(folder, "tools"))
        for page, command, expected in commands:
            if re.match(r"PATH=\S+$", command):
                continue
            run = subprocess.run(["bash", "-c", command], cwd=folder, env=environment, timeout=LIMIT_S,
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # fmt: skip
            # Pages name files of the repository from its root.
            output = run.stdout.replace(f"{arguments.source.resolve()}/", "")
            problem = compare(expected, output)
            if (run.returncode != 0) != expects_failure(command, expected):
                problem = f"exit status {run.returncode}"
            if problem and arguments.update and expected and problem[:4] != "exit":
                page.write_text(update(page.read_text(), expected, output))
                print(f"{page.name}: $ {command}\n  {problem}".replace("\n", "\n  "))
            elif problem:
                problems += 1
                print(f"$ {command}\n{problem}\nAll of its output:\n{output}")
    print(f"{len(commands)} commands, {problems} problems")
    return problems


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Puts before and after of one example into each pass's section of the reference page.

  pass_examples.py PAGE --tools BIN --source ROOT -o OUT
  pass_examples.py PAGE --tools BIN --source ROOT --check KEPT

PAGE is what mlir-tblgen makes of the passes' descriptions. A lit test marks its example by a comment
`// EXAMPLE: fsdp-some-pass` in the module that is to be shown; what runs is the test's first RUN line
with that pass. Both texts are the tool's; of lines that the pass leaves alone only those next to a change
stay. So an example cannot say what the pass does not do. Verifiers and the report change nothing and
have none.
"""

import argparse
import difflib
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

MAX_LINES = 32
WIDTH = 132


#: Lines that say nothing as neighbours of a change.
DECLARATIONS = re.compile(r"\s*(module|func\.func|fsdp\.(param|buffer|optimizer|mesh|group)|return|}|$|.*fsdp\.input )")


def tidy(line):
    """Without indentation and digests; a long line is cut."""
    line = re.sub(r"\b[0-9a-f]{32}\b", "...", line.strip())
    return line if len(line) <= WIDTH else line[: WIDTH - 4].rstrip() + " ..."


def cut(before, after):
    """Of both texts the lines that change and those next to them; `...` where lines are left out."""
    matcher = difflib.SequenceMatcher(a=before, b=after, autojunk=False)
    changes = [code[1:] for code in matcher.get_opcodes() if code[0] != "equal"]
    shown = []
    for side, lines in enumerate((before, after)):
        text, last = [], None
        for i1, i2, j1, j2 in changes:
            begin, end = ((i1, i2), (j1, j2))[side]
            for number in range(max(begin - 1, 0), min(end + 1, len(lines))):
                is_neighbour = not begin <= number < end
                if last is not None and number <= last or is_neighbour and DECLARATIONS.match(lines[number]):
                    continue
                if last is not None and number > last + 1:
                    text.append("...")
                text.append(tidy(lines[number]))
                last = number
        shown.append(text)
    return shown


class Example:
    def __init__(self, test, pass_name):
        self.test, self.pass_name = test, pass_name
        self.text = test.read_text()
        marker = re.search(rf"^// EXAMPLE: {pass_name}$", self.text, re.M)
        self.at = marker.start()

    def command(self):
        """The first RUN line with the pass, as far as FileCheck, without what splits and verifies."""
        for line in re.findall(r"^// RUN: (.*)$", self.text, re.M):
            words = shlex.split(re.sub(r"2>&1|-o \S+", "", line.split("|")[0]))
            if words[0] == "fsdp-opt" and any(re.match(rf"--?{self.pass_name}(=|$)", w) for w in words):
                leave_out = r"--?(split-input-file|fsdp-verify-[a-z]+|remark.*)$"
                return [w for w in words if not re.match(leave_out, w)]
        raise SystemExit(f"{self.test}: no RUN line runs {self.pass_name}")

    def run(self, tools, folder):
        """Command, text before, text after."""
        command = self.command()
        source = command[1]
        if source == "%s":
            begin = self.text.rfind("// -----", 0, self.at)
            end = self.text.find("// -----", self.at)
            chunk = self.text[max(begin, 0) : end if end >= 0 else None]
            path = folder / "in.mlir"
            path.write_text(chunk)
        else:
            for part in re.split(r"^(?://|#)--- ", self.text, flags=re.M)[1:]:
                name, _, text = part.partition("\n")
                (folder / name.strip()).write_text(text)
            path = pathlib.Path(source.replace("%t", str(folder)))
        run = [word.replace("%t", str(folder)) for word in command[2:]]
        before, after = (
            subprocess.run([tools / "fsdp-opt", path, *flags], capture_output=True, text=True, check=True).stdout
            for flags in ([], run)
        )
        shown = " ".join(
            f'{word.split("=", 1)[0]}="{word.split("=", 1)[1]}"' if " " in word else word
            for word in ["fsdp-opt", "in.mlir", *command[2:]]
        ).replace("%t/", "")
        return shown, before.splitlines(), after.splitlines()

    def markdown(self, tools):
        with tempfile.TemporaryDirectory() as folder:
            command, before, after = self.run(tools, pathlib.Path(folder))
        before, after = cut(before, after)
        for lines in (before, after):
            if len(lines) > MAX_LINES:
                raise SystemExit(f"{self.test}: the example of {self.pass_name} shows {len(lines)} lines, "
                                 f"expected at most {MAX_LINES}; make it smaller")  # fmt: skip
        block = lambda lines: "```mlir\n" + "\n".join(lines) + "\n```\n"
        return (f"\n#### Example\n\n`{command}`, from `test/passes/{self.test.name}`, turns\n\n"
                f"{block(before)}\ninto\n\n{block(after)}")  # fmt: skip


def find_examples(folder):
    examples = {}
    for test in sorted(folder.glob("*.mlir")):
        for name in re.findall(r"^// EXAMPLE: (\S+)$", test.read_text(), re.M):
            if name in examples:
                raise SystemExit(f"{test}: {name} has an example in {examples[name].test.name}, too")
            examples[name] = Example(test, name)
    return examples


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("page", type=pathlib.Path)
    parser.add_argument("--tools", type=pathlib.Path, required=True)
    parser.add_argument("--source", type=pathlib.Path, required=True)
    goal = parser.add_mutually_exclusive_group(required=True)
    goal.add_argument("-o", dest="output", type=pathlib.Path)
    goal.add_argument("--check", type=pathlib.Path, help="compare with this page instead of writing one")
    arguments = parser.parse_args()
    examples = find_examples(arguments.source / "test" / "passes")
    sections = re.split(r"(?m)^(?=### `-)", arguments.page.read_text())
    known = {re.match(r"### `-(.*)`", s)[1] for s in sections[1:]}
    unknown = sorted(set(examples) - known)
    lacking = sorted(name for name in known - set(examples) if not re.match("fsdp-(verify-.*|report)$", name))
    if unknown or lacking:
        raise SystemExit(f"examples of no pass: {unknown}; passes without an example: {lacking}")
    pages = sections[:1]
    for section in sections[1:]:
        name = re.match(r"### `-(.*)`", section)[1]
        description, options, rest = section.partition("\n#### Options")
        text = examples[name].markdown(arguments.tools) if name in examples else ""
        pages.append(description.rstrip("\n") + "\n" + text + ((options + rest) or "\n"))
    page = "".join(pages).rstrip("\n") + "\n"
    if arguments.output:
        arguments.output.write_text(page)
        return 0
    kept = arguments.check.read_text()
    sys.stdout.writelines(difflib.unified_diff(
        kept.splitlines(True), page.splitlines(True), str(arguments.check), "what the tools say"))  # fmt: skip
    if kept != page:
        print("renew it: ninja fsdp-docs-update")
    return kept != page


if __name__ == "__main__":
    sys.exit(main())

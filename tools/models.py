#!/usr/bin/env python3
"""Makes the table of public models: which are captured, and whether training gives FSDP2's bits.

    tools/models.py                          # all entries, each by export and by trace
    tools/models.py llama 'timm/*' --forms export --optimizers sgd,adamw
    tools/models.py 'nn/*' --check docs/models.md    # CI: no entry may be worse than the table says
    tools/models.py --write docs/models.md

Each entry is exported, captured, compiled and trained for 3 steps on 2 ranks; the real FSDP2 trains the
same beside it. Entries of transformers, torchvision, timm and PEFT need these packages (docs/models.md
says which versions), and are left out if a package is missing; entries of torch.nn need only torch. An
entry that hangs is killed at its deadline.
"""

import argparse
import fnmatch
import json
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "tools" / "python"), str(ROOT / "tools")]

FORMS = ("export", "trace")
OPTIMIZERS = ("sgd", "adamw")
#: The table of a page is between these marks.
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"


def describe(row, optimizers):
    if "error" in row:
        return f"{row['stage']}: {row['error']}"
    text = ", ".join(f"{kind} {row[kind]}" for kind in optimizers)
    if row.get("relaid"):
        text += f"; copies strides: {len(row['relaid'])}"
    return text


def is_captured(row):
    return "error" not in row or row["stage"] in ("train", "fsdp2")


def is_equal(row, optimizers):
    return all(row.get(kind) == "equal" for kind in optimizers)


def table(rows, optimizers):
    lines = ["| model | form | captured | ops | groups | capture s | bits against FSDP2 |",
             "|---|---|---|---|---|---|---|"]  # fmt: skip
    for row in rows:
        captured = "yes" if is_captured(row) else "no"
        seconds = f"{row['capture_s']:.2f}" if "capture_s" in row else ""
        cells = [row["name"], row["form"], captured, row.get("ops", ""), row.get("groups", ""),
                 seconds, describe(row, optimizers).replace("|", "\\|")]  # fmt: skip
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def summary(rows, optimizers):
    lines = []
    for form in FORMS:
        of_form = [row for row in rows if row["form"] == form]
        if of_form:
            captured = sum(map(is_captured, of_form))
            equal = sum(is_equal(row, optimizers) for row in of_form)
            lines.append(f"{form}: {len(of_form)} models, {captured} captured, {equal} bitwise equal")
    return "\n".join(lines)


def expected_rows(page):
    """{(model, form): cells} of a page written by --write."""
    rows = {}
    for line in page.read_text().splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 7 and cells[1] in FORMS:
            rows[cells[0], cells[1]] = cells
    return rows


def check(rows, page, optimizers):
    """Entries that are worse than the page says, as sentences."""
    expected, worse = expected_rows(page), []
    for row in rows:
        cells = expected.get((row["name"], row["form"]))
        if not cells:
            worse.append(f"{row['name']} by {row['form']} is not in {page}")
            continue
        lost = [kind for kind in optimizers
                if f"{kind} equal" in cells[6] and row.get(kind) != "equal"]  # fmt: skip
        copies = row.get("relaid") and "copies strides" not in cells[6]
        if lost or copies or (cells[2] == "yes" and not is_captured(row)):
            worse.append(f"{row['name']} by {row['form']}: {describe(row, optimizers)}")
    return worse


def write(page, text):
    """Replaces the text between the page's marks."""
    before, rest = page.read_text().split(BEGIN)
    _, after = rest.split(END)
    page.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}")


def some_of(known):
    """The type of a flag: words of `known`, separated by commas."""

    def parse_words(text):
        words = text.split(",")
        for word in words:
            if word not in known:
                raise argparse.ArgumentTypeError(f"'{word}' is none of {', '.join(known)}")
        return words

    return parse_words


def existing_file(text):
    if not pathlib.Path(text).is_file():
        raise argparse.ArgumentTypeError(f"there is no file '{text}'")
    return pathlib.Path(text)


def page_with_table(text):
    page = existing_file(text)
    if any(page.read_text().count(mark) != 1 for mark in (BEGIN, END)):
        raise argparse.ArgumentTypeError(f"'{page}' does not hold {BEGIN} and {END} once each")
    return page


def parse(arguments):
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("patterns", nargs="*", default=["*"], help="names of entries; * is a wildcard")
    add("--forms", type=some_of(FORMS), default=list(FORMS), help="between commas; default: all")
    add("--optimizers", type=some_of(OPTIMIZERS), default=list(OPTIMIZERS),
        help="between commas; default: all")  # fmt: skip
    add("--write", type=page_with_table, help="page in which to replace the table")
    add("--check", type=existing_file, help="page whose table no entry may fall behind")
    add("--json", type=pathlib.Path, help="file to which rows are appended, one JSON object per line")
    add("--from-json", type=existing_file, help="rows to read instead of running; the last row of an entry counts")
    add("--deadline", type=float, metavar="SECONDS", help="time limit of one row, after which it is killed (600)")
    options = parser.parse_args(arguments)
    for flag in ("json", "deadline"):
        if options.from_json and getattr(options, flag) is not None:
            parser.error(f"--{flag} is for entries that are run, but --from-json takes rows from a file")
    if options.deadline is None:
        options.deadline = 600
    return options


def is_asked_for(name, options):
    return any(fnmatch.fnmatch(name, pattern) for pattern in options.patterns)


def find_entries(options):
    """Names of matching entries whose packages are installed; prints the missing packages."""
    from modelzoo import zoo

    missing, names = {}, []
    for name, entry in zoo.ENTRIES.items():
        if not is_asked_for(name, options):
            continue
        if entry.is_installed():
            names.append(name)
        else:
            missing[entry.family] = missing.get(entry.family, 0) + 1
    for package, count in missing.items():
        print(f"{count} entries left out: {package} is not installed")
    return names


def run(options):
    """Yields the rows of all requested entries, and prints them as they come."""
    from modelzoo import zoo
    from modelzoo.worker import Worker

    worker, rows = Worker(options.deadline), []
    for name in find_entries(options):
        for form in filter(zoo.ENTRIES[name].has, options.forms):
            row = worker.run(name, form, options.optimizers)
            rows.append(row)
            print(f"{name:36} {form:7} {row['seconds']:5.0f} s  "
                  f"{describe(row, options.optimizers)}", flush=True)  # fmt: skip
            if options.json:
                with open(options.json, "a") as file:
                    file.write(json.dumps(row) + "\n")
    worker.end()
    return rows


def read_rows(options):
    """The last row of each requested entry, in the zoo's order."""
    from modelzoo import zoo

    latest = {}
    for line in options.from_json.read_text().splitlines():
        row = json.loads(line)
        latest[row["name"], row["form"]] = row
    return [latest[name, form] for name in zoo.ENTRIES for form in FORMS
            if (name, form) in latest and form in options.forms and is_asked_for(name, options)]  # fmt: skip


def main(arguments=None):
    options = parse(arguments)
    rows = read_rows(options) if options.from_json else run(options)
    if not rows:
        sys.exit(f"models.py: error: no entry to run matches {' '.join(options.patterns)}")
    print(summary(rows, options.optimizers))
    if options.write:
        text = summary(rows, options.optimizers).replace("\n", "  \n")
        write(options.write, f"\n{text}\n\n{table(rows, options.optimizers)}\n")
    if options.check:
        worse = check(rows, options.check, options.optimizers)
        for sentence in worse:
            print(f"worse than {options.check}: {sentence}", file=sys.stderr)
        return 1 if worse else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Exceptions of the package, notes of the export, and how commands print errors."""

import sys


class ExportError(RuntimeError):
    """A model, batch, optimizer or policy that cannot be exported; the text names the reason and, where there is one, a
    remedy."""


class DataError(RuntimeError):
    """Data that cannot be written for training; the text names the source and the problem."""


class ConversionError(Exception):
    """A checkpoint that cannot be converted; the text names the file and the problem in one line."""


class ToolError(RuntimeError):
    """A tool failed; the text is the tool's output."""


def note(text):
    """Tells on stderr what an export leaves out or decides."""
    print(f"fsdpc.export: note: {text}", file=sys.stderr)


def run_command(command, *errors):
    """Calls a function that prints a line for people. Prints an exception of one of the types `errors` as one line on
    stderr. Returns the exit status."""
    try:
        command()
    except errors as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0

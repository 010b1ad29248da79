"""What the package raises, and how its commands print that."""

import sys


class ExportError(RuntimeError):
    """A model, batch, optimizer or policy that cannot be exported; the text names the reason and, where there is one, a
    remedy."""


class DataError(RuntimeError):
    """Data that cannot be written for training; the text names the source and what is wrong with it."""


class ConversionError(Exception):
    """A checkpoint that cannot be converted; the text says in one line what is wrong with which file."""


class ToolError(RuntimeError):
    """A tool failed; the text is what it printed."""


def run_command(command, *errors):
    """Calls a function that prints a line for people. One of `errors` is printed as one line on stderr. Returns the exit
    status."""
    try:
        command()
    except errors as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0

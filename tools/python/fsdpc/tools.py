"""Runs fsdpc's command line tools."""

import contextlib
import os
import pathlib
import shutil
import subprocess

from .errors import ToolError


def find_tool(name):
    """The path of a tool: in FSDPC_BIN, else in the checkout's release build, else on the PATH."""
    asked = os.environ.get("FSDPC_BIN")
    folder = pathlib.Path(asked or pathlib.Path(__file__).resolve().parents[3] / "build" / "release" / "bin")
    if (folder / name).is_file():
        return str(folder / name)
    if asked:
        raise ToolError(f"FSDPC_BIN is '{asked}', which holds no '{name}'")
    found = shutil.which(name)
    if not found:
        raise ToolError(f"'{name}' is neither in {folder} nor on the PATH: build the checkout, or set FSDPC_BIN to its bin/")
    return found


def flags(options):
    """Keywords as flags: lr=1e-3 is --lr 0.001, True is a flag without value, False and None are no
    flag."""
    line = []
    for name, value in options.items():
        flag = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        if value is True:
            line.append(flag)
        elif isinstance(value, dict):
            line += [flag, ",".join(f"{key}={part}" for key, part in value.items())]
        elif name == "betas":
            line += [flag, ",".join(map(str, value))]
        elif isinstance(value, (list, tuple)):
            for part in value:
                line += [flag, str(part)]
        else:
            line += [flag, str(value)]
    return line


@contextlib.contextmanager
def _without_link(path):
    """Removes a symbolic link at the path for the block. An exception restores it, unless there is a file by
    then."""
    target = os.readlink(path) if path.is_symlink() else None
    if target is not None:
        path.unlink()
    try:
        yield
    except BaseException:
        if target is not None and not os.path.lexists(path):
            path.symlink_to(target)
        raise


def compile(model, output, **options):
    """Runs fsdpc: `model` is a file of fsdpc.export or torch, `output` the training binary; other
    keywords are the command's flags. Weights beside the model (fsdpc.export's) are linked to where
    the binary looks for them. A link that is there already is removed before: the command would write through it, into
    the weights of an earlier model. A compilation that fails puts the link back. Returns what the command printed;
    raises ToolError."""
    command = [find_tool("fsdpc"), str(model), *flags(options), "-o", str(output)]
    beside = pathlib.Path(model).with_suffix(".safetensors")
    wanted = pathlib.Path(options.get("weights") or f"{output}.safetensors")
    with _without_link(wanted):
        process = subprocess.run(command, capture_output=True, text=True)
        if process.returncode != 0:
            raise ToolError(f"$ {' '.join(command)}\n{process.stderr.strip()}")
    if beside.is_file() and not wanted.exists():
        wanted.symlink_to(os.path.relpath(beside, wanted.parent))
    return process.stderr

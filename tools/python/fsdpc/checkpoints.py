"""Converts checkpoints from and to torch.distributed.checkpoint's own format (.distcp).

    python -m fsdpc.checkpoints CHECKPOINT FOLDER [--model-key KEY]

If CHECKPOINT is torch's (it has .metadata), FOLDER becomes a checkpoint that a training binary resumes. If it is a
training binary's, FOLDER becomes a checkpoint for torch.distributed.checkpoint.FileSystemReader, with parameters and
buffers below KEY if one is given. Torch's format is pickled: loading such a checkpoint can run any code, as with
torch.load, so convert only checkpoints that you trust. Memory: one file of 1 GiB in the first direction, all tensors
in the second.
"""

import argparse
import json
import math
import pathlib
import struct
import sys
import warnings

import torch
import torch.distributed.checkpoint as dcp

from . import output, weights
from .errors import ConversionError, run_command

_DTYPES = {name: dtype for dtype, name in weights.NAMES.items()}
_FILE_BYTES = 1 << 30
#: Prefix of the buffers of ranks above 0, for buffers that differ between ranks. torch's checkpoints do
#: not have these.
_OF_RANKS = "fsdpc.rank"


#: Exceptions of reading a damaged file of a training binary.
_DAMAGES = (KeyError, RuntimeError, TypeError, ValueError, struct.error)


def _reason(error):
    """torch's error in one line: that of the first rank that failed."""
    if isinstance(error, dcp.CheckpointException):
        error = next(iter(error.failures.values()))[0]
    line = (str(error).strip() or type(error).__name__).splitlines()[0]
    return line.split(". This is an internal miniz error")[0]


def is_torch(folder):
    return (folder / ".metadata").exists()


def from_torch(source, target):
    """Writes torch's tensors as a checkpoint that a training binary resumes; returns the names of entries
    that are not tensors."""
    from torch.distributed.checkpoint.metadata import TensorStorageMetadata

    try:
        stored = dcp.FileSystemReader(source).read_metadata().state_dict_metadata
    except Exception as error:  # a damaged pickle may raise any exception
        raise ConversionError(f"'{source}/.metadata' cannot be read: {_reason(error)}") from error
    tensors = {n: e for n, e in stored.items() if isinstance(e, TensorStorageMetadata)}
    for name, entry in tensors.items():
        if entry.properties.dtype not in weights.NAMES:
            raise ConversionError(f"'{name}' has dtype {entry.properties.dtype}, which safetensors lacks")
    files, size = [[]], 0
    for name, entry in tensors.items():
        count = entry.size.numel() * entry.properties.dtype.itemsize
        if files[-1] and size + count > _FILE_BYTES:
            files.append([])
            size = 0
        files[-1].append(name)
        size += count
    for number, names in enumerate(files, 1):
        state = {n: torch.empty(tensors[n].size, dtype=tensors[n].properties.dtype) for n in names}
        try:
            dcp.load(state, storage_reader=dcp.FileSystemReader(source), no_dist=True)
        except (Exception, dcp.CheckpointException) as error:
            raise ConversionError(f"'{source}' cannot be read: {_reason(error)}") from error
        places = {n: {"saved_offsets": [0] * t.dim()} for n, t in state.items()}
        path = target / f"shard-00001-model-{number:05}-of-{len(files):05}.safetensors"
        with output.replacing(path) as file:
            weights.write(file, state, metadata={"DCP_SHARDING_INFO": json.dumps(places)})
    return sorted(set(stored) - set(tensors))


def _parts(file):
    """Yields (name, offsets in its tensor, part) for a file with DCP_SHARDING_INFO."""
    with open(file, "rb") as stream:
        (length,) = struct.unpack("<Q", stream.read(8))
        header = json.loads(stream.read(length))
        metadata = header.pop("__metadata__", {})
        if "DCP_SHARDING_INFO" not in metadata:
            raise ConversionError(f"'{file}' has no DCP_SHARDING_INFO: it is no part of a checkpoint")
        places = json.loads(metadata["DCP_SHARDING_INFO"])
        for name, entry in header.items():
            begin, end = entry["data_offsets"]
            stream.seek(8 + length + begin)
            data = bytearray(stream.read(end - begin))
            part = torch.frombuffer(data, dtype=torch.uint8) if data else torch.empty(0, dtype=torch.uint8)
            yield name, places[name]["saved_offsets"], part.view(_DTYPES[entry["dtype"]]).view(entry["shape"])


def _check_pieces(folder, name, found):
    """Raises an error if the pieces, (offsets, part), cannot be of one tensor."""
    first = found[0][1]
    for offsets, part in found:
        piece = f"'{folder}': a piece of '{name}' is {part.dtype} {list(part.shape)}"
        if part.dim() != first.dim() or part.dtype != first.dtype:
            raise ConversionError(f"{piece}, another one {first.dtype} {list(first.shape)}")
        is_place = isinstance(offsets, list) and all(isinstance(offset, int) and offset >= 0 for offset in offsets)
        if not is_place or len(offsets) != part.dim():
            raise ConversionError(f"{piece} at offsets {offsets}, expected a number for each dimension")


def assemble(folder):
    """The whole tensors of a training binary's checkpoint, by name. Checks the sizes of files against
    checkpoint.json; `fsdp-checkpoint convert` verifies the checksums, too."""
    manifest = folder / "checkpoint.json"
    if not manifest.exists():
        raise ConversionError(f"'{folder}' is no complete checkpoint: it has neither .metadata nor checkpoint.json")
    try:
        files = {folder / file["name"]: file["bytes"] for file in json.loads(manifest.read_text())["files"]}
    except _DAMAGES as error:
        raise ConversionError(f"'{manifest}' is damaged: {_reason(error)}") from error
    pieces = {}
    for file, size in files.items():
        if file.stat().st_size != size:
            raise ConversionError(f"'{file}' is damaged: it has {file.stat().st_size} bytes, '{manifest}' says {size}")
        try:
            for name, offsets, part in _parts(file):
                if not name.startswith(_OF_RANKS):
                    pieces.setdefault(name, []).append((offsets, part))
        except _DAMAGES as error:
            raise ConversionError(f"'{file}' is damaged: {_reason(error)}") from error
    whole = {}
    for name in list(pieces):
        found = pieces.pop(name)
        _check_pieces(folder, name, found)
        shape = [max(o[d] + p.shape[d] for o, p in found) for d in range(found[0][1].dim())]
        if sum(part.numel() for _, part in found) != math.prod(shape):
            raise ConversionError(f"'{folder}' does not hold each element of '{name}' once")
        whole[name] = torch.empty(shape, dtype=found[0][1].dtype)
        for offsets, part in found:
            whole[name][tuple(slice(o, o + n) for o, n in zip(offsets, part.shape))] = part
    return whole


def to_torch(source, target, model_key=""):
    """Writes a training binary's checkpoint as torch's FileSystemWriter does."""
    state = assemble(source)
    if model_key:
        state = {n if n.startswith("optim.") else f"{model_key}.{n}": t for n, t in state.items()}
    try:
        dcp.save(state, storage_writer=dcp.FileSystemWriter(target), no_dist=True)
    except dcp.CheckpointException as error:
        raise ConversionError(f"'{target}' cannot be written: {_reason(error)}") from error


def convert(source, target, model_key=""):
    """Converts in either direction; returns one line for people."""
    source, target = pathlib.Path(source), pathlib.Path(target)
    if model_key and is_torch(source):
        raise ConversionError(f"--model-key {model_key} is for checkpoints of training binaries, '{source}' is torch's")
    with output.fresh_folder(target):
        if not is_torch(source):
            to_torch(source, target, model_key)
            return f"{target}: for torch.distributed.checkpoint.FileSystemReader"
        left = from_torch(source, target)
    note = f"; no tensors, left out: {', '.join(left[:3])}{' and more' if len(left) > 3 else ''}" if left else ""
    return f"{target}: for --resume{note}"


def main():
    parser = argparse.ArgumentParser(prog="python -m fsdpc.checkpoints", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("checkpoint")
    parser.add_argument("folder", help="folder for the result: it is made, or must be empty")
    parser.add_argument("--model-key", default="", help="parameters and buffers are stored as KEY.NAME", metavar="KEY")
    arguments = parser.parse_args()
    # A single process is intended here.
    warnings.filterwarnings("ignore", message="torch.distributed is disabled")
    return run_command(lambda: print(convert(arguments.checkpoint, arguments.folder, arguments.model_key)),
                       ConversionError, OSError)  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())

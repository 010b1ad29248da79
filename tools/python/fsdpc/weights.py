"""Writes safetensors tensor by tensor, so that memory never holds a second copy of the weights."""

import json
import struct
import sys

import torch

from .errors import ExportError

#: Names of dtypes in safetensors.
NAMES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2",
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8",
    torch.uint8: "U8", torch.bool: "BOOL", torch.complex64: "C64",
}  # fmt: skip

#: A progress line is printed for files of at least this size.
_LARGE = 1 << 30


def _split(tensors, shard_bytes):
    """Lists of names, each of at most shard_bytes if no single tensor is larger."""
    shards, size = [[]], 0
    for name, tensor in tensors.items():
        if shards[-1] and size + tensor.nbytes > shard_bytes:
            shards.append([])
            size = 0
        shards[-1].append(name)
        size += tensor.nbytes
    return shards


def write(file, tensors, progress=lambda count: None, metadata=None):
    """Writes the dict to a binary stream. `progress` is called with the number of bytes written
    since the last call."""
    header, end = {"__metadata__": {"format": "pt", **(metadata or {})}}, 0
    for name, tensor in tensors.items():
        if tensor.dtype not in NAMES:
            raise ExportError(f"'{name}' has dtype {tensor.dtype}, which safetensors lacks")
        header[name] = {
            "dtype": NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [end, end + tensor.nbytes],
        }
        end += tensor.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file.write(struct.pack("<Q", len(text)))
    file.write(text)
    for tensor in tensors.values():
        if tensor.numel():
            flat = tensor.detach().cpu().contiguous().reshape(-1)
            file.write(memoryview(flat.view(torch.uint8).numpy()))
        progress(tensor.nbytes)


def save(files, path, tensors, shard_bytes, quiet=False):
    """Writes the dict to `path`, or to shards and `path`.index.json, as files of `files` (output.Files);
    returns the paths."""
    total, done = sum(tensor.nbytes for tensor in tensors.values()), 0
    shows = total >= _LARGE and not quiet

    def progress(count):
        nonlocal done
        done += count
        if shows:
            end = "\n" if done == total else "\r"
            print(f"fsdpc.export: weights {done / 2**30:.1f} of {total / 2**30:.1f} GiB",
                  end=end, file=sys.stderr, flush=True)  # fmt: skip

    shards = _split(tensors, shard_bytes)
    if len(shards) == 1:
        write(files.open(path), tensors, progress)
        return [path]
    paths, places = [], {}
    for number, names in enumerate(shards, 1):
        shard = path.with_name(f"{path.stem}-{number:05}-of-{len(shards):05}{path.suffix}")
        write(files.open(shard), {name: tensors[name] for name in names}, progress)
        places |= dict.fromkeys(names, shard.name)
        paths.append(shard)
    index = path.with_name(path.name + ".index.json")
    text = json.dumps({"metadata": {"total_size": total}, "weight_map": places}, indent=1)
    files.open(index).write(text.encode())
    return [*paths, index]

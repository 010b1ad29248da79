"""Writes safetensors tensor by tensor: no second copy of the weights is ever in memory."""

import json
import struct
import sys

import torch

from .errors import ExportError

#: Those of safetensors.
NAMES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8",
    torch.uint8: "U8", torch.bool: "BOOL", torch.complex64: "C64",
}  # fmt: skip

#: From this size on a progress line is printed.
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
    """Writes the dict to a binary stream. `progress` is told of bytes as they are written."""
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
    """Writes the dict to `path`, or to shards and `path`.index.json, which are of `files` (output.Files);
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

"""What the tests of checkpoints share: a checkpoint's tensors, put together by numpy's rules alone."""

import json
import math
import pathlib
import struct

import torch

DTYPES = {"F32": torch.float32, "F64": torch.float64, "BF16": torch.bfloat16, "I64": torch.int64,
          "BOOL": torch.bool}  # fmt: skip


def parts(file):
    """(name, offsets in the tensor, the part) of a safetensors file with DCP_SHARDING_INFO."""
    data = pathlib.Path(file).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    sharding = json.loads(header.pop("__metadata__")["DCP_SHARDING_INFO"])
    for name, entry in header.items():
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        tensor = torch.frombuffer(bytearray(data[begin:end]), dtype=torch.uint8)
        tensor = tensor.view(DTYPES[entry["dtype"]]).view(entry["shape"])
        yield name, sharding[name]["saved_offsets"], tensor


def assemble(folder):
    """A checkpoint's whole tensors by name; an element that is missing or there twice is an error."""
    pieces = {}
    for file in sorted(pathlib.Path(folder).glob("*.safetensors")):
        for name, offsets, tensor in parts(file):
            pieces.setdefault(name, []).append((offsets, tensor))
    whole = {}
    for name, found in pieces.items():
        dims = found[0][1].dim()
        shape = [max(o[d] + t.shape[d] for o, t in found) for d in range(dims)]
        assert sum(t.numel() for _, t in found) == math.prod(shape), name
        tensor = torch.empty(shape, dtype=found[0][1].dtype)
        written = torch.zeros(shape, dtype=torch.int64)
        for offsets, part in found:
            place = tuple(slice(o, o + n) for o, n in zip(offsets, part.shape))
            tensor[place] = part
            written[place] += 1
        assert bool((written == 1).all()), name
        whole[name] = tensor
    return whole


def manifest(folder):
    return json.loads((pathlib.Path(folder) / "checkpoint.json").read_text())


def latest(folder):
    return max(pathlib.Path(folder).glob("step-?????????"))

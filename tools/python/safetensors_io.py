"""Reads and writes safetensors files with torch alone.

The format: eight bytes of header length (little endian), a JSON header that maps each name to its
dtype, shape and byte range, then the bytes.
"""

import json
import struct

import torch

_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
    "C64": torch.complex64,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


def save(path, tensors):
    """Writes a dict of name to tensor."""
    header, blobs, end = {}, [], 0
    for name, tensor in tensors.items():
        tensor = tensor.detach().cpu().contiguous()
        blob = memoryview(tensor.reshape(-1).view(torch.uint8).numpy() if tensor.numel() else b"")
        header[name] = {
            "dtype": _NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [end, end + len(blob)],
        }
        blobs.append(blob)
        end += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)))
        file.write(text)
        for blob in blobs:
            file.write(blob)


def load(path):
    """The file's tensors, a dict of name to tensor."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        data = bytearray(file.read())
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        if begin == end:
            tensors[name] = torch.empty(entry["shape"], dtype=_DTYPES[entry["dtype"]])
        else:
            piece = torch.frombuffer(data[begin:end], dtype=torch.uint8)
            tensors[name] = piece.view(_DTYPES[entry["dtype"]]).reshape(entry["shape"])
    return tensors

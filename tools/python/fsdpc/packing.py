"""Documents packed into samples of one length, as a safetensors file that the --data flag of training binaries reads.

Documents follow each other without padding, and are cut at the ends of samples. The file is written in two passes,
since the header, which has the number of samples, precedes the data. The first pass writes the tokens, and the begins
of documents to an unnamed file; the second pass reads these and writes the other tensors. Memory does not grow with the
data.
"""

import dataclasses
import json
import os
import struct
import tempfile

import numpy as np

from . import output
from .documents import Documents
from .errors import DataError
from .token_files import TYPES, limit_of

#: The class that torch's losses ignore by default.
IGNORED = -100
_BLOCK_BYTES = 1 << 25


@dataclasses.dataclass
class PackedFile:
    """The result of write_packed. `dropped`: number of tokens at the end that do not fill a
    sample."""

    documents: int
    samples: int
    dropped: int


class _Block:
    """Some samples, with `tokens` [n, T]. `begins`: flat, for each token and for the next token after them, whether
    it is the first of a document. `behind`: that next token, None at the end of the data."""

    def __init__(self, tokens, begins, behind, ignore_boundaries):
        self.tokens, self._begins, self._behind = tokens, begins, behind
        self._ignore_boundaries = ignore_boundaries
        self._starts = begins[:-1].reshape(tokens.shape).copy()
        self._starts[:, 0] = True

    def targets(self):
        """The next token after each token."""
        following = np.append(self.tokens.reshape(-1)[1:], IGNORED if self._behind is None else self._behind)
        if self._ignore_boundaries:
            following[self._begins[1:]] = IGNORED
        return following.reshape(self.tokens.shape)

    def labels(self):
        """The token itself: the model compares it with its prediction at the previous token."""
        if not self._ignore_boundaries:
            return self.tokens
        return np.where(self._begins[:-1].reshape(self.tokens.shape), IGNORED, self.tokens)

    def positions(self):
        """Positions from 0 at the begin of each document and of each sample."""
        places = np.arange(self.tokens.shape[1])
        return places - np.maximum.accumulate(np.where(self._starts, places, 0), axis=1)

    def documents(self):
        """The number of the document in the sample, from 0."""
        return np.cumsum(self._starts, axis=1) - 1

    def mask(self):
        """[n, 1, T, T]: whether a token attends to another: one of the same document that is not
        after it."""
        numbers = self.documents()[:, None]
        same = numbers[..., :, None] == numbers[..., None, :]
        return np.tril(same)


class _Layout:
    """Tensors of the file: (name, method of _Block, numpy's type, shape of a sample)."""

    def __init__(self, names, length, dtype):
        self.tensors = [(name, kind, TYPES[dtype], (length,)) for kind, name in names.items() if kind != "mask"]
        if "mask" in names:
            self.tensors.append((names["mask"], "mask", np.dtype("?"), (1, length, length)))
        self._dtype = dtype.upper()
        # The number of samples is not known yet, so the header has room for any number.
        self.header_bytes = -(-(8 + len(self._describe(10**18))) // 8) * 8

    def bytes_of(self, index):
        """Bytes of a sample in a tensor."""
        _, _, dtype, shape = self.tensors[index]
        return dtype.itemsize * int(np.prod(shape))

    def offset(self, index, samples):
        """Offset of a tensor in the file."""
        return self.header_bytes + samples * sum(self.bytes_of(before) for before in range(index))

    def _describe(self, samples):
        header, end = {"__metadata__": {"format": "pt"}}, 0
        for index, (name, kind, _, shape) in enumerate(self.tensors):
            begin, end = end, end + samples * self.bytes_of(index)
            dtype = "BOOL" if kind == "mask" else self._dtype
            header[name] = {"dtype": dtype, "shape": [samples, *shape], "data_offsets": [begin, end]}
        return json.dumps(header).encode()

    def header(self, samples):
        text = self._describe(samples).ljust(self.header_bytes - 8)
        return struct.pack("<Q", len(text)) + text


def _write_tokens(file, starts, documents, length, dtype):
    """First pass: writes full samples of tokens at the file's position. Returns their number and the number of tokens
    left."""
    samples, rest, total = 0, np.empty(0, np.int64), 0
    for tokens, ends in documents.pieces(dtype, limit_of(dtype)):
        if len(ends):
            starts.write(np.append(0, ends[:-1]).astype("<i8") + total)
        total += len(tokens)
        rest = np.concatenate([rest, tokens])
        whole = len(rest) // length
        file.write(rest[: whole * length].astype(TYPES[dtype]))
        samples, rest = samples + whole, rest[whole * length :]
    starts.write(np.array([total], "<i8"))  # the end of the data is the end of a document
    starts.flush()
    return samples, rest


def _write_others(file, layout, starts, samples, length, behind, ignore_boundaries):
    """Second pass: the tensors other than the tokens, block by block."""
    rows = max(1, _BLOCK_BYTES // sum(layout.bytes_of(index) for index in range(len(layout.tensors))))
    dtype = layout.tensors[0][2]
    for first in range(0, samples, rows):
        last = min(samples, first + rows)
        begin, end = first * length, last * length
        file.seek(layout.offset(0, samples) + begin * dtype.itemsize)
        more = last < samples  # then the next token is in the file
        tokens = np.frombuffer(file.read((end - begin + more) * dtype.itemsize), dtype).astype(np.int64)
        low, high = np.searchsorted(starts, [begin, end + 1])
        begins = np.zeros(end - begin + 1, bool)
        begins[starts[low:high] - begin] = True
        block = _Block(tokens[: end - begin].reshape(-1, length), begins, tokens[-1] if more else behind,
                       ignore_boundaries)  # fmt: skip
        for index, (_, kind, stored, _) in enumerate(layout.tensors[1:], 1):
            file.seek(layout.offset(index, samples) + first * layout.bytes_of(index))
            file.write(np.ascontiguousarray(getattr(block, kind)(), stored))


def write_packed(source, path, length, *, tokens="input_ids", targets=None, labels=None, positions=None,
                 documents=None, mask=None, ignore_boundaries=False, dtype="i64", **options):  # fmt: skip
    """Writes samples of `length` tokens; returns a PackedFile.

    tokens, targets, labels, positions, documents, mask: names of the model's inputs, and of tensors in the file. None leaves
        one out, but `tokens` are always in the file. `targets` are the next tokens; `labels` the tokens themselves, for
        models that shift them, as in transformers. `positions` begin again with each document, and with each
        sample. `documents` are the numbers of the documents in their sample. `mask` [1, length, length] is true where a
        token attends to another: one of the same document that is not after it.
    ignore_boundaries: a document's last token has the target -100, the class that torch's losses ignore.
    dtype: i64 or i32, for all tensors but the mask, which has bools.
    options: column, tokenizer, vocab, end_of_text and split, as of Documents.

    Raises DataError, and OSError where a path cannot be written.
    """
    if length < 1:
        raise DataError(f"the length of samples is {length}, expected at least 1")
    if tokens is None:
        raise DataError("tokens cannot be called None: they are always in the file")
    if dtype not in ("i64", "i32"):
        raise DataError(f"dtype is '{dtype}', expected i64 or i32")
    if ignore_boundaries and not targets and not labels:
        raise DataError("ignore_boundaries needs targets or labels, of which there are none")
    names = {"tokens": tokens, "targets": targets, "labels": labels, "positions": positions, "documents": documents,
             "mask": mask}  # fmt: skip
    names = {kind: name for kind, name in names.items() if name is not None}
    for kind, name in names.items():
        twin = next(other for other, used in names.items() if used == name)
        if not name or name == "__metadata__" or twin != kind:
            raise DataError(f"{kind} cannot be called '{name}'" + (f", as {twin} are" if twin != kind else ""))
    read, layout = Documents(source, **options), _Layout(names, length, dtype)
    with output.replacing(path, read.paths) as file:
        file.seek(layout.header_bytes)
        with tempfile.TemporaryFile(dir=os.path.dirname(path) or ".") as kept:
            whole, rest = _write_tokens(file, kept, read, length, dtype)
            starts = np.memmap(kept, "<i8", "r")
        samples, behind = whole, rest[0] if len(rest) else None
        if targets and behind is None and not ignore_boundaries and samples:
            samples -= 1  # the last token has no target; the targets overwrite the sample
            file.seek(layout.offset(0, whole) + samples * layout.bytes_of(0))
            behind = np.frombuffer(file.read(TYPES[dtype].itemsize), TYPES[dtype])[0]
        dropped = (whole - samples) * length + len(rest)
        if samples == 0:
            needs_target = " and the target of its last token" if targets and not ignore_boundaries else ""
            raise DataError(f"there are {dropped} tokens, too few for a sample of {length}{needs_target}")
        _write_others(file, layout, starts, samples, length, behind, ignore_boundaries)
        file.seek(0)
        file.write(layout.header(samples))
    return PackedFile(read.count, samples, dropped)

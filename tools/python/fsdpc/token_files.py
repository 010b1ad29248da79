"""Token files as the --data flag of training binaries reads them (runtime/data/TokenHeader.h)."""

import dataclasses

import numpy as np

from . import output
from .documents import Documents
from .errors import DataError

#: Names as in the binaries' --data-dtype.
TYPES = {"u8": np.dtype("<u1"), "u16": np.dtype("<u2"), "u32": np.dtype("<u4"),
         "i32": np.dtype("<i4"), "i64": np.dtype("<i8")}  # fmt: skip
#: llm.c's magic number and version of each type, in 256 numbers of 32 bits.
_HEADERS = {"u16": (20240520, 1), "u32": (20240801, 7)}
_HEADER_NUMBERS = 256
_MOST_TOKENS = np.iinfo("<i4").max  # in a file with a header


def limit_of(data_dtype):
    """The limit below which tokens of the type are."""
    return int(np.iinfo(TYPES[data_dtype]).max) + 1


@dataclasses.dataclass
class TokenFile:
    """The result of write_tokens."""

    documents: int
    tokens: int
    type: str
    has_header: bool


def write_tokens(source, path, *, data_dtype=None, **options):
    """Writes the documents of `source`, one after another, into a token file; returns a TokenFile.

    data_dtype: u8, u16, u32, i32 or i64, of raw tokens, which the binary is told by --data-dtype. By default the
        file has the header of llm.c, by which the binary knows it: u16 where `vocab` is at most 65536, else u32.
    options: column, tokenizer, vocab, end_of_text and split, as of Documents.

    Raises DataError, and OSError where a path cannot be written.
    """
    documents = Documents(source, **options)
    if data_dtype is None and documents.vocab is None:
        raise DataError("the size of the vocabulary is needed to choose between tokens of 16 and 32 bits: give vocab, "
                        "or data_dtype for raw tokens")  # fmt: skip
    if data_dtype is not None and data_dtype not in TYPES:
        raise DataError(f"data_dtype is '{data_dtype}', expected one of {', '.join(TYPES)}")
    kind = data_dtype or ("u16" if documents.vocab <= limit_of("u16") else "u32")
    written = TokenFile(documents=0, tokens=0, type=kind, has_header=data_dtype is None)
    with output.replacing(path, documents.paths) as file:
        if written.has_header:
            file.write(bytes(4 * _HEADER_NUMBERS))
        for tokens, _ in documents.pieces(written.type, limit_of(written.type)):
            file.write(tokens.astype(TYPES[written.type]))
            written.tokens += len(tokens)
        if written.tokens == 0:
            raise DataError("there are no tokens")
        if written.has_header:
            if written.tokens > _MOST_TOKENS:
                raise DataError(f"there are {written.tokens} tokens, but the header of llm.c counts at most "
                                f"{_MOST_TOKENS}: give data_dtype for raw tokens")  # fmt: skip
            file.seek(0)
            file.write(np.array([*_HEADERS[written.type], written.tokens], "<i4"))
    written.documents = documents.count
    return written

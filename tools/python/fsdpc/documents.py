"""Documents of token ids, read in portions from datasets of the package datasets and from its
files."""

import os
import pathlib

import numpy as np

from .errors import DataError

#: Number of documents that are read at once.
_ROWS = 1000
_EXPECTED = "expected a Dataset of the package datasets, a folder of its save_to_disk, or an .arrow or .parquet file"


def _load_folder(path):
    try:
        import datasets
    except ImportError as error:
        raise DataError(f"'{path}' is a folder, which only the package datasets reads: {error}") from error
    try:
        return datasets.load_from_disk(str(path))
    except (OSError, ValueError) as error:
        raise DataError(f"'{path}' cannot be read by datasets.load_from_disk: {error}") from error


def _choose_split(dataset, split, name):
    """`dataset` itself, or the requested split if it is a dict of datasets."""
    if isinstance(dataset, dict):
        if split not in dataset:
            asked = f"no split '{split}'" if split else "several splits, of which one is to be named"
            raise DataError(f"{name} has {asked}: {', '.join(map(repr, dataset))}")
        return dataset[split]
    if split:
        raise DataError(f"{name} has no splits, so none is '{split}'")
    if not hasattr(dataset, "with_format"):
        raise DataError(f"{name} is a {type(dataset).__name__}, {_EXPECTED}")
    return dataset


class _Dataset:
    """A Dataset or IterableDataset of the package datasets."""

    def __init__(self, dataset, name):
        self.name, self._dataset, self.columns = name, dataset, dataset.column_names
        self.paths = [file["filename"] for file in getattr(dataset, "cache_files", [])]

    def batches(self, column):
        chosen = self._dataset.select_columns([column]).with_format("arrow")
        for batch in chosen.iter(batch_size=_ROWS):
            yield batch[column]


class _ArrowFile:
    """A parquet file, or one of Arrow's two formats."""

    def __init__(self, path):
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError as error:
            raise DataError(f"'{path}' needs the package pyarrow, which comes with datasets: {error}") from error
        self._errors, self.name, self.paths = (pyarrow.ArrowException, OSError), f"'{path}'", [path]
        with open(path, "rb") as file:
            magic = file.read(6)
        try:
            if magic.startswith(b"PAR1"):
                file = pyarrow.parquet.ParquetFile(path)
                self.columns = file.schema_arrow.names
                self._open = lambda column: file.iter_batches(_ROWS, columns=[column])
                return
            mapped = pyarrow.memory_map(str(path))
            if magic == b"ARROW1":
                file = pyarrow.ipc.open_file(mapped)
                self._open = lambda column: map(file.get_batch, range(file.num_record_batches))
            else:
                file = pyarrow.ipc.open_stream(mapped)
                self._open = lambda column: file
            self.columns = file.schema.names
        except self._errors as error:
            raise DataError(f"{self.name} is neither an arrow nor a parquet file: {error}") from error

    def batches(self, column):
        try:
            for batch in self._open(column):
                values = batch.column(column)
                for first in range(0, len(values), _ROWS):
                    yield values.slice(first, _ROWS)
        except self._errors as error:
            raise DataError(f"{self.name} cannot be read: {error}") from error


def _open(source, split):
    if not isinstance(source, (str, os.PathLike)):
        name = "the dataset"
        return _Dataset(_choose_split(source, split, name), name)
    path, name = pathlib.Path(source), f"'{source}'"
    if path.is_dir():
        return _Dataset(_choose_split(_load_folder(path), split, name), name)
    if split:
        raise DataError(f"{name} is a file, so it has no split '{split}'")
    if not path.is_file():
        raise DataError(f"{name} is no file or folder, {_EXPECTED}")
    return _ArrowFile(path)


def load_tokenizer(folder):
    """The tokenizer in a folder of transformers' save_pretrained; nothing is downloaded."""
    if not os.path.isdir(folder):
        raise DataError(f"the tokenizer '{folder}' is no folder")
    try:
        from transformers import AutoTokenizer
    except ImportError as error:
        raise DataError(f"the tokenizer '{folder}' needs the package transformers: {error}") from error
    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError) as error:
        raise DataError(f"the tokenizer '{folder}' cannot be loaded: {str(error).splitlines()[0]}") from error


class Documents:
    """The documents of one or several sources, one after another, without the empty ones.

    source: a Dataset or IterableDataset, a folder of save_to_disk, an .arrow or .parquet file, or a list of these.
    column: of lists of token ids, by default "input_ids"; with a tokenizer of text, by default "text".
    tokenizer: one of transformers or the folder of one, which adds no special tokens; or a function from a text to
        its ids.
    vocab: tokens must be below it; by default the tokenizer's.
    end_of_text: a token that ends each document; "eos" is the tokenizer's.
    split: of a dict of datasets.
    """

    def __init__(self, source, *, column=None, tokenizer=None, vocab=None, end_of_text=None, split=None):
        sources = source if isinstance(source, (list, tuple)) else [source]
        self._sources = [_open(source, split) for source in sources]
        self.paths = [path for source in self._sources for path in source.paths]
        if isinstance(tokenizer, (str, os.PathLike)):
            if os.path.isdir(tokenizer):
                self.paths += pathlib.Path(tokenizer).iterdir()
            tokenizer = load_tokenizer(tokenizer)
        self._tokenizer, self._is_of_transformers = tokenizer, hasattr(tokenizer, "all_special_ids")
        self.vocab = len(tokenizer) if vocab is None and self._is_of_transformers else vocab
        if self.vocab is not None and self.vocab < 1:
            raise DataError(f"the vocabulary's size is {self.vocab}, expected at least 1")
        self.end_of_text = self._find_end_of_text(end_of_text)
        self._column = column or ("text" if tokenizer else "input_ids")
        for source in self._sources:
            if source.columns is not None and self._column not in source.columns:
                raise DataError(f"{source.name} has no column '{self._column}': {', '.join(map(repr, source.columns))}")
        self.count = 0  # number of documents read so far

    def _find_end_of_text(self, asked):
        if asked == "eos":
            asked = getattr(self._tokenizer, "eos_token_id", None)
            if asked is None:
                raise DataError("there is no tokenizer that has an end-of-text token: it is to be given as a number")
        if asked is not None and asked < 0:
            raise DataError(f"the end-of-text token is {asked}, expected at least 0")
        if asked is not None and self.vocab is not None and asked >= self.vocab:
            raise DataError(f"the end-of-text token is {asked}, expected below the vocabulary's {self.vocab}")
        return asked

    def pieces(self, type_name, type_limit):
        """Yields pairs: the tokens (int64) of some documents, and the end of each document. Tokens must also be
        below the limit of the type."""
        limit, reason = type_limit, f"as {type_name} holds"
        if self.vocab is not None and self.vocab <= type_limit:
            limit, reason = self.vocab, "of the vocabulary"
        if self.end_of_text is not None and self.end_of_text >= limit:
            raise DataError(f"the end-of-text token is {self.end_of_text}, expected below {limit}, {reason}")
        for source in self._sources:
            row = 0
            for batch in source.batches(self._column):
                for values in getattr(batch, "chunks", [batch]):  # a table's column is chunked
                    place = lambda index: f"{source.name}, column '{self._column}', row {row + index}"
                    lengths, tokens = self._tokens_of(values, place)
                    ends = np.cumsum(lengths)
                    bad = np.flatnonzero((tokens < 0) | (tokens >= limit))
                    if bad.size:
                        index = int(np.searchsorted(ends, bad[0], side="right"))
                        position = int(bad[0] - ends[index] + lengths[index])
                        raise DataError(f"{place(index)}: token {position} is {tokens[bad[0]]}, expected 0 to "
                                        f"{limit - 1}, {reason}")  # fmt: skip
                    row += len(lengths)
                    ends = ends[lengths > 0]
                    self.count += len(ends)
                    if self.end_of_text is not None:
                        tokens = np.insert(tokens, ends, self.end_of_text)
                        ends = ends + np.arange(1, len(ends) + 1)
                    yield tokens, ends

    def _tokens_of(self, values, place):
        """The lengths and the tokens of the rows."""
        is_arrow = hasattr(values, "type")
        if not self._tokenizer:
            return _tokens_of_arrow(values, place) if is_arrow else _tokens_of_lists(values, place)
        texts = values.to_pylist() if is_arrow else values
        for index, text in enumerate(texts):
            if not isinstance(text, str):
                raise DataError(f"{place(index)} is of type {type(text).__name__}, expected text for the tokenizer")
        if not self._is_of_transformers:
            return _tokens_of_lists([self._tokenizer(text) for text in texts], place)
        encoded = self._tokenizer(list(texts), add_special_tokens=False, return_attention_mask=False, verbose=False)
        return _tokens_of_lists(encoded["input_ids"], place)


def _tokens_of_arrow(values, place):
    import pyarrow
    import pyarrow.compute

    kind, types = values.type, pyarrow.types
    is_list = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
    if not is_list or not types.is_integer(kind.value_type):
        raise DataError(f"{place(0)} is of type {kind}, expected a list of token ids; text needs a tokenizer")
    tokens, lengths = values.flatten(), pyarrow.compute.list_value_length(values).fill_null(0)
    lengths = lengths.to_numpy(zero_copy_only=False).astype(np.int64)
    if values.null_count:
        raise DataError(f"{place(_first_null(values))} is null, expected a list of token ids")
    if tokens.null_count:
        row = int(np.searchsorted(np.cumsum(lengths), _first_null(tokens), side="right"))
        raise DataError(f"{place(row)} has a token that is null")
    return lengths, tokens.to_numpy(zero_copy_only=False).astype(np.int64)


def _first_null(values):
    return int(np.argmax(values.is_null().to_numpy(zero_copy_only=False)))


def _tokens_of_lists(values, place):
    arrays = [np.asarray(value) for value in values]
    for index, array in enumerate(arrays):
        if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
            raise DataError(f"{place(index)} is no list of token ids; text needs a tokenizer")
    lengths = np.array([array.size for array in arrays], dtype=np.int64)
    return lengths, np.concatenate([np.empty(0, np.int64), *(array.astype(np.int64) for array in arrays)])

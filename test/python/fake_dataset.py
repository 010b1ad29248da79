"""Stands in for the package datasets, which tests do not need."""


class FakeDataset:
    """What of a Dataset the package fsdpc uses: columns by name, from the files."""

    def __init__(self, columns, files=()):
        self._columns, self.column_names = columns, list(columns)
        self.cache_files = [{"filename": str(file)} for file in files]

    def select_columns(self, names):
        return FakeDataset({name: self._columns[name] for name in names})

    def with_format(self, kind):
        return self

    def iter(self, batch_size):
        for first in range(0, len(next(iter(self._columns.values()))), batch_size):
            yield {name: values[first : first + batch_size] for name, values in self._columns.items()}

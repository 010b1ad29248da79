"""Models whose files lie or whose code reaches out, for hostile-models.test."""

import argparse
import io
import pathlib
import zipfile

import torch


class Plain(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)

    def forward(self, x):
        return self.linear(x).sum()


class SetsState(Plain):
    @torch.jit.export
    def __getstate__(self):
        return torch.zeros(1)

    @torch.jit.export
    def __setstate__(self, state: torch.Tensor):
        self.training = False


class Raises(Plain):
    def forward(self, x):
        if x.size(0) > 2:
            raise RuntimeError("four samples are too many")
        return self.linear(x).sum()


class MakesFile(Plain):
    def forward(self, x):
        # A shared mapping of a file makes the file.
        return self.linear(x).sum() + torch.from_file("made-by-the-model", True, 64).sum()


def rewrite(source: bytes, change) -> bytes:
    """The archive with each record as `change` of its name and bytes; None leaves it out."""
    result = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(source)) as old, zipfile.ZipFile(result, "w") as new:
        for entry in old.infolist():
            if (data := change(entry.filename, old.read(entry))) is not None:
                new.writestr(entry.filename, data)
    return result.getvalue()


def damage(source: bytes, ending: str) -> bytes:
    """The archive with another signature before a record, which the directory still names."""
    with zipfile.ZipFile(io.BytesIO(source)) as archive:
        entry = next(entry for entry in archive.infolist() if entry.filename.endswith(ending))
    at = entry.header_offset
    return source[:at] + b"none" + source[at + 4 :]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    folder = parser.parse_args().folder
    for name, model in {"plain": Plain, "sets-state": SetsState, "raises": Raises, "makes-file": MakesFile}.items():
        torch.jit.script(model()).save(str(folder / f"{name}.pt"))
    plain = (folder / "plain.pt").read_bytes()

    def truncate(name, data):
        return data[:100] if len(data) == 256 and "/data/" in name else data

    def enlarge(name, data):
        # The sizes of the weight in the pickle: (8, 8) becomes (8, 200).
        return data.replace(b"(K\x08K\x08t", b"(K\x08K\xc8t") if name.endswith("data.pkl") else data

    def leave_out_constants(name, data):
        return None if name.endswith("constants.pkl") else data

    (folder / "truncated.pt").write_bytes(rewrite(plain, truncate))
    (folder / "enlarged.pt").write_bytes(rewrite(plain, enlarge))
    (folder / "lacking.pt").write_bytes(rewrite(plain, leave_out_constants))
    (folder / "damaged.pt").write_bytes(damage(plain, "data.pkl"))
    with zipfile.ZipFile(folder / "foreign.pt", "w") as foreign:
        foreign.writestr("folder/file", "text")


main()

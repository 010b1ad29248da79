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


def rewrite(source: bytes, change) -> bytes:
    """The archive with each record as `change` of its name and bytes."""
    result = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(source)) as old, zipfile.ZipFile(result, "w") as new:
        for entry in old.infolist():
            new.writestr(entry.filename, change(entry.filename, old.read(entry)))
    return result.getvalue()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    folder = parser.parse_args().folder
    for name, model in {"plain": Plain, "sets-state": SetsState, "raises": Raises}.items():
        torch.jit.script(model()).save(str(folder / f"{name}.pt"))
    plain = (folder / "plain.pt").read_bytes()

    def truncate(name, data):
        return data[:100] if len(data) == 256 and "/data/" in name else data

    def enlarge(name, data):
        # The sizes of the weight in the pickle: (8, 8) becomes (8, 200).
        return data.replace(b"(K\x08K\x08t", b"(K\x08K\xc8t") if name.endswith("data.pkl") else data

    (folder / "truncated.pt").write_bytes(rewrite(plain, truncate))
    (folder / "enlarged.pt").write_bytes(rewrite(plain, enlarge))


main()

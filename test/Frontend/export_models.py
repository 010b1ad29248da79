"""Writes the models of the capture's tests into a folder: export_models.py FOLDER"""

import pathlib
import sys
import zipfile

import torch

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "models")]
import export  # noqa: E402
import models  # noqa: E402
import small_models  # noqa: E402

CONFIGS = {
    "mlp": models.Config("mlp"),
    "shared": models.Config("shared"),
    "vit": models.Config("vit"),
    "convnet": models.Config("convnet", dim=8),
    "llama": models.Config("llama"),
    "llama_bf16": models.Config("llama", dtype="bf16"),
    "gpt2": models.Config("gpt2"),
    "gpt2_dropout": models.Config("gpt2", dropout=0.1),
}


def export_small(module: torch.nn.Module, x: torch.Tensor, path: pathlib.Path) -> None:
    torch.export.save(torch.export.export(module, (x,), strict=False), str(path))


def main() -> None:
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, config in CONFIGS.items():
        export.export(config, "script", str(folder / f"{name}.script.pt"))
        export.export(config, "trace", str(folder / f"{name}.trace.pt"))
        export.export(config, "pt2", str(folder / f"{name}.pt2"))
    export.export(CONFIGS["gpt2"], "script", str(folder / "gpt2_meta.pt"), meta=True)
    export.export(CONFIGS["llama_bf16"], "pt2", str(folder / "llama_meta.pt2"), meta=True)
    gpt2_bf16 = models.Config("gpt2", dtype="bf16")
    export.export(gpt2_bf16, "script", str(folder / "gpt2_bf16_meta.pt"), meta=True)
    torch.manual_seed(0)
    for kind in small_models.REFUSED + small_models.WORKING:
        torch.jit.script(kind()).save(str(folder / f"{kind.__name__}.pt"))
    table = torch.jit.trace(small_models.Table(), (torch.randn(2048),), check_trace=False)
    table.save(str(folder / "Table.pt"))
    x = torch.randn(4, 4)
    export_small(small_models.Regions(), x, folder / "Regions.pt2")
    export_small(small_models.Conditional(), x[0], folder / "Conditional.pt2")
    for kind in (small_models.Numbers, small_models.Indexed):
        torch.jit.trace(kind(), (x[0],), check_trace=False).save(str(folder / f"{kind.__name__}.pt"))
    whole = (folder / "mlp.script.pt").read_bytes()
    (folder / "truncated.pt").write_bytes(whole[: len(whole) // 2])
    (folder / "garbage.pt").write_bytes(b"this is no archive" * 100)
    whole = (folder / "mlp.pt2").read_bytes()
    (folder / "truncated.pt2").write_bytes(whole[: len(whole) // 2])
    with zipfile.ZipFile(folder / "mlp.pt2") as archive, zipfile.ZipFile(folder / "no-layout.pt2", "w") as damaged:
        for record in archive.infolist():
            data = archive.read(record)
            if record.filename.endswith("models/model.json"):
                data = data.replace(b'"layout"', b'"l_yout"', 1)
            damaged.writestr(record, data)
    dynamic = torch.export.export(
        models.build(CONFIGS["mlp"]),
        tuple(models.example_inputs(CONFIGS["mlp"]).values()),
        dynamic_shapes=[{0: torch.export.Dim("batch")}] * 2,
    )
    torch.export.save(dynamic, str(folder / "dynamic.pt2"))


if __name__ == "__main__":
    main()

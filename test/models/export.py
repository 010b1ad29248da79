"""Saves a model of models.py for fsdp-capture.

    export.py --model llama --dim 64 --layers 2 --format script -o model.pt --flags flags.txt

Prints the matching --input flags; --flags also writes them to a file.
"""

import argparse
import dataclasses
import pathlib
import sys

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import models  # noqa: E402


def export(config: models.Config, form: str, path: str, meta: bool = False) -> None:
    """Writes the model as `form`: script, trace or pt2. `meta`: without values."""
    model = models.build(config, "meta" if meta else None)
    inputs = models.example_inputs(config)
    if meta:
        inputs = {name: value.to("meta") for name, value in inputs.items()}
    if form == "script":
        torch.jit.script(model).save(path)
    elif form == "trace":
        state = torch.random.get_rng_state()
        torch.jit.trace(model, tuple(inputs.values()), check_trace=False).save(path)
        torch.random.set_rng_state(state)
    elif form == "pt2":
        torch.export.save(torch.export.export(model, tuple(inputs.values())), path)
    else:
        raise ValueError(f"unknown format '{form}', expected script, trace or pt2")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for field in dataclasses.fields(models.Config):
        if field.name == "frozen":
            parser.add_argument("--frozen", nargs="*", default=[], help="patterns of parameters")
            continue
        kind = field.type if field.type in (int, float, str) else int
        parser.add_argument(
            f"--{field.name.replace('_', '-')}", type=kind, default=field.default
        )
    parser.add_argument("--format", choices=["script", "trace", "pt2"], default="script")
    parser.add_argument("--meta", action="store_true", help="save without values")
    parser.add_argument("--flags", help="file for the --input flags of fsdp-capture")
    parser.add_argument("-o", "--output", required=True)
    options = parser.parse_args()
    names = [field.name for field in dataclasses.fields(models.Config)]
    config = models.Config(**{name: getattr(options, name) for name in names})
    if config.model not in models.MODELS:
        parser.error(f"unknown model '{config.model}', expected one of {', '.join(models.MODELS)}")
    export(config, options.format, options.output, options.meta)
    flags = " ".join(models.input_flags(config))
    if options.flags:
        pathlib.Path(options.flags).write_text(flags + "\n")
    print(flags)


if __name__ == "__main__":
    main()

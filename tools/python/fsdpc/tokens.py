"""Writes data for the --data flag of training binaries from datasets of Hugging Face.

    python -m fsdpc.tokens SOURCE... -o tokens.bin --vocab 50257
    python -m fsdpc.tokens SOURCE... -o packed.safetensors --length 2048 --labels labels --positions position_ids

SOURCE is a folder of the package datasets (save_to_disk), an .arrow or a .parquet file, with a column of token ids
or, with --tokenizer, of text. A token file is one row of tokens, which the binary cuts into samples. A .safetensors
file has samples of --length tokens, with further tensors about the documents in each sample; its tensors have the
names of the model's inputs.
"""

import argparse
import sys

from .errors import DataError, run_command
from .packing import write_packed
from .token_files import TYPES, write_tokens

#: Flags for packed samples only.
_PACKED = {
    "length": "tokens of a sample",
    "tokens": "the input of tokens (default: input_ids)",
    "targets": "the input of the next tokens",
    "labels": "the input of the tokens themselves, for a model that shifts them, as those of transformers do",
    "positions": "the input of positions, which begin again with each document and sample",
    "documents": "the input of the document's number in the sample",
    "mask": "the input of a mask [1,T,T] of bools: a token attends to those of its document that are not behind it",
}


def _parse(arguments):
    parser = argparse.ArgumentParser(prog="python -m fsdpc.tokens", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    add = parser.add_argument
    add("source", nargs="+", metavar="SOURCE")
    add("-o", "--output", required=True, metavar="FILE", help="packed samples if it ends in .safetensors, else tokens")
    add("--split", metavar="NAME", help="split to read, from a folder with several")
    add("--column", metavar="NAME", help="default: input_ids, or text with --tokenizer")
    add("--tokenizer", metavar="FOLDER", help="folder of transformers' save_pretrained; no special tokens are added")
    add("--vocab", type=int, metavar="N", help="tokens must be below N; default: the tokenizer's")
    add("--end-of-text", metavar="ID", help="a token that ends each document; 'eos' is the tokenizer's")
    add("--data-dtype", choices=TYPES, help="write raw tokens of this type; default: a file with llm.c's header")
    packed = parser.add_argument_group("packed samples")
    for name, text in _PACKED.items():
        kind = {"type": int, "metavar": "T"} if name == "length" else {"metavar": "NAME"}
        packed.add_argument(f"--{name}", help=text, **kind)
    packed.add_argument("--ignore-boundaries", action="store_true",
                        help="a document's last token has the target -100, not the next document's first")  # fmt: skip
    packed.add_argument("--dtype", choices=("i64", "i32"), help="dtype of all inputs but the mask (default: i64)")
    values = parser.parse_args(arguments)
    if values.end_of_text not in (None, "eos"):
        try:
            values.end_of_text = int(values.end_of_text)
        except ValueError:
            parser.error(f"--end-of-text {values.end_of_text}: expected a number or eos")
    given = {name: value for name, value in vars(values).items() if value is not None and value is not False}
    is_packed = values.output.endswith(".safetensors")
    wrong = ["data_dtype"] if is_packed else [*_PACKED, "ignore_boundaries", "dtype"]
    for name in wrong:
        if name in given:
            parser.error(f"--{name.replace('_', '-')} is for {'token files' if is_packed else '.safetensors files'}")
    if is_packed and values.length is None:
        parser.error("a .safetensors file needs --length")
    return given, is_packed


def _write(given, is_packed):
    source, path = given.pop("source"), given.pop("output")
    if is_packed:
        done = write_packed(source, path, given.pop("length"), **given)
        print(f"{path}: {done.samples} samples of {done.documents} documents, {done.dropped} tokens left over")
    else:
        done = write_tokens(source, path, **given)
        how = "with a header" if done.has_header else f"raw: --data-dtype {done.type}"
        print(f"{path}: {done.tokens} tokens of {done.documents} documents, {done.type}, {how}")


def main(arguments=None):
    given, is_packed = _parse(arguments)
    return run_command(lambda: _write(given, is_packed), DataError, OSError)


if __name__ == "__main__":
    sys.exit(main())

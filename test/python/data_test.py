#!/usr/bin/env python3
"""Data of Hugging Face's datasets become token files and packed samples (tools/python/fsdpc/tokens.py). The package
datasets is stood in for by a small one, and its own classes and files are read where it is installed."""

import contextlib
import importlib.util
import io
import os
import pathlib
import random
import struct
import sys
import types
import unittest
from unittest import mock

import torch
import exported
import fsdpc  # exported says where it is
import safetensors_io
from fake_dataset import FakeDataset
from fsdpc import packing, tokens

HAS_DATASETS = importlib.util.find_spec("datasets") is not None
#: More rows than are read at once; some are empty, and one is longer than many samples.
LENGTHS = [random.Random(1).choice([0, 1, 2, 3, 7, 8, 20]) for _ in range(1500)]
LENGTHS[700] = 100
DOCUMENTS = [[random.Random(row * 1000 + i).randrange(300) for i in range(count)] for row, count in enumerate(LENGTHS)]
FLAT = [token for document in DOCUMENTS for token in document]


class Tokenizer:
    """What of a tokenizer of transformers is used: a letter is its place in the alphabet."""

    all_special_ids = [26]
    eos_token_id = 26

    def __len__(self):
        return 27

    def __call__(self, texts, add_special_tokens, **options):
        assert not add_special_tokens
        return {"input_ids": [[ord(letter) - ord("a") for letter in text] for text in texts]}


def reference(documents, length, ignore_boundaries=False, needs_target=True):
    """The samples, by a loop over tokens."""
    stream = [(token, place == 0, number) for number, document in enumerate(documents)
              for place, token in enumerate(document)]  # fmt: skip
    result = {"tokens": [], "targets": [], "labels": [], "positions": [], "documents": []}
    for first in range(0, len(stream) - length + 1, length):
        sample, position, numbers = {name: [] for name in result}, 0, []
        for place in range(first, first + length):
            token, begins, number = stream[place]
            last = place + 1 == len(stream)
            position = 0 if begins or place == first else position + 1
            numbers += [number] if number not in numbers else []
            crosses = last or stream[place + 1][1]
            target = -100 if ignore_boundaries and crosses else None if last else stream[place + 1][0]
            sample["tokens"].append(token)
            sample["targets"].append(target)
            sample["labels"].append(-100 if begins and ignore_boundaries else token)
            sample["positions"].append(position)
            sample["documents"].append(len(numbers) - 1)
        if None in sample["targets"] and needs_target:
            break
        for name, values in sample.items():
            result[name].append(values)
    return {name: torch.tensor(values) for name, values in result.items()}


class DataTest(exported.Exported):
    def setUp(self):
        super().setUp()
        self.path = self.folder / "tokens.bin"
        self.packed = self.folder / "packed.safetensors"

    def without(self, *packages):
        """Importing them fails."""
        patch = mock.patch.dict(sys.modules, dict.fromkeys(packages))
        patch.start()
        self.addCleanup(patch.stop)

    def refused(self, text, source, function=None, **options):
        """With that message; no file is left."""
        before = sorted(os.listdir(self.folder))
        with self.assertRaises((fsdpc.DataError, OSError)) as raised:
            (function or (lambda source, **options: fsdpc.write_tokens(source, self.path, **options)))(source, **options)
        self.assertIn(text, str(raised.exception))
        self.assertEqual(sorted(os.listdir(self.folder)), before)


class TokenFiles(DataTest):
    def write(self, documents, **options):
        return fsdpc.write_tokens(FakeDataset({"input_ids": documents}), self.path, **options)

    def test_headers(self):
        """llm.c's: the vocabulary decides about the type."""
        for vocab, magic, version, code in ((300, 20240520, 1, "H"), (1 << 16, 20240520, 1, "H"),
                                            ((1 << 16) + 1, 20240801, 7, "I")):  # fmt: skip
            written = self.write(DOCUMENTS, vocab=vocab)
            self.assertEqual((written.documents, written.tokens), (sum(map(bool, LENGTHS)), len(FLAT)))
            expected = struct.pack("<256i", magic, version, len(FLAT), *[0] * 253)
            self.assertEqual(self.path.read_bytes(), expected + struct.pack(f"<{len(FLAT)}{code}", *FLAT))

    def test_raw(self):
        for dtype, code in (("u16", "H"), ("u32", "I"), ("i32", "i"), ("i64", "q")):
            self.assertFalse(self.write(DOCUMENTS, data_dtype=dtype).has_header)
            self.assertEqual(self.path.read_bytes(), struct.pack(f"<{len(FLAT)}{code}", *FLAT))

    def test_end_of_text(self):
        """It is behind each document that has tokens."""
        self.write(DOCUMENTS, data_dtype="u16", end_of_text=300)
        expected = [token for document in DOCUMENTS if document for token in (*document, 300)]
        self.assertEqual(self.path.read_bytes(), struct.pack(f"<{len(expected)}H", *expected))

    def test_text(self):
        """By a tokenizer, whose vocabulary and end of text hold, or by a function."""
        texts = FakeDataset({"text": ["ab", "", "z"], "other": ["c", "d", "e"]})
        fsdpc.write_tokens(texts, self.path, tokenizer=Tokenizer(), end_of_text="eos")
        self.assertEqual(self.path.read_bytes()[1024:], struct.pack("<5H", 0, 1, 26, 25, 26))
        fsdpc.write_tokens(texts, self.path, tokenizer=lambda text: list(text.encode()), column="other", data_dtype="u8")
        self.assertEqual(self.path.read_bytes(), b"cde")

    def test_several_sources(self):
        halves = [FakeDataset({"input_ids": DOCUMENTS[:800]}), FakeDataset({"input_ids": DOCUMENTS[800:]})]
        fsdpc.write_tokens(halves, self.path, data_dtype="u16")
        self.assertEqual(self.path.read_bytes(), struct.pack(f"<{len(FLAT)}H", *FLAT))

    def test_what_is_refused(self):
        fake = lambda *documents, name="input_ids": FakeDataset({name: list(documents)})
        place = "the dataset, column 'input_ids', row 1"
        self.refused(f"{place}: token 2 is 300, expected 0 to 299, of the vocabulary", fake([1] * 5, [1, 2, 300]), vocab=300)
        self.refused(f"{place}: token 0 is -1, expected 0", fake([], [-1]), vocab=300)
        self.refused(f"{place}: token 0 is 256, expected 0 to 255, as u8 holds", fake([], [256]), data_dtype="u8", vocab=300)
        self.refused(f"{place} is no list of token ids", fake([1], [0.5]), vocab=3)
        self.refused(f"{place} is no list of token ids", fake([1], "text"), vocab=3)
        self.refused("has no column 'input_ids': 'ids'", fake([1], name="ids"), vocab=3)
        self.refused("row 1 is of type NoneType, expected text", fake("a", None, name="text"), tokenizer=Tokenizer())
        self.refused("the size of the vocabulary is needed", fake([1]))
        self.refused("the vocabulary's size is 0", fake([1]), vocab=0)
        self.refused("the end-of-text token is 300, expected below the vocabulary's 300", fake([1]), vocab=300, end_of_text=300)
        self.refused("the end-of-text token is -1, expected at least 0", fake([1]), data_dtype="u8", end_of_text=-1)
        self.refused("there are no tokens", fake([], []), vocab=300)
        self.refused("there are no tokens", fake(), data_dtype="u8")
        self.refused("the end-of-text token is 300, expected below 256, as u8 holds", fake([1]), data_dtype="u8", end_of_text=300)
        self.refused("no tokenizer that has an end-of-text token", fake([1]), vocab=300, end_of_text="eos")
        self.refused("data_dtype is 'u64'", fake([1]), data_dtype="u64")
        self.refused("is a list, expected a Dataset", [[[1, 2]]], vocab=3)
        self.refused("no split 'x': 'train', 'test'", dict.fromkeys(("train", "test"), fake([1])), split="x", vocab=3)
        self.refused("several splits, of which one is to be named", dict.fromkeys(("a", "b"), fake([1])), vocab=3)
        self.refused("has no splits, so none is 'x'", fake([1]), split="x", vocab=3)
        self.refused("is no file or folder", self.folder / "none", vocab=3)
        with mock.patch("fsdpc.token_files._MOST_TOKENS", 2):
            self.refused("3 tokens, but the header of llm.c counts at most 2", fake([1, 1, 1]), vocab=3)

    def test_an_input_is_not_overwritten(self):
        self.path.write_bytes(b"data")
        self.refused("is an input", FakeDataset({"input_ids": [[1]]}, [self.path]), vocab=3)
        self.assertEqual(self.path.read_bytes(), b"data")

    def test_folders_need_datasets(self):
        """Which loads them, here a stand-in of the package."""
        (self.folder / "data").mkdir()
        module = types.ModuleType("datasets")
        module.load_from_disk = lambda path: {"train": FakeDataset({"input_ids": [[len(pathlib.Path(path).name)]]})}
        with mock.patch.dict(sys.modules, {"datasets": module}):
            fsdpc.write_tokens(self.folder / "data", self.path, data_dtype="u8", split="train")
        self.assertEqual(self.path.read_bytes(), b"\x04")
        self.path.unlink()
        self.without("datasets", "pyarrow", "transformers")
        (self.folder / "data.arrow").touch()
        self.refused("is a folder, which only the package datasets reads", self.folder / "data", vocab=3)
        self.refused("needs the package pyarrow, which comes with datasets", self.folder / "data.arrow", vocab=3)
        self.refused("needs the package transformers", FakeDataset({"text": []}), tokenizer=str(self.folder))
        self.refused("none' is no folder", FakeDataset({"text": []}), tokenizer=str(self.folder / "none"))


class Packing(DataTest):
    ALL = {"tokens": "ids", "targets": "next", "labels": "same", "positions": "pos", "documents": "doc", "mask": "may"}

    def pack(self, data, length, **options):
        dataset = FakeDataset({"input_ids": data})
        return fsdpc.write_packed(dataset, self.packed, length, vocab=301, **options), safetensors_io.load(self.packed)

    def check(self, documents, length, **options):
        written, found = self.pack(documents, length, **self.ALL, **options)
        expected = reference(documents, length, options.get("ignore_boundaries", False))
        self.assertEqual(list(found), list(self.ALL.values()))
        for kind, values in expected.items():
            self.assertTrue(torch.equal(found[self.ALL[kind]].long(), values), kind)
        numbers = expected["documents"]
        mask = (numbers[:, None, :, None] == numbers[:, None, None, :]).tril()
        self.assertTrue(torch.equal(found["may"], mask))
        total = sum(map(len, documents))
        self.assertEqual((written.samples, written.dropped), (len(numbers), total - numbers.numel()))
        # The file ends where the last tensor does.
        size = sum(tensor.nbytes for tensor in found.values())
        (header,) = struct.unpack("<Q", self.packed.read_bytes()[:8])
        self.assertEqual(self.packed.stat().st_size, 8 + header + size)
        self.assertEqual(header % 8, 0)
        return found

    def test_samples(self):
        """In one block and in blocks of one sample; documents end inside samples and with them."""
        for block in (1, packing._BLOCK_BYTES):
            with mock.patch("fsdpc.packing._BLOCK_BYTES", block):
                for length in (1, 2, 7, 8, 64, 1000):
                    for ignore_boundaries in (False, True):
                        with self.subTest(block=block, length=length, ignore_boundaries=ignore_boundaries):
                            self.check(DOCUMENTS, length, ignore_boundaries=ignore_boundaries)

    def test_the_last_target(self):
        """Where the data end with a sample, that has no last target: it is ignored, or the sample is left out."""
        documents = [[1, 2, 3], [4, 5], [6, 7, 8]]
        self.assertEqual(len(self.check(documents, 4)["ids"]), 1)
        self.assertEqual(len(self.check(documents, 4, ignore_boundaries=True)["ids"]), 2)
        self.assertEqual(self.pack(documents, 4, labels="labels")[0].samples, 2)
        self.assertEqual(len(self.check([*documents, [9]], 4)["ids"]), 2)

    def test_types_and_names(self):
        """Only what is asked for is in the file."""
        found = self.check(DOCUMENTS, 8, dtype="i32")
        self.assertEqual({tensor.dtype for tensor in found.values()}, {torch.int32, torch.bool})
        _, found = self.pack(DOCUMENTS, 8)
        self.assertEqual({name: tensor.dtype for name, tensor in found.items()}, {"input_ids": torch.int64})
        _, found = self.pack([[1], [2, 3]], 2, end_of_text=300, labels="labels")
        self.assertEqual(found["labels"].tolist(), [[1, 300], [2, 3]])

    def test_what_is_refused(self):
        pack = lambda source, length=4, **options: fsdpc.write_packed(source, self.packed, length, **options)
        refused = lambda text, **options: self.refused(text, FakeDataset({"input_ids": [[1, 2], [3, 4]]}), pack, **options)
        refused("there are 4 tokens, too few for a sample of 5", length=5)
        refused("there are 4 tokens, too few for a sample of 4 and the target of its last token", targets="next")
        self.refused("there are 0 tokens, too few for a sample of 4", FakeDataset({"input_ids": [[]]}), pack)
        refused("tokens cannot be called None: they are always in the file", tokens=None, targets="next")
        refused("the length of samples is 0", length=0)
        refused("ignore_boundaries needs targets or labels", ignore_boundaries=True)
        refused("mask cannot be called 'input_ids', as tokens are", mask="input_ids")
        refused("tokens cannot be called ''", tokens="")
        refused("dtype is 'u16', expected i64 or i32", dtype="u16")
        refused("row 1: token 1 is 4, expected 0 to 3", vocab=4)


class CommandLine(DataTest):
    def run_main(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                status = tokens.main([str(argument) for argument in arguments])
            except SystemExit as stopped:
                status = stopped.code
        return status, out.getvalue(), err.getvalue()

    def test_commands(self):
        """Flags reach the functions, and what is wrong with them is said."""
        (self.folder / "data").mkdir()
        module = types.ModuleType("datasets")
        module.load_from_disk = lambda path: {"train": FakeDataset({"ids": DOCUMENTS})}
        with mock.patch.dict(sys.modules, {"datasets": module}):
            data = (self.folder / "data", "--split", "train", "--column", "ids")
            done = self.run_main(*data, "-o", self.path, "--vocab", 301, "--end-of-text", 300)
            total = len(FLAT) + sum(map(bool, LENGTHS))
            self.assertEqual(done, (0, f"{self.path}: {total} tokens of {sum(map(bool, LENGTHS))} documents, u16, "
                                       "with a header\n", ""))  # fmt: skip
            done = self.run_main(*data, "-o", self.packed, "--length", 8, "--tokens", "a", "--targets", "b", "--labels",
                                 "c", "--positions", "d", "--documents", "e", "--mask", "f", "--ignore-boundaries",
                                 "--dtype", "i32")  # fmt: skip
            self.assertEqual(done[0], 0, done)
            found, expected = safetensors_io.load(self.packed), reference(DOCUMENTS, 8, True)
            for name, kind in zip("abcde", expected, strict=True):
                self.assertTrue(torch.equal(found[name].long(), expected[kind]), kind)
            self.assertEqual(found["f"].shape, (len(found["a"]), 1, 8, 8))
            done = self.run_main(*data, "-o", self.path, "--data-dtype", "u16", "--end-of-text", 0)
            self.assertIn(f"{total} tokens", done[1])
            done = self.run_main(*data, "-o", self.path, "--vocab", 0)
            self.assertEqual(done, (1, "", "error: the vocabulary's size is 0, expected at least 1\n"))
            done = self.run_main(*data, "-o", self.packed, "--length", 0)
            self.assertEqual(done, (1, "", "error: the length of samples is 0, expected at least 1\n"))
            done = self.run_main(*data, "-o", self.path, "--length", 0)
            self.assertEqual(done[0], 2)
            self.assertIn("--length is for .safetensors files", done[2])
            done = self.run_main(*data, "-o", self.path, "--vocab", 4)
            self.assertEqual((done[0], done[1], done[2].count("\n")), (1, "", 1))
            self.assertRegex(done[2], r"^error: .*: token \d+ is \d+, expected 0 to 3")
        for text, flags in (("--data-dtype is for token files", ("-o", "a.safetensors", "--length", 4, "--data-dtype", "u8")),
                            ("--mask is for .safetensors files", ("-o", "a.bin", "--mask", "m")),
                            ("a .safetensors file needs --length", ("-o", "a.safetensors")),
                            ("--end-of-text x: expected a number or eos", ("-o", "a.bin", "--end-of-text", "x"))):  # fmt: skip
            status, _, err = self.run_main("data", *flags)
            self.assertEqual(status, 2)
            self.assertIn(text, err)


@unittest.skipUnless(HAS_DATASETS, "needs the package datasets")
class RealDatasets(DataTest):
    def setUp(self):
        super().setUp()
        import datasets

        datasets.disable_progress_bars()
        self.datasets = datasets
        self.dataset = datasets.Dataset.from_dict({"input_ids": DOCUMENTS, "other": LENGTHS})
        self.expected = struct.pack(f"<{len(FLAT)}H", *FLAT)

    def check(self, source, expected=None, **options):
        fsdpc.write_tokens(source, self.path, data_dtype="u16", **options)
        self.assertEqual(self.path.read_bytes(), expected or self.expected)

    def test_sources(self):
        """Objects, folders and files, in the order in which datasets has the rows."""
        self.check(self.dataset)
        self.check(self.dataset.to_iterable_dataset())
        self.check(self.dataset.with_format("torch"))
        self.dataset.save_to_disk(self.folder / "data", num_shards=2)
        self.check(self.folder / "data")
        self.check(sorted((self.folder / "data").glob("*.arrow")))
        self.dataset.to_parquet(self.folder / "data.parquet")
        self.check(self.folder / "data.parquet")
        self.datasets.DatasetDict(a=self.dataset).save_to_disk(self.folder / "splits")
        self.check(self.folder / "splits", split="a")
        order = list(reversed(range(len(DOCUMENTS))))
        backwards = [token for document in reversed(DOCUMENTS) for token in document]
        self.check(self.dataset.select(order), struct.pack(f"<{len(FLAT)}H", *backwards))

    def test_types_of_columns(self):
        features = lambda kind: self.datasets.Features(x=self.datasets.Sequence(self.datasets.Value(kind)))
        for kind in ("int32", "uint16", "int64"):
            self.check(self.datasets.Dataset.from_dict({"x": DOCUMENTS}, features(kind)), column="x")
        fixed = self.datasets.Features(x=self.datasets.Sequence(self.datasets.Value("int32"), length=3))
        self.check(self.datasets.Dataset.from_dict({"x": [[1, 2, 3]] * 2}, fixed), struct.pack("<6H", 1, 2, 3, 1, 2, 3), column="x")

    def test_other_arrow_files(self):
        """The format with a footer, and batches of many rows."""
        import pyarrow

        table = pyarrow.table({"input_ids": DOCUMENTS})
        for writer in (pyarrow.ipc.new_file, pyarrow.ipc.new_stream):
            path = self.folder / "data.arrow"
            with writer(str(path), table.schema) as file:
                file.write_table(table)
            self.check(path)

    def test_what_is_refused(self):
        rows = lambda *values: self.datasets.Dataset.from_dict({"input_ids": list(values)})
        self.refused("row 1 is null", rows([1], None), vocab=3)
        self.refused("row 1 has a token that is null", rows([1], [1, None]), vocab=3)
        self.refused("is of type string, expected a list of token ids", rows("text"), vocab=3)
        self.refused("is of type list<", rows([0.5]), vocab=3)
        self.refused("row 1200: token 0 is 7", rows(*[[1]] * 1200, [7]), vocab=3)
        (self.folder / "data.parquet").write_bytes(b"PAR1 and nothing else")
        self.refused("data.parquet' is neither an arrow nor a parquet file", self.folder / "data.parquet", vocab=3)
        (self.folder / "folder").mkdir()
        self.refused("cannot be read by datasets.load_from_disk", self.folder / "folder", vocab=3)
        self.dataset.save_to_disk(self.folder / "data")
        (file,) = (self.folder / "data").glob("*.arrow")
        before = file.read_bytes()
        for source in (self.folder / "data", file):
            self.refused("is an input", source, lambda source: fsdpc.write_tokens(source, file, vocab=300))
        self.assertEqual(file.read_bytes(), before)

    @unittest.skipUnless(importlib.util.find_spec("transformers"), "needs the package transformers")
    def test_tokenizers(self):
        """A folder of transformers; no special tokens are added, the vocabulary is the tokenizer's."""
        import tokenizers
        import transformers

        vocab = {name: index for index, name in enumerate(["[UNK]", "[EOS]", "one", "two"])}
        words = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocab, unk_token="[UNK]"))
        words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
        words.post_processor = tokenizers.processors.TemplateProcessing(single="$A [EOS]", special_tokens=[("[EOS]", 1)])
        fast = transformers.PreTrainedTokenizerFast(tokenizer_object=words, eos_token="[EOS]", unk_token="[UNK]")
        fast.save_pretrained(self.folder / "tokenizer")
        texts = self.datasets.Dataset.from_dict({"text": ["one two", "", "two three"]})
        for tokenizer in (fast, self.folder / "tokenizer"):
            fsdpc.write_tokens(texts, self.path, tokenizer=tokenizer, end_of_text="eos")
            self.assertEqual(self.path.read_bytes()[1024:], struct.pack("<6H", 2, 3, 1, 3, 0, 1))
        (self.folder / "empty").mkdir()
        self.refused("empty' cannot be loaded", texts, tokenizer=self.folder / "empty")


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""A binary with a step for each of several lengths of sequences. Its steps read the batches in the documented
order, and give the losses and parameters of eager torch, bit for bit. A run that resumes from a checkpoint is
the uninterrupted run. A run through one length after the other is a run of one binary for each length."""

import dataclasses
import json
import re
import shutil
import unittest

import torch

import harness
from oracle import models, safetensors_io

RANKS = 2
MASK = (1 << 64) - 1


def mix(x):
    """SplitMix64's finalizer."""
    x = (x + 0x9E3779B97F4A7C15) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def passes(size, seed, position):
    """The number at a position of endless passes over 0, ..., size - 1. With a seed each pass is shuffled: by a
    Feistel network, which is applied again until its result is below `size`."""
    number, place = divmod(position, size)
    if seed is None:
        return place
    keys, key = [], mix(seed) ^ number
    for _ in range(6):
        key = mix(key)
        keys.append(key)
    half = ((size - 1).bit_length() + 1) // 2
    mask = (1 << half) - 1
    while True:
        left, right = place >> half, place & mask
        for key in keys:
            left, right = right, left ^ (mix(right ^ key) & mask)
        place = left << half | right
        if place < size:
            return place


@dataclasses.dataclass
class Length:
    """A length of sequences."""

    seq: int  # tokens per sample
    batch: int  # samples per rank and step
    samples: int  # in the file of data


#: The longest is first: the model's tables of positions have the first length.
LENGTHS = [Length(32, 2, 13), Length(16, 4, 20), Length(24, 2, 9)]
LLAMA = models.Config("llama", dim=32, layers=2, seq=32)
GPT2 = models.Config("gpt2", dim=32, layers=2, seq=32, dropout=0.1)


def batch_of(config, length, samples, seed):
    return models.example_inputs(dataclasses.replace(config, seq=length.seq), seed, samples)


def order(lengths, step, seed=None):
    """Of a step, from 0: the index of its length, and the number of its batch among those of that length."""
    counts = [length.samples // (length.batch * RANKS) for length in lengths]
    number, slot = step // sum(counts), passes(sum(counts), seed, step)
    for index, count in enumerate(counts):
        if slot < count:
            return index, number * count + slot
        slot -= count


def without_times(lines):
    """The lines of steps, whose other fields do not depend on how long a step took."""
    is_time = lambda name: name.endswith(("_ms", "_per_s")) or name in ("mfu", "over_bound")
    return [{name: line[name] for name in line if not is_time(name)} for line in lines]


class Lengths(harness.Case):
    def setUp(self):
        torch.set_num_threads(1)

    def prepare(self, config, lengths, optimizer=harness.ADAMW):
        """A workspace with the model, and with the data in a file for each length."""
        workspace = harness.Workspace(config, optimizer)
        self.addCleanup(workspace.remove)
        workspace.files = []
        for index, length in enumerate(lengths):
            path = workspace.folder / f"length-{length.seq}.safetensors"
            safetensors_io.save(path, batch_of(config, length, length.samples, 10 + index))
            workspace.files.append(path)
        return workspace

    def save_model(self, workspace, lengths, form):
        """One TorchScript file of the model, or a .pt2 file for each length."""
        model = models.build(workspace.config)
        path = workspace.folder / "model.pt"
        if form == "script":
            torch.jit.script(model).save(path)
            return [path]
        paths = [workspace.folder / f"model-{length.seq}.pt2" for length in lengths]
        for length, path in zip(lengths, paths):
            inputs = batch_of(workspace.config, length, length.batch, 1)
            torch.export.save(torch.export.export(model, tuple(inputs.values())), path)
        return paths

    def inputs(self, length):
        return [f"{name}:i64[{length.batch},{length.seq}]" for name in ("tokens", "targets")]

    def compile(self, workspace, lengths, *flags, form="script", name="train", mesh=f"dp={RANKS}"):
        files = self.save_model(workspace, lengths, form)
        binary = workspace.folder / name
        shapes = []
        if form == "script":
            shapes += [part for text in self.inputs(lengths[0]) for part in ("--input", text)]
            for length in lengths[1:]:
                shapes += ["--also-inputs", " ".join(self.inputs(length))]
        for path in files[1:]:
            shapes += ["--also-model", path]
        harness.run([harness.TOOLS / "fsdpc", files[0], *shapes, "--mesh", mesh,
                     *workspace.optimizer.flags(), *flags, "--weights", workspace.weights,
                     "-o", binary])  # fmt: skip
        return binary

    def train(self, workspace, binary, steps, *flags, files=None, communicator="local", ranks=RANKS):
        workspace.data, *rest = files or workspace.files
        more = ["--data", *rest] if rest else []
        return harness.train(workspace, binary, ranks, steps, communicator, [*flags, *more])

    def eager(self, workspace, lengths, steps, seed=None):
        """Losses by step and rank, and the parameters, of AdamW with gradients averaged in rank order."""
        model = models.build(workspace.config)
        optimizer = torch.optim.AdamW(model.parameters(), foreach=False, **workspace.optimizer.options)
        data = [list(safetensors_io.load(path).values()) for path in workspace.files]
        losses = []
        for step in range(steps):
            index, batch = order(lengths, step, seed)
            length, batches = lengths[index], []
            for rank in range(RANKS):
                first = (batch * RANKS + rank) * length.batch
                rows = [passes(length.samples, seed, first + i) for i in range(length.batch)]
                batches.append([tensor[rows] for tensor in data[index]])
            losses.append(harness.train_eagerly(model, optimizer, batches))
        return losses, dict(model.state_dict())

    def check_eager(self, form, communicator, flags=(), seed=None):
        workspace = self.prepare(LLAMA, LENGTHS)
        binary = self.compile(workspace, LENGTHS, *flags, form=form)
        # Two passes, each of 3 + 2 + 2 steps, and two steps of a third one.
        steps = 16
        shuffle = [] if seed is None else ["--shuffle", "--seed", seed]
        lines, weights = self.train(workspace, binary, steps, *shuffle, communicator=communicator)
        losses, expected = self.eager(workspace, LENGTHS, steps, seed)
        self.assertEqual([line["shape"] for line in lines],
                         [order(LENGTHS, step, seed)[0] + 1 for step in range(steps)])  # fmt: skip
        got = [[float.fromhex(text) for text in line["loss_hex"]] for line in lines]
        self.assertEqual(got, losses)
        self.assertIsNone(harness.bitwise_difference(expected, weights))
        read = [RANKS * LENGTHS[order(LENGTHS, step, seed)[0]].batch for step in range(steps)]
        self.assertEqual([line["samples"] for line in lines],
                         [sum(read[: step + 1]) for step in range(steps)])  # fmt: skip

    def test_equal_to_eager(self):
        for form, communicator, flags, seed in (
            ("script", "local", (), None),
            ("pt2", "shm", ("--layout", "per-param"), 3),
            ("script", "gloo", ("--reshard-after-forward", "true"), 7),
        ):
            with self.subTest(form=form, communicator=communicator, seed=seed):
                self.check_eager(form, communicator, flags, seed)

    def test_resumed_run_is_the_uninterrupted_one(self):
        workspace = self.prepare(GPT2, LENGTHS)
        flags = ["--shuffle", "--seed", 5, "--lr-schedule", "cosine"]
        for options in ((), ("--offload-optimizer", "all"), ("--offload-policy", "cpu")):
            binary = self.compile(workspace, LENGTHS, *options)
            folder = workspace.folder / "run"
            whole, final = self.train(workspace, binary, 12, *flags)
            for saved in (4, 5):
                with self.subTest(options=options, saved=saved):
                    shutil.rmtree(folder, ignore_errors=True)
                    saving = ["--checkpoint-dir", folder, "--save-every", saved]
                    lines, _ = self.train(workspace, binary, 12, *flags, *saving)
                    self.assertEqual(without_times(lines), without_times(whole))
                    for path in folder.iterdir():
                        if path.name != f"step-{saved:09}":
                            shutil.rmtree(path)
                    lines, again = self.resume(workspace, binary, "--resume", folder)
                    self.assertEqual(without_times(lines), without_times(whole[saved:]))
                    self.assertIsNone(harness.bitwise_difference(final, again))

    def resume(self, workspace, binary, *flags, files=None):
        log, save = (workspace.folder / name for name in ("log.jsonl", "final.safetensors"))
        for path in (log, save):
            path.unlink(missing_ok=True)
        harness.run([binary, "--ranks", RANKS, "--data", *(files or workspace.files), *flags,
                     "--log", log, "--save", save])  # fmt: skip
        return harness.read_log(log), safetensors_io.load(save)

    def test_one_binary_for_each_length(self):
        """The same run by two binaries, each with one length: the second resumes from the first's checkpoint."""
        lengths = [Length(32, 2, 16), Length(16, 2, 16)]
        for optimizer, options in (
            (harness.ADAMW, ()),
            (harness.SGD, ("--microbatches", "2", "--clip-grad-norm", "0.5")),
            (harness.ADAMW, ("--schedule", "auto", "--memory-cap", "2MB")),
            (harness.ADAMW, ("--offload-optimizer", "all", "--recompute", "full")),
            (harness.SGD, ("--param-dtype", "bfloat16", "--reduce-dtype", "float32")),
            (harness.ADAMW, ("--param-dtype", "float16", "--reduce-dtype", "float32", "--loss-scale", 2**18,
                             "--loss-scale-backoff-factor", 0.25, "--loss-scale-growth-factor", 16,
                             "--loss-scale-growth-interval", 2)),
        ):
            with self.subTest(optimizer=optimizer.kind, options=options):
                workspace = self.prepare(GPT2, lengths, optimizer)
                both = self.compile(workspace, lengths, *options, name="both")
                steps = 16 // (2 * RANKS * (2 if "--microbatches" in options else 1))
                lines, final = self.train(workspace, both, 2 * steps)
                parts = [
                    self.compile(workspace, [length], *options, name=f"one-{length.seq}")
                    for length in lengths
                ]
                folder = workspace.folder / "run"
                first, _ = self.train(workspace, parts[0], steps, "--checkpoint-dir", folder,
                                      "--save-every", steps, files=workspace.files[:1])  # fmt: skip
                second, expected = self.resume(workspace, parts[1], "--resume", folder, "--steps",
                                               2 * steps, files=workspace.files[1:])  # fmt: skip
                figures = lambda lines: [(line["loss_hex"], line.get("loss_scale"), line.get("skipped"))
                                         for line in lines]  # fmt: skip
                self.assertEqual(figures(lines), figures(first + second))
                self.assertIsNone(harness.bitwise_difference(expected, final))
                if "--loss-scale" in options:
                    skipped = [line.get("skipped", False) for line in lines]
                    self.assertTrue(skipped[0] and not all(skipped[:steps]) and any(skipped[steps:]), skipped)

    def test_chunks(self):
        """Each length is searched for by itself, so chunks may be in the step of one length only."""
        lengths = [Length(32, 2, 16), Length(8, 2, 16)]
        workspace = self.prepare(LLAMA, lengths)
        four = {"mesh": "dp=4"}
        plain, expected = self.train(workspace, self.compile(workspace, lengths, **four), 4, ranks=4)
        network = harness.ROOT / "test" / "Inputs" / "two-per-host.json"
        flags = ["--schedule", "auto", "--device", "h100", "--network", network, "--no-buckets"]
        with self.assertRaises(harness.CommandFailed) as refusal:
            self.compile(workspace, lengths[:1], *flags, "--memory-cap", 1, **four)
        enough = int(re.search(r"a cap of (\d+) bytes is enough", str(refusal.exception))[1])
        kinds = set()
        for cap in (1.02, 1.1, 1.2, 1.3):
            folder = workspace.folder / f"temps-{cap}"
            more = ["--memory-cap", int(enough * cap), "--save-temps", folder]
            binary = self.compile(workspace, lengths, *flags, *more, **four)
            kinds.add(tuple("fsdp.chunk(" in (folder / f"{step}scheduled.mlir").read_text() for step in ("", "step_2.")))
            lines, weights = self.train(workspace, binary, 4, ranks=4)
            self.assertEqual([line["loss_hex"] for line in lines], [line["loss_hex"] for line in plain])
            self.assertIsNone(harness.bitwise_difference(expected, weights))
        self.assertTrue(kinds & {(True, False), (False, True)}, kinds)

    def test_optimizer_state_on_the_host(self):
        """--offload-optimizer auto decides for all shapes together: if one does not fit with the state on the
        device, the state lies on the host for all."""
        lengths = [Length(32, 2, 8), Length(16, 2, 8)]
        workspace = self.prepare(LLAMA, lengths)
        plain, final = self.train(workspace, self.compile(workspace, lengths), 4)
        search = ["--schedule", "asap", "--memory-cap"]
        with self.assertRaises(harness.CommandFailed) as refusal:
            self.compile(workspace, lengths[:1], *search, 1)
        least = int(re.search(r"at least (\d+) bytes are live", str(refusal.exception))[1])
        flags = [*search, least - 4096, "--offload-optimizer", "auto"]
        describe = lambda lengths: harness.run(
            [self.compile(workspace, lengths, *flags), "--describe"]
        ).stdout
        self.assertNotIn("of optimizer state", describe(lengths[1:]))
        self.assertIn("of optimizer state", describe(lengths))
        lines, weights = self.train(workspace, workspace.folder / "train", 4)
        self.assertEqual([line["loss_hex"] for line in lines], [line["loss_hex"] for line in plain])
        self.assertIsNone(harness.bitwise_difference(final, weights))

    def evaluate_eagerly(self, config, weights, files, batches):
        """The mean loss of each rank over its first batches of each length."""
        model = models.build(config)
        model.load_state_dict(weights)
        model.eval()
        sums = [0.0] * RANKS
        for length, path in zip(LENGTHS, files):
            data = list(safetensors_io.load(path).values())
            for rank in range(RANKS):
                for batch in range(batches):
                    first = (batch * RANKS + rank) * length.batch
                    with torch.no_grad():
                        sums[rank] += model(*(t[first : first + length.batch] for t in data)).item()
        return [total / (batches * len(LENGTHS)) for total in sums]

    def test_evaluation(self):
        """Each length has an evaluation: of a scripted model its forward with that length, else a .pt2 file."""
        for form in ("script", "pt2"):
            with self.subTest(form=form):
                workspace = self.prepare(LLAMA, LENGTHS)
                plain, final = self.train(workspace, self.compile(workspace, LENGTHS, form=form), 9)
                files = self.save_model(workspace, LENGTHS, form)
                flags = [part for path in files for part in ("--eval-model", path)]
                binary = self.compile(workspace, LENGTHS, *flags, form=form, name="evaluates")
                evaluate = ["--eval-steps", 2, "--eval-data", *reversed(workspace.files)]
                lines, weights = self.train(workspace, binary, 9, "--eval-every", 2, *evaluate)
                self.assertEqual([line["loss_hex"] for line in lines],
                                 [line["loss_hex"] for line in plain])  # fmt: skip
                self.assertIsNone(harness.bitwise_difference(final, weights))
                log = map(json.loads, (workspace.folder / "log.jsonl").read_text().splitlines())
                last = [line for line in log if "eval_loss" in line][-1]
                self.assertEqual([float.fromhex(text) for text in last["loss_hex"]],
                                 self.evaluate_eagerly(LLAMA, weights, workspace.files, 2))  # fmt: skip
                described = harness.run([binary, "--describe"]).stdout
                for text in ("shape 3, over the same state\ninput: tokens i64[2,24]\n",
                             "evaluation of shape 1, over the same state\ninput: tokens i64[2,32]\n",
                             "evaluation of shape 3, over the same state\ninput: tokens i64[2,24]\n"):  # fmt: skip
                    self.assertIn(text, described)
        with self.assertRaisesRegex(harness.CommandFailed, "no file of --eval-data has samples of shape 2"):
            self.train(workspace, binary, 2, "--eval-data", workspace.files[0])
        with self.assertRaisesRegex(harness.CommandFailed, "--eval-steps 9 of 4 samples each, but --eval-data "
                                    r"has 13 of tokens:i64\[2,32\]"):  # fmt: skip
            self.train(workspace, binary, 2, "--eval-steps", 9, "--eval-data", *workspace.files)

    def test_tokens(self):
        """`N:FILE` cuts the tokens of a file into samples of the N-th shape."""
        workspace = self.prepare(LLAMA, LENGTHS)
        binary = self.compile(workspace, LENGTHS)
        named = []
        for index, (length, path) in enumerate(zip(LENGTHS, workspace.files), 1):
            tokens = torch.randint(0, LLAMA.vocab, (length.samples * length.seq + 1,), dtype=torch.uint8)
            windows = [tokens[i : i + length.samples * length.seq].view(-1, length.seq).long()
                       for i in (0, 1)]  # fmt: skip
            safetensors_io.save(path, {"tokens": windows[0].clone(), "targets": windows[1].clone()})
            file = workspace.folder / f"{length.seq}-a.bin"
            file.write_bytes(tokens.numpy().tobytes())
            named.append(f"{index}:{workspace.folder}/{length.seq}-*.bin")
        flags = ["--shuffle", "--seed", 3]
        expected, final = self.train(workspace, binary, 9, *flags)
        lines, weights = self.train(workspace, binary, 9, *flags, "--data-dtype", "u8", files=named)
        self.assertEqual([line["loss_hex"] for line in lines], [line["loss_hex"] for line in expected])
        self.assertIsNone(harness.bitwise_difference(final, weights))
        train = lambda *files: self.train(workspace, binary, 4, "--data-dtype", "u8", files=files)
        self.assert_fails("is to have samples of shape 4, but this binary has 3 shapes", train,
                          *named, "4:tokens.bin")  # fmt: skip
        self.assert_fails("'none-*.bin' matches no file", train, "1:none-*.bin")

    def test_data_that_fit_no_shape(self):
        workspace = self.prepare(LLAMA, LENGTHS)
        binary = self.compile(workspace, LENGTHS)
        other, tokens = workspace.folder / "other.safetensors", workspace.folder / "tokens.bin"
        safetensors_io.save(other, batch_of(LLAMA, Length(20, 2, 9), 9, 1))
        tokens.write_bytes(bytes(4000))
        train = lambda *files: self.train(workspace, binary, 4, files=files)
        self.assert_fails("has samples of none of the 3 shapes of this binary: shape 1: '", train,
                          *workspace.files, other)  # fmt: skip
        self.assert_fails("no file of --data has samples of shape 2 of this binary, tokens:i64[4,16]",
                          train, workspace.files[0], workspace.files[2])  # fmt: skip
        self.assert_fails("tokens.bin' is read as tokens, which fit each of the 3 shapes of this binary: say "
                          "which samples they are cut into, as 2:", train, tokens)  # fmt: skip

    def test_refused_programs(self):
        workspace = self.prepare(LLAMA, LENGTHS)
        build = lambda lengths, *flags, **options: self.compile(workspace, lengths, *flags, **options)
        self.assert_fails("P6: samples of @step_2 have the shape of those of @step: no sample says",
                          build, [LENGTHS[0], dataclasses.replace(LENGTHS[0], batch=4)])  # fmt: skip
        self.assert_fails("--also-inputs 'tokens:i64[4]': a .pt2 file has the shapes", build,
                          LENGTHS, "--also-inputs", "tokens:i64[4]", form="pt2")  # fmt: skip
        exported = workspace.folder / "model-16.pt2"
        self.assert_fails("MODEL is a TorchScript file, which has no shapes of its own", build,
                          LENGTHS, "--also-model", exported)  # fmt: skip
        self.assert_fails("--also-inputs 'tokens:i64': ", build, LENGTHS, "--also-inputs", "tokens:i64")
        other = models.build(dataclasses.replace(LLAMA, dim=16))
        inputs = batch_of(LLAMA, LENGTHS[1], 4, 1)
        path = workspace.folder / "other.pt2"
        torch.export.save(torch.export.export(other, tuple(inputs.values())), path)
        self.assert_fails(f"--also-model {path} is another model", build, LENGTHS[:1], "--also-model",
                          path, form="pt2")  # fmt: skip


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
"""Data that the package fsdpc writes train a binary as they train torch eagerly: documents packed into samples, with
positions, documents or a mask as the model's inputs, and token files."""

import random
import sys
import unittest

import torch
import torch.nn as nn
import torch.nn.functional as F

import harness
from oracle import ROOT, models, safetensors_io

import fsdpc

sys.path.insert(0, str(ROOT / "test" / "python"))
from fake_dataset import FakeDataset

RANKS, BATCH, LENGTH, STEPS, VOCAB = 2, 2, 16, 6, 61
CONFIG = models.Config("llama", dim=16, layers=1, seq=LENGTH, vocab=VOCAB, batch=BATCH)


def documents():
    draw = random.Random(5)
    return FakeDataset({"input_ids": [[draw.randrange(VOCAB) for _ in range(draw.randrange(1, 30))] for _ in range(40)]})


class Decoder(nn.Module):
    """Attends inside documents: by the batch's mask or, without one, by the numbers of documents."""

    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(VOCAB, 16), nn.Embedding(LENGTH, 16)
        self.layers = nn.ModuleList(nn.ModuleList([nn.Linear(16, 48), nn.Linear(16, 16)]) for _ in range(2))
        self.head = nn.Linear(16, VOCAB)

    def hidden(self, tokens, positions, mask):
        x = self.words(tokens) + self.places(positions)
        for inner, outer in self.layers:
            parts = inner(x).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
            attended = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], attn_mask=mask)
            x = x + outer(attended.transpose(1, 2).flatten(2))
        return x


class ByDocuments(Decoder):
    def forward(self, tokens, targets, positions, documents):
        same = documents[:, None, :, None] == documents[:, None, None, :]
        logits = self.head(self.hidden(tokens, positions, same.tril()))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


class ByMask(Decoder):
    """Shifts the labels itself, as the models of transformers do."""

    def forward(self, input_ids, labels, position_ids, mask):
        logits = self.head(self.hidden(input_ids, position_ids, mask))
        return F.cross_entropy(logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())


class Packed(harness.Comparison):
    def setUp(self):
        torch.set_num_threads(1)

    def check_model(self, kind, communicator, **names):
        workspace = harness.Workspace(CONFIG)
        self.addCleanup(workspace.remove)
        fsdpc.write_packed(documents(), workspace.data, LENGTH, vocab=VOCAB, ignore_boundaries=True, **names)
        data = safetensors_io.load(workspace.data)
        self.assertIn(-100, data[names.get("targets") or names["labels"]])
        self.assertGreater((data[names["positions"]] == 0).sum(), len(data[names["positions"]]))
        torch.manual_seed(0)
        model = kind()
        fsdpc.export(model, {name: data[name][:BATCH] for name in data}, workspace.folder / "model.pt2",
                     weights=workspace.weights, quiet=True)  # fmt: skip
        binary = workspace.folder / "train"
        harness.run([harness.TOOLS / "fsdpc", workspace.folder / "model.pt2", "--mesh", f"dp={RANKS}",
                     *workspace.optimizer.flags(), "-o", binary])  # fmt: skip
        lines, weights = harness.train(workspace, binary, RANKS, STEPS, communicator)
        optimizer = torch.optim.AdamW(model.parameters(), foreach=False, **workspace.optimizer.options)
        losses = []
        for step in range(STEPS):
            first = [(step * RANKS + rank) * BATCH for rank in range(RANKS)]
            batches = [[tensor[row : row + BATCH] for tensor in data.values()] for row in first]
            losses.append(harness.train_eagerly(model, optimizer, batches))
        self.assertEqual([[float.fromhex(text) for text in line["loss_hex"]] for line in lines], losses)
        self.assertIsNone(harness.bitwise_difference(dict(model.state_dict()), weights))

    def test_documents(self):
        self.check_model(ByDocuments, "local", tokens="tokens", targets="targets", positions="positions", documents="documents")

    def test_mask(self):
        self.check_model(ByMask, "shm", labels="labels", positions="position_ids", mask="mask")

    def test_token_files(self):
        """With a header and raw ones: the binary cuts them as write_packed does."""
        workspace = self.workspace(CONFIG)
        binary = workspace.compile(RANKS)
        results = []
        fsdpc.write_packed(documents(), workspace.data, LENGTH, tokens="tokens", targets="targets", end_of_text=0, vocab=VOCAB)
        results.append(harness.train(workspace, binary, RANKS, STEPS))
        for dtype in (None, "u8", "u32"):
            workspace.data = workspace.folder / f"{dtype}.bin"
            fsdpc.write_tokens(documents(), workspace.data, vocab=VOCAB, end_of_text=0, data_dtype=dtype)
            flags = [] if dtype is None else ["--data-dtype", dtype]
            results.append(harness.train(workspace, binary, RANKS, STEPS, extra=flags))
        for lines, weights in results[1:]:
            self.assertEqual([line["loss_hex"] for line in lines], [line["loss_hex"] for line in results[0][0]])
            self.assertIsNone(harness.bitwise_difference(results[0][1], weights))


if __name__ == "__main__":
    unittest.main()

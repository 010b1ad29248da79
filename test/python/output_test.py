#!/usr/bin/env python3
"""tools/python/fsdpc/output.py: files of the package appear whole or not at all, wherever they are."""

import contextlib
import json
import os
import resource
import stat
import struct
import unittest
import warnings
from unittest import mock

import torch
import torch.nn as nn
import exported
import fsdpc  # exported says where it is
import safetensors_io
from fsdpc import checkpoints, output


@contextlib.contextmanager
def files_of_at_most(count):
    """A write beyond `count` bytes of a file fails, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (count, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def without_unnamed_files():
    """A file system that lacks O_TMPFILE."""
    opened = os.open

    def refuse(path, flags, *arguments, **options):
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(95, "Operation not supported")
        return opened(path, flags, *arguments, **options)

    return mock.patch("os.open", refuse)


class Folder(exported.Exported):
    def setUp(self):
        super().setUp()
        self.path = self.folder / "out"

    def names(self, folder=None):
        return sorted(os.listdir(folder or self.folder))


class Output(Folder):
    def write(self, data=b"new", path=None, inputs=()):
        with output.replacing(self.path if path is None else path, inputs) as file:
            file.write(data)

    def test_replaces(self):
        """The file is the old one until the block ends; a hard link keeps the old bytes; the mode stays."""
        for limit in (contextlib.nullcontext(), without_unnamed_files()):
            with self.subTest(limit=limit), limit:
                self.path.write_bytes(b"old")
                self.path.chmod(0o640)
                hard = self.folder / "hard"
                hard.unlink(missing_ok=True)
                hard.hardlink_to(self.path)
                with output.replacing(self.path) as file:
                    file.write(b"new")
                    file.flush()
                    self.assertEqual(self.path.read_bytes(), b"old")
                self.assertEqual((self.path.read_bytes(), hard.read_bytes()), (b"new", b"old"))
                self.assertEqual(stat.S_IMODE(self.path.stat().st_mode), 0o640)
                self.assertEqual(self.names(), ["hard", "out"])

    def test_mode_of_a_new_file(self):
        before = os.umask(0o027)
        self.addCleanup(os.umask, before)
        self.write()
        self.assertEqual(stat.S_IMODE(self.path.stat().st_mode), 0o640)

    def test_durable_before_the_rename(self):
        """Both fsync calls are made, the file's before it has its name."""
        calls = []
        synced, replaced = os.fsync, os.replace

        def sync(descriptor):
            calls.append("folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file")
            synced(descriptor)

        def replace(*arguments, **options):
            calls.append("rename")
            replaced(*arguments, **options)

        with mock.patch("os.fsync", sync), mock.patch("os.replace", replace):
            self.write()
        self.assertEqual(calls, ["file", "rename", "folder"])

    def test_failures_leave_nothing(self):
        for limit in (contextlib.nullcontext(), without_unnamed_files()):
            with self.subTest(limit=limit), limit:
                with self.assertRaises(KeyboardInterrupt), output.replacing(self.path) as file:
                    file.write(b"new")
                    raise KeyboardInterrupt
                with files_of_at_most(1000), self.assertRaisesRegex(OSError, "too large"):
                    self.write(bytes(2000))
                # What is still in the stream's buffer fails with the flush at the end.
                with files_of_at_most(10), self.assertRaisesRegex(OSError, "too large"):
                    self.write(bytes(20))
                failing = mock.patch("os.replace", side_effect=OSError("no rename"))
                with failing, self.assertRaisesRegex(OSError, "no rename"):
                    self.write()
                self.assertEqual(self.names(), [])

    def test_links(self):
        """A link stays and its file is replaced, in that file's folder, also before it exists."""
        inner = self.folder / "inner"
        inner.mkdir()
        self.path.symlink_to("inner/file")
        for data in (b"first", b"second"):
            self.write(data)
            self.assertTrue(self.path.is_symlink())
            self.assertEqual((inner / "file").read_bytes(), data)
        self.assertEqual(self.names(inner), ["file"])
        self.path.unlink()
        self.path.symlink_to(self.path)
        with self.assertRaises(OSError):
            self.write()

    def test_temporary_names_are_not_followed(self):
        """Even a link that has the very name."""
        victim, planted = self.folder / "victim", self.folder / "planted"
        victim.write_bytes(b"precious")
        planted.symlink_to("victim")
        for limit in (contextlib.nullcontext(), without_unnamed_files()):
            with self.subTest(limit=limit), limit, mock.patch("fsdpc.output._make_name", lambda: "planted"):
                with self.assertRaises(FileExistsError):
                    self.write()
                self.assertEqual(victim.read_bytes(), b"precious")
                self.assertEqual(self.names(), ["planted", "victim"])

    def test_no_regular_file(self):
        fifo, link = self.folder / "fifo", self.folder / "link"
        os.mkfifo(fifo)
        link.symlink_to("/dev/full")
        with open(self.folder / "opened", "wb") as opened:
            for path, kind in (("/dev/full", "a device"), (link, "a device"), (fifo, "a FIFO"),
                               (self.folder, "a directory"), (f"{self.folder}/new/", "a directory"), ("", "empty"),
                               (f"/proc/self/fd/{opened.fileno()}", "an open file of a process")):  # fmt: skip
                with self.subTest(path), self.assertRaises(output.OutputError) as raised:
                    self.write(path=path)
                self.assertIn(f"'{path}' is {kind}, expected", str(raised.exception))

    def test_inputs(self):
        """By name, link and hard link; so are two outputs that are one file."""
        self.path.write_bytes(b"old")
        link, hard = self.folder / "link", self.folder / "hard"
        link.symlink_to("out")
        hard.hardlink_to(self.path)
        for path in (self.path, f"{self.folder}/./out", link, hard):
            with self.assertRaisesRegex(output.OutputError, "is an input, which writing it would destroy"):
                self.write(path=path, inputs=[self.folder / "none", self.path])
        with self.assertRaisesRegex(output.OutputError, "is written twice"), output.Files() as files:
            files.open(self.path).write(b"new")
            files.open(link)
        self.assertEqual(self.path.read_bytes(), b"old")
        self.assertEqual(self.names(), ["hard", "link", "out"])

    def test_read_only(self):
        self.path.write_bytes(b"old")
        with mock.patch("os.access", return_value=False), self.assertRaises(PermissionError):
            self.write()
        self.assertEqual(self.path.read_bytes(), b"old")

    def test_fresh_folder(self):
        """What a failed command wrote is removed, and the folder that it made."""
        def fail(folder):
            with output.fresh_folder(folder):
                (folder / "inner").mkdir()
                (folder / "inner" / "file").write_bytes(b"new")
                (folder / "file").write_bytes(b"new")
                raise RuntimeError

        for there in (False, True):
            if there:
                self.path.mkdir()
            with self.assertRaises(RuntimeError):
                fail(self.path)
            self.assertEqual(self.path.exists(), there)
        self.assertEqual(self.names(self.path), [])
        with self.assertRaises(RuntimeError):
            fail(self.path / "new" / "inner" / "folder")
        self.assertEqual(self.names(self.path), [])
        with self.assertRaises(ZeroDivisionError), output.fresh_folder(self.path / "new" / "inner"):
            (self.path / "new" / "kept").write_bytes(b"of another")
            raise ZeroDivisionError
        self.assertEqual(self.names(self.path / "new"), ["kept"])
        (self.path / "kept").write_bytes(b"old")
        with self.assertRaisesRegex(output.OutputError, "is not empty"):
            fail(self.path)
        self.assertEqual(self.names(self.path), ["kept", "new"])


class Package(Folder):
    """The functions that write."""

    def export(self, **options):
        model = nn.Sequential(*(nn.Linear(16, 16) for _ in range(4)))
        return fsdpc.export(model, (torch.randn(2, 16),), self.folder / "model.pt2",
                            lambda out, batch: out.sum(), **options)  # fmt: skip

    def test_planted_links_are_not_followed(self):
        victim = self.folder / "victim"
        victim.write_bytes(b"precious")
        planted = [f"model{shard}.safetensors.partial" for shard in ("", "-00001-of-00002")]
        planted += ["model.pt2.partial", "model.pt2.partial.pt2", "model.safetensors.index.json.partial"]
        for name in planted:
            (self.folder / name).symlink_to(victim)
        for options in ({}, {"shard_bytes": 2500}):
            for path in self.export(**options):
                self.assertTrue(path.is_file() and not path.is_symlink(), path)
        self.assertEqual(victim.read_bytes(), b"precious")

    def test_failures_leave_nothing(self):
        """Also where the program and the first shards fit, and the last shard does not."""
        files = [path.name for path in self.export(shard_bytes=2500)]
        old = {name: (self.folder / name).read_bytes() for name in files}
        with files_of_at_most(100), self.assertRaises(OSError):
            self.export()
        with mock.patch("fsdpc.weights.json.dumps", side_effect=MemoryError), self.assertRaises(MemoryError):
            self.export(shard_bytes=2500)
        self.assertEqual({name: (self.folder / name).read_bytes() for name in self.names()}, old)

    def test_devices_are_refused(self):
        with mock.patch("torch.export.export", side_effect=AssertionError):  # refused before the work
            with self.assertRaisesRegex(OSError, "'/dev/full' is a device"):
                self.export(weights="/dev/full")
        (self.folder / "model.pt2").symlink_to("/dev/full")
        with self.assertRaisesRegex(OSError, "model.pt2' is a device"):
            self.export()
        self.assertEqual(self.names(), ["model.pt2"])

    def checkpoint(self, offsets=(0,), name="step-000000001"):
        """One of a training binary, with one file and tensor."""
        folder = self.folder / name
        folder.mkdir()
        header = json.dumps({
            "__metadata__": {"DCP_SHARDING_INFO": json.dumps({"w": {"saved_offsets": offsets}})},
            "w": {"dtype": "F32", "shape": [500], "data_offsets": [0, 2000]},
        }).encode()  # fmt: skip
        data = struct.pack("<Q", len(header)) + header + bytes(2000)
        (folder / "shard.safetensors").write_bytes(data)
        files = [{"name": "shard.safetensors", "bytes": len(data)}]
        (folder / "checkpoint.json").write_text(json.dumps({"files": files}))
        return folder

    def test_damaged_checkpoints(self):
        """Files of another size, and pieces that cannot be of their tensor."""
        for number, offsets in enumerate(([], [0, 0], [-1], ["0"], None)):
            with self.subTest(offsets=offsets), self.assertRaises(checkpoints.ConversionError) as raised:
                checkpoints.convert(self.checkpoint(offsets, f"bad{number}"), self.folder / "theirs")
            self.assertIn(f"a piece of 'w' is torch.float32 [500] at offsets {offsets}", str(raised.exception))
        parts = lambda second: [([0], torch.zeros(4)), ([4], second)]
        for second in (torch.zeros(4, dtype=torch.int32), torch.zeros(4, 1)):
            with self.assertRaisesRegex(checkpoints.ConversionError, "a piece of 'w' is .*, another one torch.float32 "):
                checkpoints._check_pieces(self.folder, "w", parts(second))
        checkpoints._check_pieces(self.folder, "w", parts(torch.zeros(3)))
        source = self.checkpoint()
        with open(source / "shard.safetensors", "ab") as file:
            file.write(bytes(4))
        with self.assertRaisesRegex(checkpoints.ConversionError, r"shard.safetensors' is damaged: it has \d+ bytes, '"):
            checkpoints.convert(source, self.folder / "theirs")
        self.assertFalse((self.folder / "theirs").exists())

    def test_conversions(self):
        """Of a conversion that fails nothing stays, in both directions."""
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        source, theirs, back = self.checkpoint(), self.folder / "theirs", self.folder / "back"
        with files_of_at_most(1000), self.assertRaisesRegex(checkpoints.ConversionError, "cannot be written"):
            checkpoints.convert(source, theirs)
        self.assertFalse(theirs.exists())
        checkpoints.convert(source, theirs)
        back.mkdir()
        with files_of_at_most(1000), self.assertRaises(OSError):
            checkpoints.convert(theirs, back)
        self.assertEqual(self.names(back), [])
        checkpoints.convert(theirs, back)
        (file,) = back.iterdir()
        self.assertEqual(safetensors_io.load(file)["w"].shape, (500,))


if __name__ == "__main__":
    unittest.main()

"""Runs entries in a process of their own, a fresh interpreter. It is killed at a deadline, with all
processes that it has started, and a new one takes the next entry."""

import logging
import multiprocessing
import os
import pathlib
import signal
import tempfile
import time
import warnings


class ReportedRow(dict):
    """A row that reports its stages as they begin."""

    def __init__(self, pipe, **fields):
        super().__init__(fields)
        self.pipe = pipe

    def __setitem__(self, key, value):
        super().__setitem__(key, value)
        if key == "stage":
            self.pipe.send(("stage", value))


def serve(pipe):
    """Runs entries until the pipe closes."""
    os.setsid()  # a process group, which is killed as one
    os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")

    import torch

    from . import entry, reference

    torch.set_num_threads(1)
    fsdp2 = reference.Reference()
    try:
        while True:
            name, form, optimizers, folder = pipe.recv()
            row = ReportedRow(pipe, name=name, form=form)
            entry.run(row, folder, optimizers, fsdp2)
            pipe.send(("row", dict(row)))
    except (EOFError, BrokenPipeError):
        fsdp2.end()


class Worker:
    def __init__(self, deadline_seconds):
        self.deadline_seconds = deadline_seconds
        self.process = None

    def start(self):
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=serve, args=(theirs,))
        self.process.start()
        theirs.close()

    def run(self, name, form, optimizers):
        """The row of one entry by one form; if its process hangs or dies, the row records that."""
        with tempfile.TemporaryDirectory(prefix="fsdpc-models-") as folder:
            return self.run_in(pathlib.Path(folder), name, form, optimizers)

    def run_in(self, folder, name, form, optimizers):
        if not self.process:
            self.start()
        begin, stage = time.monotonic(), "build"
        self.pipe.send((name, form, optimizers, folder))
        try:
            while self.pipe.poll(max(0, begin + self.deadline_seconds - time.monotonic())):
                kind, value = self.pipe.recv()
                if kind == "row":
                    return value
                stage = value
            reason = f"killed after {self.deadline_seconds:g} s"
        except EOFError:
            self.process.join()
            reason = f"the process ended with {self.process.exitcode}"
        self.end()
        return {"name": name, "form": form, "stage": stage, "error": reason,
                "seconds": time.monotonic() - begin}  # fmt: skip

    def end(self):
        if not self.process:
            return
        self.pipe.close()
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # the process has ended, or has not begun
        self.process.kill()
        self.process.join()
        self.process = None

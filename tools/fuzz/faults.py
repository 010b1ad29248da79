#!/usr/bin/env python3
"""Kills, stops and signals ranks, agents and store hosts of training runs, and checks how they end.

    tools/fuzz/faults.py TOOLS                    # every kind of fault once
    tools/fuzz/faults.py TOOLS --rounds 4         # at other moments, 480 faults, with mpirun and srun 1,056
    tools/fuzz/faults.py TOOLS --only gloo-rank0  # faults whose name contains the text

TOOLS is the folder of fsdpc. A fault is LAUNCHER-COMMUNICATOR-VICTIM-SIGNAL-MOMENT: torchrun, plain
(variables of the environment), mpirun or srun, if installed; shm or gloo; rank0 (which serves the store
unless torchrun's agent does), another rank, or the launcher itself; KILL, STOP or TERM; while the run starts,
in its steps, while weights are saved, or while checkpoints are written beside the steps. The number of ranks
(2 to 4), the choice of the other rank, and the exact time are random, by --seed.

After every fault all ranks must end within the run's own deadline plus --slack seconds; stopped ranks
are continued first. No process, temporary file or shared memory may be left, saved files must be
complete, and no rank may crash. Each checkpoint that was complete before the fault must still exist and
verify; the same command, started again, must resume from the last checkpoint and remove partial ones. A
stopped launcher does not affect the run, which must then still end when it is told to. Faults that ended
only late are repeated alone, up to three times. The exit status is 1 if a fault did not end as required.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import dataclasses
import itertools
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import uuid

import slurm

WORLD_SIZES = (2, 3, 4)
#: Seconds: --timeout, --connect-timeout of the runs, and what connecting may take beyond it.
TIMEOUT, CONNECT_TIMEOUT, CONNECT_GRACE = 2.0, 5.0, 1.0
#: Seconds after which a case stops waiting.
LIMIT = 120
POLL = 0.005
#: Variables by which srun finds its cluster.
SLURM = {}
MARK = "FSDP_FAULT_CASE"
CRASHES = {signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE, signal.SIGILL}
CRASH_TEXT = re.compile(r"SIGSEGV|SIGABRT|SIGBUS|SIGFPE|SIGILL|terminate called|[Ss]tack trace")


@dataclasses.dataclass(frozen=True)
class Fault:
    launcher: str
    communicator: str
    victim: str
    signal: str
    moment: str

    def __str__(self):
        return "-".join(dataclasses.astuple(self))


def all_faults(launchers):
    for launcher in launchers:
        victims = ["rank0", "other"] + (["launcher"] if launcher != "plain" else [])
        for rest in itertools.product(("shm", "gloo"), victims, ("KILL", "STOP", "TERM"),
                                      ("start", "steps", "save", "checkpoint")):  # fmt: skip
            yield Fault(launcher, *rest)


def make_binaries(tools, folder):
    """For each number of ranks, a binary of a model whose weights take some time to save."""
    import torch
    from torch import nn

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(512, 512) for _ in range(8)])

        def forward(self, x, t):
            for layer in self.layers:
                x = torch.relu(layer(x))
            return ((x - t) ** 2).mean()

    sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "python"))
    import safetensors_io

    torch.manual_seed(1)
    torch.jit.script(Model()).save(str(folder / "model.pt"))
    samples = {name: torch.randn(16, 512) for name in ("x", "t")}
    safetensors_io.save(folder / "data.safetensors", samples)
    binaries = {ranks: folder / f"train{ranks}" for ranks in WORLD_SIZES}
    for ranks, binary in binaries.items():
        subprocess.run([tools / "fsdpc", folder / "model.pt", "--input", "x:f32[2,512]", "--input",
                        "t:f32[2,512]", "--optimizer", "sgd", "--lr", "1e-3", "--mesh", f"dp={ranks}",
                        "-o", binary], check=True, stderr=subprocess.DEVNULL)  # fmt: skip
    return binaries


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def read_bytes(path):
    with contextlib.suppress(OSError):
        return pathlib.Path(path).read_bytes()
    return b""


def is_running(pid):
    """False for a process that has ended, also for a zombie."""
    fields = read_bytes(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return bool(fields) and fields[0] not in (b"Z", b"X")


def is_whole(path):
    """True if there is no such file or it is a complete safetensors file."""
    data = read_bytes(path)
    if not path.exists():
        return True
    if len(data) < 8:
        return False
    header = struct.unpack("<Q", data[:8])[0]
    ends = [int(end) for end in re.findall(rb'"data_offsets":\[\d+,(\d+)\]', data[8 : 8 + header])]
    return bool(ends) and len(data) == 8 + header + max(ends)


class Run:
    """The processes of a run, found by a variable of their environment."""

    def __init__(self, fault, binary, world_size, folder, steps):
        self.fault, self.folder, self.binary = fault, folder, os.path.realpath(binary)
        self.mark, self.world_size = uuid.uuid4().hex, world_size
        self.log, self.save = folder / "log.jsonl", folder / "saved.safetensors"
        self.checkpoints = folder / "checkpoints"
        self.output = open(folder / "output.txt", "w+")
        self.temporary = folder / "launcher"  # files left by launchers are excluded from the check
        self.temporary.mkdir()
        arguments = [binary, "--data", binary.parent / "data.safetensors", "--init",
                     binary.with_suffix(".safetensors"), "--communicator", fault.communicator,
                     "--timeout", TIMEOUT, "--connect-timeout", CONNECT_TIMEOUT,
                     "--log", self.log, "--save", self.save, "--quiet"]  # fmt: skip
        if fault.moment == "checkpoint":
            arguments += ["--checkpoint-dir", self.checkpoints, "--save-every", 2, "--resume"]
        self.arguments = [str(argument) for argument in arguments]
        self.starters = self.start([*self.arguments, "--steps", str(steps)], fault.launcher)

    def start(self, command, launcher):
        names = ("RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "TORCHELASTIC", "OMPI_", "PMI", "SLURM_")
        environment = {k: v for k, v in os.environ.items() if not k.startswith(names)}
        environment |= {MARK: self.mark, "TMPDIR": str(self.temporary), "OMP_NUM_THREADS": "1"}
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port())}
        popen = lambda command, **more: subprocess.Popen(
            command, env=environment | more, stdout=self.output, stderr=self.output,
            stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
        if launcher == "torchrun":
            return [popen([sys.executable, "-m", "torch.distributed.run", "--standalone",
                           "--no-python", "--nproc-per-node", str(self.world_size), "--", *command])]  # fmt: skip
        if launcher == "mpirun":
            return [popen(["mpirun", "--allow-run-as-root", "--oversubscribe", "-n", str(self.world_size),
                           *command], **place)]  # fmt: skip
        if launcher == "srun":
            return [popen(["srun", "--quiet", "--overcommit", "--oversubscribe", "-n", str(self.world_size), *command],
                          **place, **SLURM)]  # fmt: skip
        return [
            popen(command, RANK=str(rank), WORLD_SIZE=str(self.world_size), LOCAL_RANK=str(rank), **place)
            for rank in range(self.world_size)
        ]

    def processes(self):
        """The ids of all running processes of the run, with their environments."""
        found = {}
        for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
            if self.mark.encode() in (text := read_bytes(f"/proc/{pid}/environ")):
                if is_running(pid):
                    found[pid] = dict(v.split(b"=", 1) for v in text.split(b"\0") if b"=" in v)
        return found

    def ranks(self):
        """The process ids of the running ranks, by rank."""
        ranks = {}
        for pid, environment in self.processes().items():
            with contextlib.suppress(OSError):
                if os.path.realpath(os.readlink(f"/proc/{pid}/exe")) == self.binary:
                    names = (b"OMPI_COMM_WORLD_RANK", b"SLURM_PROCID", b"RANK")
                    rank = next((environment[name] for name in names if name in environment), None)
                    if rank is not None:  # None: its environment was read before exec
                        ranks[int(rank)] = pid
        return ranks

    def steps(self):
        return read_bytes(self.log).count(b"\n")

    def complete_checkpoints(self):
        """The folders of complete checkpoints, by step."""
        found = self.checkpoints.glob("step-*/checkpoint.json")
        return {int(file.parent.name[5:]): file.parent for file in found
                if file.parent.suffix != ".partial"}  # fmt: skip

    def end(self):
        """Kills the remaining processes; returns which there were."""
        left = {pid: read_bytes(f"/proc/{pid}/cmdline")[:60] for pid in self.processes()}
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        for starter in self.starters:
            starter.wait(LIMIT)
        return left


def await_until(condition, limit=LIMIT):
    """Seconds until the condition holds; None if it does not within the limit."""
    begin = time.monotonic()
    while not condition():
        if time.monotonic() - begin > limit:
            return None
        time.sleep(POLL)
    return time.monotonic() - begin


class Case:
    """One fault, the problems of its end, and the time that it took."""

    def __init__(self, fault, tools, binaries, parent, seed, slack):
        self.fault, self.tools, self.slack = fault, tools, slack
        self.random = random.Random(f"{seed} {fault}")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"{fault}-", dir=parent))
        self.problems, self.delays, self.late = [], [], 0.0
        self.complete = set()
        steps = 5 if fault.moment == "save" else 10**9
        world_size = self.random.choice(WORLD_SIZES)
        self.run = Run(fault, binaries[world_size], world_size, self.folder, steps)
        try:
            self.strike(steps)
        finally:
            self.look_at_the_rest()

    def bound(self):
        starting = CONNECT_TIMEOUT + CONNECT_GRACE if self.fault.moment == "start" else 0
        return starting + TIMEOUT + self.slack

    def demand_end(self, pids, what):
        """All of `pids` must end within the bound."""
        took = await_until(lambda: not any(map(is_running, pids)))
        if took is None:
            return self.problems.append(f"{what}: hangs after {LIMIT} s")
        self.late = max(self.late, took - self.bound() + self.slack)
        if took > self.bound():
            self.delays.append(f"{what}: took {took:.2f} s, bound {self.bound():.2f} s")

    def signal(self, pid, name):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, getattr(signal, "SIG" + name))

    def await_moment(self, steps):
        run = self.run
        reached = {
            "start": lambda: len(run.ranks()) == run.world_size,
            "steps": lambda: run.steps() >= 3,
            "save": lambda: run.steps() >= steps,
            "checkpoint": lambda: run.complete_checkpoints(),
        }[self.fault.moment]
        over = lambda: all(starter.poll() is not None for starter in run.starters)
        if await_until(lambda: reached() or over()) is None:
            self.problems.append("the run does not come to the moment")
        within = {"start": 0.8, "steps": 0.1, "save": 0.1, "checkpoint": 0.3}[self.fault.moment]
        time.sleep(self.random.uniform(0, within))

    def strike(self, steps):
        run, fault = self.run, self.fault
        self.await_moment(steps)
        ranks = run.ranks()
        is_launcher = fault.victim == "launcher"
        rank = 0 if fault.victim == "rank0" else self.random.randrange(1, run.world_size)
        victim = run.starters[0].pid if is_launcher else ranks.get(rank)
        if victim is None or not ranks:
            return  # the run was over
        self.complete = set(run.complete_checkpoints())
        self.signal(victim, fault.signal)
        if fault.signal == "STOP":
            self.after_stop(victim, ranks, is_launcher)
        else:
            self.demand_end(ranks.values(), "ranks")

    def after_stop(self, victim, ranks, is_launcher):
        run = self.run
        if not is_launcher:
            others = [pid for pid in ranks.values() if pid != victim]
            self.demand_end(others, "the other ranks")
            self.signal(victim, "CONT")
            return self.demand_end([victim], "the stopped rank, continued,")
        # Without its store a run cannot start, but a started run goes on.
        if self.fault.moment == "start":
            running = lambda: any(map(is_running, ranks.values()))
            if await_until(lambda: run.steps() >= 3 or not running(), self.bound()) is None:
                self.problems.append("the run neither begins nor ends while its launcher is stopped")
        elif self.fault.moment in ("steps", "checkpoint"):
            seen = run.steps()
            if await_until(lambda: run.steps() > seen + 3) is None:
                self.problems.append("the run does not go on while its launcher is stopped")
        self.signal(victim, "CONT")
        for pid in ranks.values():
            self.signal(pid, "TERM")
        self.demand_end(ranks.values(), "ranks, told to end,")

    def look_at_the_rest(self):
        run = self.run
        # Launchers may take longer, and are killed if they hang.
        if await_until(lambda: not run.processes(), 40) is None:
            for starter in run.starters:
                if self.fault.launcher != "plain":
                    starter.kill()
            await_until(lambda: not run.processes(), self.slack)
        if left := run.end():
            self.problems.append(f"orphans: {left}")
        for starter in run.starters:
            if -starter.returncode in CRASHES:
                self.problems.append(f"{starter.args[0]} ended by signal {-starter.returncode}")
        text = (self.folder / "output.txt").read_text()
        # mpirun 4 itself sometimes aborts when it is told to end.
        if self.fault.launcher != "mpirun" and CRASH_TEXT.search(text):
            self.problems.append("a crash in output.txt")
        if not is_whole(run.save):
            self.problems.append(f"{run.save} is not whole")
        if self.fault.moment == "checkpoint":
            self.look_at_checkpoints()
        run.output.close()
        known = {"log.jsonl", "saved.safetensors", "output.txt", "launcher", "checkpoints"}
        if temporary := set(os.listdir(self.folder)) - known:
            self.problems.append(f"left behind: {temporary}")
        if not self.problems and not self.delays:
            shutil.rmtree(self.folder)

    def verify(self, checkpoint):
        try:
            verified = subprocess.run([self.tools / "fsdp-checkpoint", "verify", checkpoint],
                                      capture_output=True, text=True, timeout=LIMIT)  # fmt: skip
        except subprocess.TimeoutExpired:
            self.problems.append(f"fsdp-checkpoint verify {checkpoint}: hangs after {LIMIT} s")
            return
        if verified.returncode != 0:
            self.problems.append(f"fsdp-checkpoint verify: {verified.stderr[:300]}")

    def look_at_checkpoints(self):
        """Checks that checkpoints from before the fault are complete, and that the run resumes from
        the last one."""
        run, complete = self.run, self.run.complete_checkpoints()
        if lost := self.complete - set(complete):
            self.problems.append(f"checkpoints that were complete are lost: {sorted(lost)}")
        if not complete:
            return
        for folder in complete.values():
            self.verify(folder)
        last, again = max(complete), self.folder / "again.jsonl"
        command = [*run.arguments, "--steps", str(last + 1)]
        command[command.index("--log") + 1] = str(again)
        run.starters = run.start(command, "plain")
        took = await_until(lambda: all(rank.poll() is not None for rank in run.starters))
        run.end()
        steps = {int(step) for step in re.findall(rb'"step": (\d+), "loss"', read_bytes(again))}
        statuses = [rank.returncode for rank in run.starters]
        if took is None:
            self.problems.append(f"started again behind step {last}, the run hangs after {LIMIT} s")
        elif any(statuses):
            self.problems.append(f"started again behind step {last}, the ranks end with statuses {statuses}")
        elif steps != {last + 1}:
            self.problems.append(f"started again, it does not go on behind step {last} but takes {steps}")
        if half := list(run.checkpoints.glob("*.partial")):
            self.problems.append(f"half a checkpoint is left: {half[0].name}")
        again.unlink(missing_ok=True)


def pressure():
    """The machine's CPU pressure: processes that wait for a core."""
    found = re.search(rb"avg10=([0-9.]+)", read_bytes("/proc/pressure/cpu"))
    return f"CPU pressure {found[1].decode()} %" if found else "CPU pressure unknown"


def campaign(options, folder):
    binaries = make_binaries(options.tools, folder)
    launchers = ["torchrun", "plain"] + (["mpirun"] if shutil.which("mpirun") else []) + (["srun"] if SLURM else [])
    faults = [f for f in all_faults(launchers) if not options.only or re.search(options.only, str(f))]
    plan = [(fault, turn) for turn in range(options.rounds) for fault in faults]
    random.Random(options.seed).shuffle(plan)
    memory = set(os.listdir("/dev/shm"))
    failed, late, figures = [], [], collections.defaultdict(list)
    lock, begin = threading.Lock(), time.monotonic()
    is_over = lambda: options.minutes and time.monotonic() - begin > 60 * options.minutes

    def strike(fault, turn, again=False):
        if is_over() and not again:
            return
        case = Case(fault, options.tools, binaries, folder, f"{options.seed} {turn}", options.slack)
        with lock:
            if not again:
                figures[fault.launcher].append(case.late)
            if case.problems:
                failed.append(fault)
            elif case.delays:
                late.append((fault, turn))
            if case.problems or case.delays:
                text = "; ".join(case.problems + case.delays)
                print(f"{fault}: {text}, {pressure()} ({case.folder})", flush=True)

    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        for done in [pool.submit(strike, *item) for item in plan]:
            done.result()
    # Other processes on a busy machine may delay a process by more than the slack, so faults whose
    # only problem is lateness are repeated alone.
    first_late = len(late)
    for _ in range(3):
        again, late[:] = late[:], []
        for item in again:
            strike(*item, again=True)
    for launcher, delays in sorted(figures.items()):
        print(f"{launcher}: {len(delays)} faults, at most {max(delays):+.2f} s beside the deadline")
    left = set(os.listdir("/dev/shm")) - memory
    if left:
        print(f"shared memory left behind: {left}")
    count = sum(map(len, figures.values()))
    print(f"{count} of {len(plan)} faults struck, {len(failed)} did not end as they must; "
          f"{first_late} ended late, {len(late)} also alone; {time.monotonic() - begin:.0f} s")  # fmt: skip
    return 1 if failed or late or left or not count else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tools", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=1, help="how often all faults are run. Default: 1")
    parser.add_argument("--only", help="regular expression for names of faults")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--slack", type=float, default=1.0, help="seconds beyond deadlines")
    parser.add_argument("--jobs", type=int, default=2, help="faults that run at the same time")
    parser.add_argument("--minutes", type=float, help="time after which no new faults begin")
    options = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="fsdpc-faults-"))
    with contextlib.ExitStack() as stack:
        if slurm.is_installed():
            try:
                SLURM.update(stack.enter_context(slurm.cluster()))
            except RuntimeError as error:
                print(f"srun is left out: {error}")
        status = campaign(options, folder)
    if status == 0:
        shutil.rmtree(folder)
    return status


if __name__ == "__main__":
    sys.exit(main())

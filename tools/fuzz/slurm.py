"""A Slurm of one node that lives as long as its context: munge, controller and node daemon of this user.

Needs Debian's slurmctld, slurmd, slurm-client and munge. All files are in one folder and all ports are free ports, so
that it does not affect another Slurm on the machine.
"""

import contextlib
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time

DAEMONS = "slurmctld", "slurmd", "munged"
LIMIT_S = 60
SETTINGS = """ClusterName=fsdpc
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmdSpoolDir={folder}/spool
StateSaveLocation={folder}/state
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
MpiDefault=none
ReturnToService=2
InactiveLimit=30
KillWait=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:64
"""


def find(daemon):
    return shutil.which(daemon, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")


def is_installed():
    return all(map(find, DAEMONS)) and shutil.which("srun") is not None


def free_ports(count):
    """Different free ports: all are held until the last is found."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


def await_condition(holds, what):
    end = time.monotonic() + LIMIT_S
    while not holds():
        if time.monotonic() > end:
            raise RuntimeError(f"{what} after {LIMIT_S} s")
        time.sleep(0.05)


def takes_jobs(environment):
    found = subprocess.run(["sinfo", "-h", "-o", "%T"], env=environment, capture_output=True, text=True)
    return found.stdout.strip() in ("idle", "mixed", "allocated")


@contextlib.contextmanager
def cluster():
    """Starts the cluster; yields the environment variables by which srun finds it."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="fsdpc-slurm-"))
    folder.chmod(0o755)
    for name in "spool", "state":
        (folder / name).mkdir()
    (folder / "munge.key").write_bytes(os.urandom(1024))
    (folder / "munge.key").chmod(0o600)
    host = socket.gethostname().split(".")[0]
    settings = SETTINGS.format(host=host, user=pwd.getpwuid(os.getuid()).pw_name, folder=folder, ports=free_ports(2),
                               cpus=os.cpu_count())  # fmt: skip
    (folder / "slurm.conf").write_text(settings)
    variables = {"SLURM_CONF": str(folder / "slurm.conf")}
    environment = os.environ | variables
    files = [f"--{name}={folder}/munge.{end}" for name, end in (
        ("key-file", "key"), ("socket", "socket"), ("pid-file", "pid"), ("log-file", "log"), ("seed-file", "seed"))]  # fmt: skip
    commands = [[find("munged"), "--foreground", "--force", *files], [find("slurmctld"), "-D"], [find("slurmd"), "-D"]]
    daemons = []
    try:
        for command in commands:
            daemons.append(subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                            stderr=subprocess.DEVNULL, start_new_session=True))  # fmt: skip
            if command is commands[0]:
                await_condition((folder / "munge.socket").exists, "munged has no socket")
        await_condition(lambda: takes_jobs(environment), "Slurm takes no jobs")
        yield variables
    finally:
        for daemon in reversed(daemons):
            daemon.send_signal(signal.SIGTERM)
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        shutil.rmtree(folder, ignore_errors=True)

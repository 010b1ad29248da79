"""Ranks of a gloo group that call functions of torch's side: processes that are forked from one that has imported
torch, which takes seconds, and that are kept, since the first run of FSDP2 in a process takes several times as long as
the next ones.
"""

import atexit
import gc
import io
import multiprocessing.connection
import os
import pickle
import signal
import socket
import sys
import traceback

import torch
import torch.distributed as dist

#: The socket of the process that serves forks.
SERVER = None
#: Ranks that are kept, by their number.
KEPT = {}
#: Ranks with more open files are kept no longer: FSDP2 makes process groups that nobody ends.
MOST_FILES = 256


class RankFailed(Exception):
    """The text is the rank's traceback."""


def serve_calls(connection, rank, ranks, port):
    """A rank: answers each call with its process id at first, then with an error's text and rank 0's result."""
    connection.send(os.getpid())
    store = dist.TCPStore("127.0.0.1", port, ranks, is_master=False)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=ranks)
    while True:
        try:
            function, arguments = connection.recv()
        except EOFError:  # the test has ended
            return
        error, result = None, io.BytesIO()
        try:
            value = function(rank, *arguments)
            if rank == 0:
                torch.save(value, result)
            del value
        except BaseException:  # noqa: BLE001, which includes the oracle's SystemExit
            error = traceback.format_exc()
        gc.collect()  # of models that are cycles
        sys.stdout.flush()
        sys.stderr.flush()
        is_worn = len(os.listdir("/proc/self/fd")) > MOST_FILES
        connection.send((error, is_worn, result.getvalue()))


def serve_forks(control):
    """Forks a rank for each message."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for ranks
    while True:
        message, descriptors, _, _ = socket.recv_fds(control, 1 << 10, 1)
        if not message:
            return
        if os.fork() == 0:
            control.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            serve_calls(multiprocessing.connection.Connection(descriptors[0]), *pickle.loads(message))
            return
        os.close(descriptors[0])


def start_server():
    """Forks the process that ranks are forked from: they have all that is imported by now. There may be no threads of
    torch yet, which a fork would lack."""
    global SERVER
    gc.freeze()  # no process looks through all of torch again
    ours, its = socket.socketpair(type=socket.SOCK_SEQPACKET)
    sys.stdout.flush()
    sys.stderr.flush()
    if os.fork():
        its.close()
        SERVER = ours
        atexit.register(ours.close)
        return
    try:
        ours.close()
        serve_forks(its)
    except BaseException:  # noqa: BLE001
        traceback.print_exc()
    finally:
        # Tearing down gloo's threads at interpreter exit now and then aborts the process.
        os._exit(0)


class Ranks:
    def __init__(self, number):
        # A store on a port of the system's choice, served by this process.
        self.store = dist.TCPStore("127.0.0.1", 0, number, is_master=True, wait_for_workers=False)
        self.connections = []
        for rank in range(number):
            ours, its = multiprocessing.connection.Pipe()
            socket.send_fds(SERVER, [pickle.dumps((rank, number, self.store.port))], [its.fileno()])
            its.close()
            self.connections.append(ours)
        self.pids = [connection.recv() for connection in self.connections]

    def call(self, function, arguments):
        for connection in self.connections:
            connection.send((function, arguments))
        results, worn, waiting = {}, [], list(self.connections)
        while waiting:
            for connection in multiprocessing.connection.wait(waiting):
                rank = self.connections.index(connection)
                try:
                    error, is_worn, results[rank] = connection.recv()
                except EOFError:
                    error = "it ended"
                if error:
                    raise RankFailed(f"rank {rank}: {error}")
                worn.append(is_worn)
                waiting.remove(connection)
        return torch.load(io.BytesIO(results[0]), weights_only=False), any(worn)

    def end(self):
        for connection in self.connections:
            connection.close()
        for pid in self.pids:  # it may be waiting for another rank
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def call_on_ranks(number, function, *arguments, in_new_processes=False):
    """What `function` of an imported module returns on rank 0 of so many. It is given the rank, and these arguments."""
    ranks = None if in_new_processes else KEPT.pop(number, None)
    ranks = ranks or Ranks(number)
    is_kept = False
    try:
        result, are_worn = ranks.call(function, arguments)
        is_kept = not (in_new_processes or are_worn)
    finally:
        if is_kept:
            KEPT[number] = ranks
        else:
            ranks.end()
    return result

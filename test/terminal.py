"""Runs a command whose standard output is a terminal."""

import fcntl
import os
import pty
import struct
import subprocess
import termios
import threading

ROWS = 24


def run_on_terminal(command, timeout, columns=80, environment=None):
    """The exit status of the command, and the text that it wrote on a terminal of `columns` columns. After
    `timeout` seconds the command is killed."""
    controller, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS if columns else 0, columns, 0, 0))
    process = subprocess.Popen(list(map(str, command)), stdout=terminal, env=environment)
    os.close(terminal)
    killer = threading.Timer(timeout, process.kill)
    killer.start()
    written = b""
    try:
        while chunk := os.read(controller, 4096):
            written += chunk
    except OSError:  # no process has the terminal open any more
        pass
    finally:
        os.close(controller)
        status = process.wait()
        killer.cancel()
    return status, written.decode()

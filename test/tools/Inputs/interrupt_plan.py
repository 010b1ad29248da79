"""Runs fsdp-plan with standard error on a terminal, sends a signal when the first outcome stands there, and prints how
the program ended and what it printed last there: `interrupt_plan.py handled|ignored SIGNAL COMMAND...`. The program
finds the signal handled by default, or ignored. Standard output is left to the program."""

import os
import pty
import re
import signal
import subprocess
import sys

handler = {"handled": signal.SIG_DFL, "ignored": signal.SIG_IGN}[sys.argv[1]]
number = signal.Signals[sys.argv[2]]
controller, terminal = pty.openpty()
process = subprocess.Popen(sys.argv[3:], stderr=terminal, preexec_fn=lambda: signal.signal(number, handler))
os.close(terminal)
shown, is_sent = b"", False
try:
    while chunk := os.read(controller, 4096):
        shown += chunk
        if not is_sent and re.search(rb" a step in .*\n", shown):
            process.send_signal(number)
            is_sent = True
except OSError:  # no process has the terminal open any more
    pass
status = process.wait()
# A progress line is overwritten from the terminal's left edge.
lines = [line.rsplit("\r\033[K", 1)[-1] for line in shown.decode().replace("\r\n", "\n").split("\n")]
print("ended by", signal.Signals(-status).name if status < 0 else status, file=sys.stderr)
print("first shown:", next(line for line in lines if " a step in " in line), file=sys.stderr)
print("last shown:", next((line for line in reversed(lines) if line), ""), file=sys.stderr)

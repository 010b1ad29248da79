"""Runs a command and fails unless its exit status is as expected: `exit_status.py 2 COMMAND...`."""

import subprocess
import sys

status = subprocess.run(sys.argv[2:]).returncode
if status != int(sys.argv[1]):
    sys.exit(f"exit status {status}, expected {sys.argv[1]}")

#!/usr/bin/env python3
"""Mutates every input format and runs the tools that read it.

    tools/fuzz/fuzz.py --build build/release --seconds 60            # all formats in turn
    tools/fuzz/fuzz.py --build build/asan --seconds 3600 --keep bad  # an hour, findings kept
    tools/fuzz/fuzz.py --build build/release --case pt:12345         # one case again

A finding is a signal, a run of more than 20 s, an error without a message, or a message that is a stack frame, an
assertion or a report of a sanitizer. Each is printed with its case. Exit status: 0 none, 1 findings.
"""

import argparse
import concurrent.futures
import os
import pathlib
import random
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time

import formats

HANG_SECONDS = 20
MEMORY_BYTES = 16 << 30
BAD_WORDS = re.compile(
    r"LLVM ERROR|PLEASE submit a bug report|terminate called|Assertion .* failed|INTERNAL ASSERT"
    r"|<--- HERE|^\s*~+\s*$|frame #\d+|^Traceback|AddressSanitizer|LeakSanitizer|runtime error: |Stack dump",
    re.MULTILINE,
)


def limit(is_sanitized):
    # What asks for far too much fails at once. A sanitizer's shadow needs the address space.
    if not is_sanitized:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))


def judge(code, text):
    """What is wrong with a run, or None."""
    if code < 0:
        return f"signal {signal.Signals(-code).name}"
    if code >= 128:
        return f"exit code {code}"
    found = BAD_WORDS.search(text)
    if found:
        return f"the message holds '{found.group().strip()}'"
    if code and not text.strip():
        return f"exit code {code} without a message"
    return None


def run_case(form, seed, keep, is_sanitized):
    """(case, problem, output) for one mutated file; problem is None where all is well."""
    choice = random.Random(f"{form.name}:{seed}")
    data = form.mutate(choice.choice(form.seeds), choice)
    command = choice.choice(form.commands)
    with tempfile.TemporaryDirectory(prefix="fsdp-fuzz-") as folder:
        file = pathlib.Path(folder) / f"input{form.suffix}"
        file.write_bytes(data)
        filled = [part.replace("FILE", str(file)) for part in command]
        process = subprocess.Popen(
            filled, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            start_new_session=True, preexec_fn=lambda: limit(is_sanitized))  # fmt: skip
        try:
            output, _ = process.communicate(timeout=HANG_SECONDS)
            output = output.decode(errors="replace")
            problem = judge(process.returncode, output)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            output = process.communicate()[0].decode(errors="replace")
            problem = f"no end after {HANG_SECONDS} s"
        if problem and keep:
            keep.mkdir(parents=True, exist_ok=True)
            (keep / f"{form.name}-{seed}{form.suffix}").write_bytes(data)
    return f"{form.name}:{seed}", problem, output, " ".join(command)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="build folder with bin/")
    parser.add_argument("--python", default=sys.executable, help="with torch, to make the models")
    parser.add_argument("--seconds", type=float, default=60, help="how long new cases are begun")
    parser.add_argument("--seed", type=int, default=0, help="of the first case; the others count up")
    parser.add_argument("--formats", default="", help="only these, between commas")
    parser.add_argument("--case", help="FORMAT:SEED of one case to run again")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the files of findings")
    options = parser.parse_args()
    tools = (options.build / "bin").resolve()
    is_sanitized = "FSDP_SANITIZE:STRING=\n" not in (options.build / "CMakeCache.txt").read_text()
    wanted = options.case.split(":")[0] if options.case else options.formats
    with tempfile.TemporaryDirectory(prefix="fsdp-fuzz-seeds-") as folder:
        chosen = formats.make_formats(tools, pathlib.Path(folder), options.python)
        known = [form.name for form in chosen]
        for name in filter(None, wanted.split(",")):
            if name not in known:
                sys.exit(f"fuzz: there is no format '{name}', only {', '.join(known)}")
        chosen = [form for form in chosen if not wanted or form.name in wanted.split(",")]
        if options.case:
            case, problem, output, command = run_case(chosen[0], int(options.case.split(":")[1]), options.keep, is_sanitized)
            print(f"{case}: {problem or 'fine'}: {command}\n{output}")
            return problem is not None
        print(f"fuzz: seeds from {options.seed}, {options.seconds:g} s, {', '.join(form.name for form in chosen)}")
        end = time.monotonic() + options.seconds
        counts, findings, seed = {form.name: 0 for form in chosen}, 0, options.seed
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            while time.monotonic() < end:
                cases = [(form, seed + i) for i in range(options.jobs) for form in chosen]
                seed += options.jobs
                for form, result in zip(
                    (form for form, _ in cases),
                    pool.map(lambda case: run_case(*case, options.keep, is_sanitized), cases),
                ):
                    case, problem, output, command = result
                    counts[form.name] += 1
                    if problem:
                        findings += 1
                        lines = "\n    ".join(output.strip().splitlines()[:12])
                        print(f"FINDING {case}: {problem}: {command}\n    {lines}", flush=True)
        total = ", ".join(f"{name} {count}" for name, count in counts.items())
        print(f"fuzz: {sum(counts.values())} cases ({total}), {findings} findings; the next seed is {seed}")
    return findings != 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Mutates every input format and runs the tools that read it.

    tools/fuzz/fuzz.py --build build/release --seconds 60            # all formats in turn
    tools/fuzz/fuzz.py --build build/asan --seconds 3600 --keep bad  # an hour, findings kept
    tools/fuzz/fuzz.py --build build/release --case pt:12345         # one case again
    tools/fuzz/fuzz.py --build build/release --case yaml:NAME        # findings/yaml/NAME again

Each run begins with the files in findings/, on which a tool has crashed or hung. A finding is a signal, a run of more
than 20 s, an error without a message, or a message that is a stack frame, an assertion or a sanitizer report. Each is
printed with its case. FSDP_FUZZ_SECONDS is the default of --seconds. Exit status: 0 none, 1 findings.
"""

import argparse
import concurrent.futures
import itertools
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
    # Limits the address space, so that huge allocations fail at once. Not with a sanitizer, whose
    # shadow memory needs the address space.
    if not is_sanitized:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 30, 1 << 30))


def judge(code, text):
    """The problem of a run, or None."""
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
    """(case, problem, output) for one mutated file; problem is None if there is none."""
    choice = random.Random(f"{form.name}:{seed}")
    number = choice.randrange(len(form.seeds))
    data = form.mutate(form.seeds[number], choice)
    return run_file(form, number, data, choice.choice(form.commands), f"{form.name}:{seed}", keep, is_sanitized)


def keep_file(folder, case, suffix, data):
    """Writes a finding, unless the file is there already: the commands of a format all read the same file."""
    name = case.replace(":", "-").removesuffix(suffix)
    for number in itertools.count(1):
        file = folder / (f"{name}{suffix}" if number == 1 else f"{name}-{number}{suffix}")
        if not file.exists():
            file.write_bytes(data)
        if file.read_bytes() == data:
            return


def run_file(form, number, data, command, case, keep, is_sanitized):
    """The same for a file in place of a seed, and one command."""
    with tempfile.TemporaryDirectory(prefix="fsdp-fuzz-") as folder:
        file, copy = formats.place(form, number, data, pathlib.Path(folder))
        filled = [part.replace("FILE", str(file)).replace("FOLDER", str(copy)) for part in command]
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
            keep_file(keep, case, form.suffix, data)
    return case, problem, output, " ".join(command)


def read_sanitizer(build):
    """True if a build folder's tools have a sanitizer. Ends the program if it is not a build
    folder."""
    for name in ("CMakeCache.txt", "bin/fsdpc"):
        if not (build / name).is_file():
            sys.exit(f"fuzz: error: --build {build}: there is no {build / name}; --build is a folder that CMake has "
                     "configured and built, as build/release")  # fmt: skip
    return "FSDP_SANITIZE:STRING=\n" not in (build / "CMakeCache.txt").read_text()


def report(results):
    """Prints the findings; returns their number."""
    findings = 0
    for case, problem, output, command in results:
        if problem:
            findings += 1
            lines = "\n    ".join(output.strip().splitlines()[:12])
            print(f"FINDING {case}: {problem}: {command}\n    {lines}", flush=True)
    return findings


def run_kept(form, file, keep, is_sanitized):
    """(case, problem, output, command) of a kept file and each command of its format."""
    [number] = [i for i, at in enumerate(form.places) if at.endswith(file.suffix)][:1] or [0]
    data = file.read_bytes()
    case = f"{form.name}:{file.name}"
    return [run_file(form, number, data, command, case, keep, is_sanitized) for command in form.commands]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="build folder with bin/")
    parser.add_argument("--python", default=sys.executable, help="Python with torch, which makes the models")
    parser.add_argument("--seconds", type=float, default=os.environ.get("FSDP_FUZZ_SECONDS", "30"), help="time during which new cases begin")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first case; later seeds count up")
    parser.add_argument("--formats", default="", help="only these formats, separated by commas")
    parser.add_argument("--case", help="FORMAT:SEED of one case, or FORMAT:NAME of a kept file, to run again")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--keep", type=pathlib.Path, help="folder for the files of findings")
    options = parser.parse_args()
    tools = (options.build / "bin").resolve()
    if options.case and not re.fullmatch(r"\w+:[^/]+", options.case):
        parser.error(f"--case {options.case}: expected FORMAT:SEED, as pt:12345, or FORMAT:NAME of a kept file")
    if options.case and options.formats:
        parser.error(f"--formats {options.formats} is for new cases, but --case {options.case} names one")
    is_sanitized = read_sanitizer(options.build)
    wanted = options.case.split(":")[0] if options.case else options.formats
    with tempfile.TemporaryDirectory(prefix="fsdp-fuzz-seeds-") as folder:
        chosen = formats.make_formats(tools, pathlib.Path(folder), options.python)
        known = [form.name for form in chosen]
        for name in filter(None, wanted.split(",")):
            if name not in known:
                sys.exit(f"fuzz: error: there is no format '{name}', only {', '.join(known)}")
        chosen = [form for form in chosen if not wanted or form.name in wanted.split(",")]
        run_again = options.case.split(":", 1)[1] if options.case else ""
        if run_again.isdigit():
            results = [run_case(chosen[0], int(run_again), options.keep, is_sanitized)]
        else:
            kept = [(form, file) for form in chosen for file in formats.kept_files(form) if run_again in ("", file.name)]
            if options.case and not kept:
                sys.exit(f"fuzz: error: there is no '{formats.FINDINGS / options.case.replace(':', '/', 1)}'")
            results = [result for case in kept for result in run_kept(*case, options.keep, is_sanitized)]
        if options.case:
            for case, problem, output, command in results:
                print(f"{'FINDING ' if problem else ''}{case}: {problem or 'fine'}: {command}\n{output}")
            return any(problem for _, problem, _, _ in results)
        findings = report(results)
        print(f"fuzz: {len(results)} runs of kept files, {findings} findings")
        print(f"fuzz: seeds from {options.seed}, {options.seconds:g} s, {', '.join(form.name for form in chosen)}")
        end = time.monotonic() + options.seconds
        counts, seed = {form.name: 0 for form in chosen}, options.seed
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            while time.monotonic() < end:
                cases = [(form, seed + i) for i in range(options.jobs) for form in chosen]
                seed += options.jobs
                findings += report(pool.map(lambda case: run_case(*case, options.keep, is_sanitized), cases))
                for form, _ in cases:
                    counts[form.name] += 1
        total = ", ".join(f"{name} {count}" for name, count in counts.items())
        print(f"fuzz: {sum(counts.values())} cases ({total}), {findings} findings; the next seed is {seed}")
    return findings != 0


if __name__ == "__main__":
    sys.exit(main())

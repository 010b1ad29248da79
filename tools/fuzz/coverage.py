#!/usr/bin/env python3
"""Coverage-guided fuzzing: libFuzzer's targets, with ASan and UBSan, from the seeds of fuzz.py.

    cmake --preset fuzz && cmake --build --preset fuzz
    tools/fuzz/coverage.py --build build/fuzz --tools build/release --runs 20000
    tools/fuzz/coverage.py --build build/fuzz --tools build/release --targets modules --input crash-1234

The tools of another build make the seeds. A finding is a crash, a sanitizer report, or a run of more than 20 s; its
input is kept in the folder of --keep. Exit status: 0 none, 1 findings.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

import formats

#: For each target, the formats whose seeds it begins with.
TARGETS = {
    "modules": ("captured", "sharded", "scheduled", "planned"),
    "bytecode": ("bytecode",),
    "programs": ("pt2",),
    "config": ("yaml",),
    "safetensors": ("data", "weights"),
    "plans": (),
    "checkpoint": (),
}
#: The configuration of the planned module that the target `plans` begins with. Its tables of communicators and optimizer
#: groups are not empty.
PLANNED_PROGRAM = """mesh: {replicate: 2, shard: 2}
optimizer: {name: adamw, lr: 1.0e-3, clip_grad_norm: 1.0, groups: [{max_dims: 1, weight_decay: 0.0}]}
"""
#: MLIR's bytecode reader crashes on some damaged files (docs/files.md), which is not a defect of this
#: project.
BY_DEFAULT = [target for target in TARGETS if target != "bytecode"]
#: Targets whose binary has another name.
BINARIES = {"bytecode": "modules"}
#: Patterns of tokens that mutations insert.
WORDS = {"checkpoint": r'"[a-z_0-9]+"', "modules": r"[@%#!]?[A-Za-z_][A-Za-z0-9_.]*", "config": r"[A-Za-z_]+", "programs": r'"[A-Za-z_.]+"'}
PROGRAM = "models/model.json"


def read_program(archive):
    """The program's record in a .pt2 file; its folder is the archive's name."""
    with zipfile.ZipFile(archive) as records:
        return next(records.read(name) for name in records.namelist() if name.endswith(PROGRAM))


def make_programs(tools, folder):
    """Planned modules of several steps: one of the model mlp, and one with constants."""
    config, kept = folder / "program.yaml", folder / "program"
    config.write_text(PLANNED_PROGRAM)
    model = folder / "mlp.pt"
    formats.run(tools / "fsdpc", model, *formats.MLP_INPUTS, "--eval-model", model, "--config", config, "--save-temps", kept,
                "--quiet", "-o", folder / "program.train")  # fmt: skip
    return [kept / "planned.mlir", formats.PROGRAM]


def make_corpus(target, by_name, folder):
    """Seeds in a folder, and libFuzzer's list of words."""
    corpus = folder / f"{target}-seeds"
    corpus.mkdir()
    seeds = [seed for name in TARGETS[target] for seed in by_name[name].seeds]
    if target == "programs":
        seeds = [read_program(folder / "mlp.pt2")]
    if target == "checkpoint":
        form = by_name["checkpoint"]
        seeds = [seed for seed, place in zip(form.seeds, form.places) if place.endswith("checkpoint.json")]
    if target != "programs":  # the target programs takes records of archives
        seeds += [file.read_bytes() for name in TARGETS[target] for file in formats.kept_files(by_name[name])]
    for number, seed in enumerate(seeds):
        (corpus / f"seed-{number}").write_bytes(seed)
    words = set()
    if target in WORDS:
        for seed in seeds:
            words.update(re.findall(WORDS[target], seed.decode(errors="ignore")))
    listed = folder / f"{target}.dict"
    lines = ('"' + word.replace("\\", "\\\\").replace('"', '\\"') + '"' for word in sorted(words) if len(word) < 40)
    listed.write_text("\n".join(lines) + "\n")
    return corpus, listed


def run_target(options, target, folder, by_name, programs):
    """(runs, findings) of one target; its output is printed if it has findings."""
    corpus, words = make_corpus(target, by_name, folder)
    options.keep.mkdir(parents=True, exist_ok=True)
    environment = dict(
        os.environ, FSDP_FUZZ_ARCHIVE=str(folder / "mlp.pt2"), FSDP_FUZZ_MODULES=":".join(str(path) for path in programs),
        ASAN_OPTIONS="detect_container_overflow=0:allow_user_poisoning=0:allocator_may_return_null=1",
        UBSAN_OPTIONS="print_stacktrace=1")  # fmt: skip
    binary = (options.build / "bin" / f"fuzz-{BINARIES.get(target, target)}").resolve()
    flags = ["-timeout=20", "-rss_limit_mb=8192", "-malloc_limit_mb=4096", "-detect_leaks=0", "-print_final_stats=1",
             f"-artifact_prefix={options.keep}/{target}-", f"-seed={options.seed}"]  # fmt: skip
    if options.input:
        return 1, subprocess.run([binary, *flags, options.input], env=environment).returncode != 0
    done = subprocess.run(
        [binary, *flags, f"-runs={options.runs}", f"-max_total_time={options.seconds}", "-max_len=65536",
         f"-dict={words}", corpus], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)  # fmt: skip
    output = done.stdout.decode(errors="replace")
    counted = re.search(r"stat::number_of_executed_units: (\d+)", output)
    covered = re.findall(r" cov: (\d+)", output)
    if done.returncode:
        print(f"FINDING {target}:\n" + "\n".join(output.splitlines()[-60:]))
    runs = int(counted.group(1)) if counted else 0
    print(f"{target}: {runs} runs, {covered[-1] if covered else 0} edges, {'a finding' if done.returncode else 'none found'}",
          flush=True)  # fmt: skip
    return runs, done.returncode != 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, required=True, help="build folder of the preset fuzz")
    parser.add_argument("--tools", type=pathlib.Path, required=True, help="build whose tools make the seeds")
    parser.add_argument("--python", default=sys.executable, help="Python with torch, which makes the models")
    parser.add_argument("--targets", default=",".join(BY_DEFAULT), help="only these targets, separated by commas. Default: %(default)s")
    parser.add_argument("--runs", type=int, default=20000, help="runs of each target")
    parser.add_argument("--seconds", type=int, default=0, help="time limit of each target; 0: none")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--input", help="run one kept input again, with the single target in --targets")
    parser.add_argument("--keep", type=pathlib.Path, default=pathlib.Path("findings"), help="folder for findings")
    options = parser.parse_args()
    targets = options.targets.split(",")
    for target in targets:
        if target not in TARGETS:
            sys.exit(f"coverage: there is no target '{target}', only {', '.join(TARGETS)}")
    if options.input and len(targets) != 1:
        sys.exit(f"coverage: --input is for one target, but --targets is {options.targets}")
    runs = findings = 0
    with tempfile.TemporaryDirectory(prefix="fsdp-fuzz-seeds-") as folder:
        folder = pathlib.Path(folder)
        by_name = {form.name: form for form in formats.make_formats((options.tools / "bin").resolve(), folder, options.python)}
        programs = make_programs((options.tools / "bin").resolve(), folder) if "plans" in targets else []
        for target in targets:
            ran, found = run_target(options, target, folder, by_name, programs)
            runs, findings = runs + ran, findings + found
    print(f"coverage: {runs} runs, {findings} findings")
    return findings != 0


if __name__ == "__main__":
    sys.exit(main())

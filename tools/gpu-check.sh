#!/usr/bin/env bash
# Builds the runtime on a machine with a GPU, checks it there and compares it with PyTorch FSDP2.
#
#   tools/gpu-check.sh [--cases DIR] [--out DIR] [--report DIR] [--device cuda|cpu] [--only PART,...]
#
#   --cases DIR   output folder of tools/make-gpu-cases.sh (build/gpu-cases)
#   --out DIR     folder for the build, logs and measured timelines (build/gpu-check)
#   --report DIR  folder for figures.json and logs.tar.gz, updated after each part (the folder of --out)
#   --device cpu  run on a CPU, with cases of --size tiny, to test the checks themselves
#   --only PARTS  parts of tools/benchmarks/gpu/check.py, or its stages: contact, numbers, baselines. If a call
#                 may take at most 9 minutes, run one for each stage, with the same --out
#
# Needs CUDA 13 (nvcc), a Python with torch 2.11 for it (FSDP_PYTHON, else python3), CMake, Ninja and
# a C++ compiler; needs neither MLIR nor a network. Takes 5 minutes on 16 cores, at most 9. Exit status 0: the
# tests pass and every claim holds. Without a GPU it builds, runs the tests that need none, links the
# cases, and fails with one line.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

limit_s=540
cases=build/gpu-cases
out=build/gpu-check
report=
device=cuda
only=() asked=contact # and the others

fail() { printf 'gpu-check: error: %s\n' "$*" >&2; exit 1; }
say() { printf '\n== %s (%d s)\n' "$*" "$SECONDS"; }
# logged LOG COMMAND...: the command's output goes to the log; its end is shown if it fails.
logged() {
  local log=$out/$1
  shift
  "$@" >>"$log" 2>&1 || { tail -n 30 "$log" >&2; return 1; }
}
# Packs the logs that are needed to analyse the run later.
pack() {
  local present
  mapfile -t present < <(cd "$out" && ls -d ./*.log ./*.json logs 2>/dev/null)
  tar -C "$out" -czf "$report/logs.tar.gz" "${present[@]}" || true
}

while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) sed -n '2,17s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    --cases | --out | --report | --device | --only) [ $# -ge 2 ] || fail "$1 needs a value" ;;&
    --cases) cases=$2; shift 2 ;;
    --out) out=$2; shift 2 ;;
    --report) report=$2; shift 2 ;;
    --device) device=$2; shift 2 ;;
    --only) only=(--only "$2") asked=$2; shift 2 ;;
    *) fail "unknown argument '$1', expected --cases, --out, --report, --device or --only" ;;
  esac
done
case $device in cuda | cpu) ;; *) fail "--device $device: expected cuda or cpu" ;; esac
[ -f "$cases/manifest.json" ] || fail "--cases $cases: there is no manifest.json; make it with tools/make-gpu-cases.sh"
cases=$(realpath "$cases")
made_for=$(sed -n 's/.*"plan_abi": \([0-9]*\).*/\1/p' "$cases/manifest.json")
expected=$(sed -n 's/^#define FSDP_PLAN_ABI_VERSION \([0-9]*\)u.*/\1/p' include/fsdp/Plan/Abi.h)
[ "$made_for" = "$expected" ] ||
  fail "--cases $cases: made for plan ABI $made_for, but this is $expected; make them anew"
PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin
for program in cmake ninja c++; do
  command -v "$program" >/dev/null || fail "there is no $program"
done
python=$(command -v "${FSDP_PYTHON:-python3}") || fail "there is no '${FSDP_PYTHON:-python3}'; set FSDP_PYTHON"
mkdir -p "$out"
out=$(realpath "$out")
mkdir -p "${report:=$out}"
report=$(realpath "$report")
build=$out/build
rm -rf "$out"/*.log "$out"/logs "$report"/figures.json "$report"/logs.tar.gz
[[ ,$asked, != *,contact,* ]] || rm -f "$out"/measured.json

# Prints one line: the version of torch, of its CUDA or "none", the device's architecture or "none: why".
seen=$("$python" -c '
import torch
device = "none: " + str(torch.version.cuda)
try:
    device = "%d%d" % torch.cuda.get_device_capability(0)
except Exception as error:
    device = "none: " + (str(error).splitlines() or [type(error).__name__])[0]
print(torch.__version__, torch.version.cuda or "none", device)' 2>"$out/torch.log") ||
  fail "'$python' has no torch that can be imported ($(tail -n 1 "$out/torch.log")); set FSDP_PYTHON"
read -r torch_version torch_cuda architecture <<<"$seen"
case $torch_version in 2.11.*) ;; *) fail "'$python' has torch $torch_version, expected 2.11; set FSDP_PYTHON" ;; esac

no_gpu=
configure=(-DFSDP_PYTHON="$python" -DFSDP_BUILD_COMPILER=OFF -DCMAKE_BUILD_TYPE=Release
  -DFSDP_WERROR=OFF # other compilers have other warnings
  -DCLI11_INCLUDE_DIR="$cases/include" -DFSDP_GOOGLETEST_SOURCE="$cases/googletest")
needed=(fsdp_runtime)
# Each unit test is named after its target. Tests that need no device run without one.
chosen='^unit\.(cuda-kernel-device-test|comm-conformance-test)$'
export GTEST_FILTER='*nccl*:Kernel*'
if [ "$device" = cuda ]; then
  [ "$torch_cuda" != none ] || fail "'$python' has torch $torch_version without CUDA; set FSDP_PYTHON"
  nvcc=$(command -v nvcc) || fail "nvcc is neither on the PATH nor in ${CUDA_HOME:-/usr/local/cuda}/bin; set CUDA_HOME"
  case $architecture in
    none:*)
      no_gpu=${architecture#none: }
      architecture=90
      chosen='^unit\..*(cuda|nccl|comm)'
      unset GTEST_FILTER
      ;;
  esac
  configure+=(-DFSDP_BUILD_CUDA=ON -DFSDP_NVCC="$nvcc" -DCMAKE_CUDA_ARCHITECTURES="$architecture-real")
  needed+=(fsdp_cuda fsdp_timer kernel-bandwidth)
else
  configure+=(-DFSDP_BUILD_CUDA=OFF)
  unset GTEST_FILTER
fi
trap pack EXIT

say "The runtime, without the compiler"
logged build.log cmake -G Ninja -B "$build" "${configure[@]}" || fail "cmake failed, see $out/build.log"
mapfile -t tests < <(ctest --test-dir "$build" -N -R "$chosen" 2>/dev/null |
  sed -n 's/^ *Test *#[0-9]*: unit\.//p')
# A test that cannot be built must not prevent the measurements.
status=0
logged build.log cmake --build "$build" --target "${needed[@]}" "${tests[@]}" -- -k 0 || status=1
for target in "${needed[@]}"; do
  [ -e "$build/lib/lib$target.so" ] || [ -e "$build/bin/$target" ] ||
    fail "$target was not built, see $out/build.log"
done

# The tests belong to the stage contact.
if [[ ,$asked, == *,contact,* ]]; then
  say "Tests"
  ctest --test-dir "$build" -R "$chosen" -j 8 --timeout 100 --verbose >"$out/tests.log" 2>&1 || status=1
  grep -E '% tests passed|\*\*\*|FAILED +\] .*\([0-9]+ ms\)' "$out/tests.log" || true
  printf '%s cases skipped, for reasons in %s\n' \
    "$(grep -cE 'SKIPPED +\] .*\([0-9]+ ms\)' "$out/tests.log" || true)" "$out/tests.log"
fi

check() {
  "$python" tools/benchmarks/gpu/check.py --cases "$cases" --build "$build" --out "$out" \
    --report "$report" --device "$device" "$@"
}
say "Cases"
check --link || fail "the cases cannot be linked"
[ -z "$no_gpu" ] ||
  fail "no CUDA device, so nothing was measured ($no_gpu); built, linked and tested without"

say "Checks"
check --seconds $((limit_s - 15 - SECONDS)) "${only[@]}" || status=1
[ "$status" = 0 ] || fail "a test or a claim failed, see above and $out"
say "Everything holds"

#!/usr/bin/env bash
# Builds the runtime on a machine with a GPU, checks it there and measures it beside PyTorch FSDP2.
#
#   tools/gpu-check.sh [--cases DIR] [--out DIR] [--device cuda|cpu] [--only PART,...]
#
#   --cases DIR   what tools/make-gpu-cases.sh made (build/gpu-cases)
#   --out DIR     the build, figures.json and the measured timelines (build/gpu-check)
#   --device cpu  the same on a CPU, with cases of --size tiny: tries the checks themselves
#   --only PARTS  of tools/benchmarks/gpu/check.py
#
# Needs CUDA 13 (nvcc), a Python with torch 2.11 for it (FSDP_PYTHON, else python3), CMake, Ninja and
# a C++ compiler; neither MLIR nor a network. Takes at most 9 minutes on 16 cores. Exit status 0: the
# tests pass and every claim holds. Without a GPU it builds, runs the tests that need none, links the
# cases, and fails with one line.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

limit_s=540
cases=build/gpu-cases
out=build/gpu-check
device=cuda
only=()

fail() { printf 'gpu-check: error: %s\n' "$*" >&2; exit 1; }
# logged LOG COMMAND...: the command's output goes to the log; its end is shown if it fails.
logged() {
  local log=$out/$1
  shift
  "$@" >>"$log" 2>&1 || { tail -n 30 "$log" >&2; fail "'$1' failed, see $log"; }
}
say() { printf '\n== %s (%d s)\n' "$*" "$SECONDS"; }

while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) sed -n '2,15s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    --cases | --out | --device | --only) [ $# -ge 2 ] || fail "$1 needs a value" ;;&
    --cases) cases=$2; shift 2 ;;
    --out) out=$2; shift 2 ;;
    --device) device=$2; shift 2 ;;
    --only) only=(--only "$2"); shift 2 ;;
    *) fail "unknown argument '$1', expected --cases, --out, --device or --only" ;;
  esac
done
case $device in cuda | cpu) ;; *) fail "--device $device: expected cuda or cpu" ;; esac
[ -f "$cases/manifest.json" ] || fail "--cases $cases: there is no manifest.json; make it with tools/make-gpu-cases.sh"
cases=$(realpath "$cases")
python=$(command -v "${FSDP_PYTHON:-python3}") || fail "there is no '${FSDP_PYTHON:-python3}'; set FSDP_PYTHON"
"$python" -c 'import torch' 2>/dev/null || fail "'$python' has no torch; set FSDP_PYTHON"
mkdir -p "$out"
out=$(realpath "$out")
rm -f "$out"/*.log
build=$out/build

no_gpu=
configure=(-DFSDP_PYTHON="$python" -DFSDP_BUILD_COMPILER=OFF -DCMAKE_BUILD_TYPE=Release
  -DCLI11_INCLUDE_DIR="$cases/include" -DGTest_ROOT="$out/googletest")
if [ "$device" = cuda ]; then
  no_gpu=$("$python" -c '
import torch
try:
    torch.cuda.init()
except Exception as error:
    print(str(error).splitlines()[0] or type(error).__name__)' 2>&1 | tail -n 1)
  architecture=90
  [ -n "$no_gpu" ] ||
    architecture=$("$python" -c 'import torch; print("%d%d" % torch.cuda.get_device_capability(0))')
  PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin
  configure+=(-DFSDP_BUILD_CUDA=ON -DCMAKE_CUDA_ARCHITECTURES="$architecture")
else
  configure+=(-DFSDP_BUILD_CUDA=OFF)
fi

say "GoogleTest"
logged googletest.log cmake -G Ninja -S "$cases/googletest" -B "$out/googletest-build" \
  -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$out/googletest" -DCMAKE_INSTALL_LIBDIR=lib
logged googletest.log cmake --build "$out/googletest-build" --target install

say "The runtime, without the compiler"
logged build.log cmake -G Ninja -B "$build" "${configure[@]}"
# Each unit test is named after its target.
chosen='^unit\..*(cuda|nccl|comm)'
mapfile -t targets < <(ctest --test-dir "$build" -N -R "$chosen" 2>/dev/null |
  sed -n 's/^ *Test *#[0-9]*: unit\.//p')
targets+=(fsdp_runtime)
[ "$device" = cpu ] || targets+=(fsdp_cuda fsdp_delay kernel-bandwidth)
logged build.log cmake --build "$build" --target "${targets[@]}"

say "Tests"
status=0
ctest --test-dir "$build" -R "$chosen" -j 8 --timeout 120 --output-on-failure \
  >"$out/tests.log" || status=1
grep -E '% tests passed|\*\*\*|\[  SKIPPED \]' "$out/tests.log" || true

say "Cases"
"$python" tools/benchmarks/gpu/check.py --cases "$cases" --build "$build" --out "$out" \
  --device "$device" --link || fail "the cases cannot be linked"
[ -z "$no_gpu" ] ||
  fail "no CUDA device, so nothing was measured ($no_gpu); built, linked and tested without"

say "Checks"
"$python" tools/benchmarks/gpu/check.py --cases "$cases" --build "$build" --out "$out" \
  --device "$device" --seconds $((limit_s - 20 - SECONDS)) "${only[@]}" || status=1
[ "$status" = 0 ] || fail "a test or a claim failed, see above and $out"
say "Everything holds"

#!/usr/bin/env bash
# Makes the files that tools/gpu-check.sh needs on a machine with a GPU but without the compiler and
# without a network: compiled steps, their predicted timelines, and sources of libraries that such a
# machine lacks (CLI11, nlohmann-json, GoogleTest).
#
#   tools/make-gpu-cases.sh [--out DIR] [--tools BIN] [--size full|tiny]
#
#   --out DIR    output folder (build/gpu-cases); existing files are replaced
#   --tools BIN  folder of fsdp-capture, fsdp-opt, fsdp-compile and fsdp-explain (build/release/bin)
#   --size tiny  steps for a CPU, to test the checks themselves
#
# The GPU machine needs DIR and the tracked files of the repository, at most 64 MiB; their sum is
# printed. The steps have no weights: the check draws them on the GPU machine. Environment: FSDP_PYTHON.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

limit_mib=64
out=build/gpu-cases
tools=build/${FSDP_PRESET:-release}/bin
size=full

fail() { printf 'make-gpu-cases: error: %s\n' "$*" >&2; exit 1; }

while [ $# -gt 0 ]; do
  case $1 in
    -h | --help) sed -n '2,14s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    --out | --tools | --size) [ $# -ge 2 ] || fail "$1 needs a value" ;;&
    --out) out=$2; shift 2 ;;
    --tools) tools=$2; shift 2 ;;
    --size) size=$2; shift 2 ;;
    *) fail "unknown argument '$1', expected --out, --tools or --size" ;;
  esac
done
case $size in full | tiny) ;; *) fail "--size $size: expected full or tiny" ;; esac
[ -x "$tools/fsdp-compile" ] || fail "--tools $tools: there is no fsdp-compile; run tools/setup.sh"

cache=$(dirname "$tools")/CMakeCache.txt
cached() { [ ! -f "$cache" ] || sed -n "s/^$1:[A-Z]*=//p" "$cache"; }
python=${FSDP_PYTHON:-$(cached FSDP_PYTHON)}
[ -n "$python" ] || fail "set FSDP_PYTHON to an interpreter that has torch 2.11"

if [ -e "$out" ] && [ ! -f "$out/manifest.json" ] && [ -n "$(ls -A "$out")" ]; then
  fail "--out $out: the folder holds something else; it would be replaced"
fi
rm -rf "$out"
mkdir -p "$out"

printf 'Compiled steps in %s:\n' "$out"
"$python" tools/benchmarks/gpu/make_cases.py --tools "$tools" --out "$out" --size "$size"

# Headers from where the build found them; GoogleTest as sources, since a binary may not fit that machine.
cli11=$(cached CLI11_INCLUDE_DIR)
headers() {
  local name=$1 folder
  shift
  for folder in "$@" /usr/include /usr/local/include; do
    if [ -n "$folder" ] && [ -d "$folder/$name" ]; then
      cp -r "$folder/$name" "$out/include/"
      return
    fi
  done
  fail "the headers of $name are in none of: $* /usr/include /usr/local/include"
}
mkdir -p "$out/include"
headers CLI "$cli11"
headers nlohmann
googletest=/usr/src/googletest
[ -f "$googletest/CMakeLists.txt" ] || fail "GoogleTest's sources are not in $googletest (Debian: googletest)"
mkdir "$out/googletest"
cp -r "$googletest"/CMakeLists.txt "$googletest"/googletest "$googletest"/googlemock "$out/googletest/"
rm -rf "$out"/googletest/*/{test,samples,docs}

kib() { du -sck "$@" | tail -n 1 | cut -f 1; }
mapfile -d '' -t tracked < <(git ls-files -z 2>/dev/null || true)
present=()
for file in "${tracked[@]}"; do
  [ ! -f "$file" ] || present+=("$file")
done
total=$(($(kib "$out") + $(kib "${present[@]:-.}")))
printf 'cases %d KiB, with the repository %d KiB of %d KiB\n' "$(kib "$out")" "$total" $((limit_mib * 1024))
[ "$total" -le $((limit_mib * 1024)) ] || fail "cases and repository take more than $limit_mib MiB"

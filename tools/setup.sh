#!/usr/bin/env bash
# Sets up a fresh Debian machine: packages, a Python environment with torch and HiGHS, the build.
#
#   tools/setup.sh [TARGET...]     # builds only these targets; default: everything, including tests
#
# May be run again at any time; existing parts are kept. Environment variables:
#   FSDP_PYTHON   an interpreter whose environment has torch 2.11 and numpy; it is used instead of
#                 build/venv, which is then not made. If it lacks highsbox, that goes to build/highs
#   FSDP_PRESET   the CMake preset to configure and build: release (default), debug, clang, asan, fuzz,
#                 tsan; the last four take clang-22
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

packages=(
  g++ cmake ninja-build ccache git python3-venv
  libmlir-22-dev mlir-22-tools llvm-22-dev llvm-22-tools lld-22
  libcli11-dev nlohmann-json3-dev libgtest-dev libgmock-dev
)
torch_version=2.11.0
highs_version=1.15.1
preset=${FSDP_PRESET:-release}
case $preset in
  clang|asan|fuzz|tsan) packages+=(clang-22 libclang-rt-22-dev) ;;
esac

say() { printf '\n== %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 1; }

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [ "$status" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
  say "Debian packages: ${missing[*]}"
  command -v apt-get >/dev/null || fail "this is not a Debian system; install: ${missing[*]}"
  as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || fail "no sudo; as root: apt-get install ${missing[*]}"
    as_root=(sudo)
  fi
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qq -y \
    --no-install-recommends "${missing[@]}"
fi

has_torch() {
  [ -x "$1" ] && "$1" -c "
import importlib.metadata as m, sys
import numpy
sys.exit(m.version('torch').split('+')[0] != '$torch_version')" 2>/dev/null
}
has_highs() { "$1" -c 'import highsbox' 2>/dev/null; }
highs_dir=()

if [ -n "${FSDP_PYTHON:-}" ]; then
  python=$(realpath -s "$FSDP_PYTHON")
  has_torch "$python" || fail "FSDP_PYTHON is '$python', which lacks torch $torch_version or numpy"
  if ! has_highs "$python"; then
    if [ ! -d build/highs/highsbox ]; then
      say "HiGHS $highs_version in build/highs"
      "$python" -m pip install --quiet --disable-pip-version-check --target build/highs \
        "highsbox==$highs_version"
    fi
    highs_dir=(-DHighs_ROOT_DIR="$PWD/build/highs/highsbox/highs_dist")
  fi
else
  python=$PWD/build/venv/bin/python
  if ! has_torch "$python" || ! has_highs "$python"; then
    say "Python environment with torch $torch_version and HiGHS $highs_version in build/venv"
    python3 -m venv build/venv
    "$python" -m pip install --quiet --disable-pip-version-check \
      "torch==$torch_version" numpy safetensors "highsbox==$highs_version"
  fi
fi

# A build folder caches the path of torch; another interpreter has another torch.
cache=build/$preset/CMakeCache.txt
fresh=()
if [ -f "$cache" ] && ! grep -qxF "FSDP_PYTHON:FILEPATH=$python" "$cache"; then
  fresh=(--fresh)
fi
say "Configure build/$preset"
cmake --preset "$preset" "${fresh[@]}" "${highs_dir[@]}" -DFSDP_PYTHON="$python"
say "Build"
cmake --build --preset "$preset" ${1:+--target "$@"}

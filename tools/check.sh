#!/usr/bin/env bash
# Setup, then all tests. The last lines are ctest's summary; the exit status is ctest's.
#
#   tools/check.sh [ctest arguments, for example -R parity]
#   FSDP_FUZZ_SECONDS=3600 tools/check.sh -R fuzz    # an hour of mutated files instead of half a minute
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools/setup.sh
# torch's store asks a name server for the names of its peers: an answer that is lost costs a second, not five.
export RES_OPTIONS="${RES_OPTIONS:-timeout:1}"
printf '\n== Tests\n'
exec ctest --preset "${FSDP_PRESET:-release}" -j2 "$@"

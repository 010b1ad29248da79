#!/usr/bin/env bash
# Trains a small byte-level decoder on real text with two processes, stage by stage.
#
#   tools/demo.sh [--text FILE]
#
# All output goes to build/demo. Environment variables as for tools/setup.sh.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

text=()
while [ $# -gt 0 ]; do
  case $1 in
    --text)
      [ $# -ge 2 ] || { echo "demo: --text needs a file" >&2; exit 2; }
      [ -f "$2" ] || { echo "demo: --text: no file '$2'" >&2; exit 2; }
      text=("$2")
      shift 2
      ;;
    -h | --help) sed -n '2,6s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; exit 0 ;;
    *) echo "demo: unknown argument '$1', expected --text FILE" >&2; exit 2 ;;
  esac
done

tools/setup.sh fsdp-capture fsdp-opt fsdp-compile fsdp_runtime
build=build/${FSDP_PRESET:-release}
python=$(sed -n 's/^FSDP_PYTHON:FILEPATH=//p' "$build/CMakeCache.txt")
out=build/demo
mkdir -p "$out"
# Short names for the commands that are printed below.
PATH=$PWD/$build/bin:$(dirname "$python"):$PATH
began=$SECONDS

stage() { printf '\n== %s\n' "$*"; }
run() {
  local word shown='$'
  for word in "$@"; do
    case $word in
      *[!A-Za-z0-9_./:=,+-]* | '') shown+=" '$word'" ;;
      *) shown+=" $word" ;;
    esac
  done
  printf '%s\n' "$shown"
  "$@"
}

stage "Real text, as bytes"
run python tools/demo/text.py "$out/text.bin" "${text[@]}"

stage "The model, in Python for the last time"
run python tools/demo/export.py "$out/decoder.pt"

stage "Capture one training step: forward, loss, backward, update"
run fsdp-capture "$out/decoder.pt" --input 'tokens:i64[8,128]' --input 'targets:i64[8,128]' \
  --optimizer adamw --lr 6e-3 --weights "$out/initial.safetensors" -o "$out/captured.mlir"

stage "Shard it over two ranks and schedule it"
run fsdp-opt "$out/captured.mlir" \
  "--fsdp-pipeline=mesh=dp=2 up-to=scheduled report=$out/report.json" -o "$out/scheduled.mlir"

stage "Compile it to a native training binary"
run fsdp-compile "$out/scheduled.mlir" -o "$out/train"
run "$out/train" --describe

stage "Train 200 steps with two processes"
rm -f "$out/log.jsonl"
# The -- keeps torchrun from reading the binary's flags.
run env OMP_NUM_THREADS=1 torchrun --standalone --no-python --nproc-per-node 2 -- "$out/train" \
  --data "$out/text.bin" --data-dtype u8 --shuffle --init "$out/initial.safetensors" \
  --lr-schedule cosine --warmup-steps 10 --steps 200 --log-file "$out/log.jsonl" --save "$out/trained.safetensors"

stage "What happened"
run python tools/demo/summary.py "$out/text.bin" "$out/log.jsonl" "$out/report.json" layers.1

stage "A line of text from the trained weights, in Python"
run python tools/demo/generate.py "$out/trained.safetensors" "The function "

stage "Done in $((SECONDS - began)) s after setup. To look inside:"
cat <<END
  $out/captured.mlir    the step as captured
  $out/scheduled.mlir   gathers, reshards and reductions in order of issue
  $out/report.json      events, collectives, counts and bytes
  $out/log.jsonl        a line per step
END

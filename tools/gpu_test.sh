#!/usr/bin/env bash
# Every test that needs an NVIDIA GPU: C++ bits, memory and race checks on small shapes, Python. Fails without a GPU.
# usage: tools/gpu_test.sh BUILD_FOLDER PYTHON
set -euo pipefail
build=$(cd "$1" && pwd) python=$2
root=$(cd "$(dirname "$0")/.." && pwd)
cuda_test=$build/tests/cuda/cuda_test
log=$(mktemp)
trap 'rm -f "$log"' EXIT
status=0
run() {
  echo "== $*"
  "$@" || { echo "== FAILED ($?): $*"; status=1; }
}
# racecheck leaves cuBLASLt out: it reports hazards inside of the library's own kernels.
# A virtual machine may not let the sanitizer at its GPU; that is no finding about this code.
sanitize() {
  echo "== compute-sanitizer --tool $1"
  if compute-sanitizer --tool "$1" --error-exitcode 3 "$cuda_test" --gtest_filter="*small_shapes*${2:-}" > "$log" 2>&1; then
    tail -n 3 "$log"
  elif grep -q 'Device not supported' "$log"; then
    echo "== NOT RUN: compute-sanitizer does not support this device here"
  else
    cat "$log"
    echo "== FAILED: compute-sanitizer --tool $1"
    status=1
  fi
}

run "$cuda_test" --gtest_brief=1
if command -v compute-sanitizer > /dev/null; then
  sanitize memcheck
  sanitize racecheck '-*through_the_library*'
else
  echo "== NOT RUN: compute-sanitizer is not on PATH"
fi
PYTHONPATH=$build/python run "$python" -m pytest -q -p no:cacheprovider "$root/tests/python/gpu"
exit "$status"

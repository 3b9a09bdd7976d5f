#!/usr/bin/env bash
# Takes evidence on this machine's GPU: bits, kernels and timings by way of torch, and the C++ benchmark.
# usage: tools/gpu_evidence.sh BUILD_FOLDER PYTHON [arguments of python -m evidence]
set -euo pipefail
build=$(cd "$1" && pwd) python=$2
shift 2
root=$(cd "$(dirname "$0")/.." && pwd)
export PYTHONPATH=$build/python:$root/tools
"$python" -m evidence --bench "$build/tests/cuda/cuda_bench" "$@"

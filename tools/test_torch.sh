#!/usr/bin/env bash
# Runs the Python suite with another torch: a fresh environment, that torch, and the wheel built against the pinned one.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$1 wheel=$2
home=build/torch-$version
rm -rf "$home"
python3 -m venv "$home/venv"
grep -E '^(hypothesis|mpmath|numpy|pytest|safetensors|rich|matplotlib|packaging)==' requirements-dev.txt >"$home/requirements.txt"
"$home/venv/bin/python" -m pip install -q --disable-pip-version-check -r "$home/requirements.txt" "torch==$version" "$wheel"
"$home/venv/bin/python" -c '
import samebits, torch
print("samebits", samebits.__version__, "from", samebits.__path__[0], "under torch", torch.__version__)'
"$home/venv/bin/python" -m pytest tests/python

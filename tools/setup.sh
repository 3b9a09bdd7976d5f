#!/usr/bin/env bash
# Makes the development environment: Debian packages (as root, those that are missing), .venv with the pinned Python
# packages and torch. Safe to run again; it does only what is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1 torch=$2

missing=()
if command -v dpkg-query >/dev/null; then
  for package in $(cat tools/debian-packages.txt); do
    case $package in
      # Any g++ and any suitable Python will do, packaged or not.
      g++) command -v g++ >/dev/null && continue ;;
      ccache) command -v ccache >/dev/null && continue ;;
      python3 | python3-venv)
        python3 -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))' 2>/dev/null && continue ;;
    esac
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
  done
fi
if ((${#missing[@]})); then
  if [[ $(id -u) != 0 ]]; then
    echo "missing system packages; as root: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  echo "setup: installing ${missing[*]}"
  export DEBIAN_FRONTEND=noninteractive
  apt-get update -qq
  apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

python=python3
if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
  python=/usr/bin/python3
fi
if [[ ! -x $venv/bin/python ]]; then
  echo "setup: $venv with $($python -V)"
  "$python" -m venv "$venv"
fi
echo "setup: Python packages and torch $torch"
"$venv/bin/python" -m pip install -q --disable-pip-version-check -r requirements-dev.txt "torch==$torch"
"$venv/bin/python" -c 'import torch; print("setup: torch", torch.__version__)'

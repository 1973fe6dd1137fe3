#!/usr/bin/env bash
# Installs Snug into an empty prefix, builds examples/cpp against the package alone, and runs all of them.
#   package_test.sh BUILD_FOLDER SOURCE_FOLDER
set -euo pipefail
build=$1
source=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/prefix" >/dev/null
# A static library that uses OpenMP is linked by the compiler that made it.
compiler=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
cmake -S "$source/examples/cpp" -B "$work/examples" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_BUILD_TYPE=Release \
  -DCMAKE_CXX_COMPILER="$compiler" >/dev/null
cmake --build "$work/examples" >/dev/null
python3 - "$source/tests/e2e" "$work/train.jsonl" <<'PYTHON'
import pathlib
import sys
sys.path.insert(0, sys.argv[1])
import common
common.write_jsonl(pathlib.Path(sys.argv[2]), common.make_rows(200))
PYTHON
"$work/examples/mlp" "$work/train.jsonl" "$work/mlp"
"$work/examples/bert" "$work/train.jsonl" "$work/bert"
for folder in mlp bert; do test -s "$work/$folder/last/model.safetensors"; done
python3 "$source/tests/package/examples_test.py" "$work/examples"
"$work/prefix/bin/snug" --version

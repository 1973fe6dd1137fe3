#!/usr/bin/env bash
# Installs Snug into an empty prefix, builds examples/cpp against the package alone, and runs all of them, those of examples/python
# beside them, and a program in C; of a sanitized build two_sessions alone.
#   package_test.sh BUILD_FOLDER SOURCE_FOLDER [SANITIZERS]
set -euo pipefail
build=$1
source=$2
sanitizers=${3:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/prefix" >/dev/null
# std::to_string of a float writes by the host's locale; no pattern in the sources tells it from that of an integer.
for library in "$work"/prefix/lib*/libsnug*.a "$work"/prefix/lib*/*/libsnug*.a; do
  [ -e "$library" ] || continue
  if nm -AC "$library" | grep __to_xstring; then exit 1; fi
done
# A static library that uses OpenMP is linked by the compiler that made it.
compiler=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
build_examples() {
  cmake -S "$source/examples/cpp" -B "$work/examples" -G Ninja -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_CXX_COMPILER="$compiler" "$1" >/dev/null
  cmake --build "$work/examples" --target "$2" >/dev/null
}
if [ -n "$sanitizers" ]; then
  build_examples -DCMAKE_CXX_FLAGS="-fsanitize=$sanitizers -fno-omit-frame-pointer -g1" two_sessions
  export TSAN_OPTIONS="suppressions=$source/tools/tsan.supp" UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
  for threads in 1 2; do "$work/examples/two_sessions" "$threads"; done
  exit
fi
build_examples -DCMAKE_CXX_FLAGS= all
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
for threads in 1 2; do "$work/examples/two_sessions" "$threads"; done
shared=$(find "$work/prefix" -name libsnug_c.so)
cc -std=c99 -Wall -Wextra -Werror -I"$work/prefix/include" "$source/tests/package/session_in_c.c" "$shared" -Wl,-rpath,"$(dirname "$shared")" \
  -o "$work/session_in_c"
"$work/session_in_c"
SNUG_LIBRARY=$shared PYTHONPATH="$source/python" \
  /usr/bin/python3 "$source/tests/package/python_examples_test.py" "$work/examples" "$source" "$work/train.jsonl"
"$work/prefix/bin/snug" --version

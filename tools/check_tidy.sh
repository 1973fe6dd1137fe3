#!/usr/bin/env bash
# Runs clang-tidy over the library and the program; the argument is a build folder with compile_commands.json.
set -euo pipefail
cd "$(dirname "$0")/.."
git ls-files -z 'src/*.cc' 'cli/*.cc' | grep -zv -e '_test\.cc$' -e '_cpu.*\.cc$' | xargs -0 -n 4 -P "$(nproc)" clang-tidy -quiet -p "$1"

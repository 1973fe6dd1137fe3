#!/usr/bin/env bash
# Every C++ file is as clang-format leaves it; `tools/check_format.sh --fix` makes it so.
set -euo pipefail
cd "$(dirname "$0")/.."
mode=(--dry-run --Werror)
[ "${1:-}" = --fix ] && mode=(-i)
git ls-files -z '*.h' '*.cc' | xargs -0 -n 32 -P "$(nproc)" clang-format "${mode[@]}"

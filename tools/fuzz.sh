#!/usr/bin/env bash
# Fuzzes the readers of foreign bytes with libFuzzer under ASan + UBSan.
#   tools/fuzz.sh [READER] [SECONDS]   one reader, or all in turn; 60 seconds each unless given
# What was found interesting stays in build/fuzz/corpus/READER, so a later run goes on from there. An input that fails is left in
# build/fuzz/failures/READER: mend the reader and add the input to tests/fuzz/seeds/READER. FUZZ_RUNS=N stops a reader after N inputs.
set -euo pipefail
cd "$(dirname "$0")/.."
readers=$(sed -n 's/^snug_fuzz_reader(\([a-z_]*\).*/\1/p' tests/fuzz/CMakeLists.txt)
seconds=60
for word in "$@"; do
  case "$word" in
    *[!0-9]*) grep -qx "$word" <<<"$readers" || { echo "no reader '$word'; there are:" $readers >&2; exit 2; }; readers=$word ;;
    *) seconds=$word ;;
  esac
done
tools/install_packages.sh
cmake --preset fuzz >/dev/null
cmake --build build/fuzz -j "$(nproc)" --target $(for reader in $readers; do echo "fuzz_$reader"; done)

SNUG_FUZZ_FOLDER=$(mktemp -d "$([ -w /dev/shm ] && echo /dev/shm || echo "${TMPDIR:-/tmp}")/snug-fuzz-XXXXXX")
export SNUG_FUZZ_FOLDER
trap 'rm -rf "$SNUG_FUZZ_FOLDER"' EXIT
failed=0
table=
for reader in $readers; do
  corpus=build/fuzz/corpus/$reader failures=build/fuzz/failures/$reader log=build/fuzz/$reader.log
  mkdir -p "$corpus" "$failures"
  dictionary=tests/fuzz/dictionaries/$reader
  echo "== $reader"
  status=0
  # No input may take a second, 64 MiB at once or 512 MiB of resident set (the sanitizers' own share included).
  build/fuzz/tests/fuzz/fuzz_"$reader" "$corpus" "tests/fuzz/seeds/$reader" -artifact_prefix="$failures/" \
    -max_total_time="$seconds" -runs="${FUZZ_RUNS:--1}" -max_len="${FUZZ_LONGEST:-4096}" -timeout=1 -rss_limit_mb=512 \
    -malloc_limit_mb=64 -print_final_stats=1 $([ -f "$dictionary" ] && echo "-dict=$dictionary") >"$log" 2>&1 || status=$?
  inputs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
  rate=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")
  rss=$(sed -n 's/^stat::peak_rss_mb: *//p' "$log")
  table+=$(printf '%-18s %10s %8s %8s  %s' "$reader" "${inputs:-?}" "${rate:-?}" "${rss:-?}" \
    "$([ $status -eq 0 ] && echo clean || echo "FAILED, see $log and $failures")")$'\n'
  [ $status -eq 0 ] || failed=1
done
printf '%-18s %10s %8s %8s  %s\n%s' reader inputs per_s rss_MiB result "$table"
exit $failed

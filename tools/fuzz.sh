#!/usr/bin/env bash
# Fuzzes the readers of foreign bytes with libFuzzer under ASan + UBSan.
#   tools/fuzz.sh [READER ...] [SECONDS]   these readers, or all in turn; 60 seconds each unless given
# What was found interesting stays in build/fuzz/corpus/READER, so a later run goes on from there. An input that fails is left in
# build/fuzz/failures/READER: mend the reader and add the input to tests/fuzz/seeds/READER. FUZZ_RUNS=N stops a reader after N inputs.
set -euo pipefail
cd "$(dirname "$0")/.."
readers=$(sed -n 's/^snug_fuzz_reader(\([a-z_]*\).*/\1/p' tests/fuzz/CMakeLists.txt)
seconds=60
chosen=
for word in "$@"; do
  case "$word" in
    *[!0-9]*) grep -qx "$word" <<<"$readers" || { echo "no reader '$word'; there are:" $readers >&2; exit 2; }; chosen+=" $word" ;;
    *) seconds=$word ;;
  esac
done
readers=${chosen:-$readers}
tools/install_packages.sh clang
cmake --preset fuzz >/dev/null
cmake --build build/fuzz -j "$(nproc)" --target $(for reader in $readers; do echo "fuzz_$reader"; done)

SNUG_FUZZ_FOLDER=$(mktemp -d "$([ -w /dev/shm ] && echo /dev/shm || echo "${TMPDIR:-/tmp}")/snug-fuzz-XXXXXX")
export SNUG_FUZZ_FOLDER
trap 'rm -rf "$SNUG_FUZZ_FOLDER"' EXIT
# Freed memory is held back for megabytes, not hundreds of them: a third less time, and the resident set is the reader's own.
export ASAN_OPTIONS=quarantine_size_mb=8:malloc_context_size=4

statistic() { sed -n "s/^stat::$1: *//p; \$s/^.*/0/p" "$log" | head -1; }

# Whether all that failed was inputs over time that are fast alone: the machine had stood still. They are removed.
stood_still() {
  local input
  for input in "$failures"/*; do
    [[ $input == */timeout-* ]] && "$program" -timeout=1 "$input" >/dev/null 2>&1 || return 1
    rm "$input"
  done
}

runs=${FUZZ_RUNS:-2000000000}
failed=0
table=
for reader in $readers; do
  program=build/fuzz/tests/fuzz/fuzz_$reader corpus=build/fuzz/corpus/$reader failures=build/fuzz/failures/$reader
  log=build/fuzz/$reader.log dictionary=tests/fuzz/dictionaries/$reader
  mkdir -p "$corpus" "$failures"
  echo "== $reader"
  inputs=0 rss=0 begin=$SECONDS
  while true; do
    status=0
    # No input may take a second, 64 MiB at once or 512 MiB of resident set (the sanitizers' own share included).
    "$program" "$corpus" "tests/fuzz/seeds/$reader" -artifact_prefix="$failures/" -max_total_time=$((seconds + begin - SECONDS)) \
      -runs=$((runs - inputs)) -max_len="${FUZZ_LONGEST:-4096}" -timeout=1 -report_slow_units=3600 \
      -rss_limit_mb=512 -malloc_limit_mb=64 -print_final_stats=1 $([ -f "$dictionary" ] && echo "-dict=$dictionary") >"$log" 2>&1 || status=$?
    inputs=$((inputs + $(statistic number_of_executed_units)))
    peak=$(statistic peak_rss_mb)
    rss=$((peak > rss ? peak : rss))
    if [ $status -eq 0 ] || ! stood_still; then break; fi
    status=0
    if [ $inputs -ge "$runs" ] || [ $((SECONDS - begin)) -ge "$seconds" ]; then break; fi
  done
  row=$(printf '%-18s %10d %8d %8d  %s' "$reader" "$inputs" $((inputs / (SECONDS - begin + 1))) "$rss" \
    "$([ $status -eq 0 ] && echo clean || echo "FAILED, see $log and $failures")")
  echo "$row"
  table+=$row$'\n'
  [ $status -eq 0 ] || failed=1
done
printf '\n%-18s %10s %8s %8s  %s\n%s' reader inputs per_s rss_MiB result "$table"
exit $failed

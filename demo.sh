#!/usr/bin/env bash
# Snug's main job on real input, for a newcomer who watches: a BERT-mini learns to sort WordNet's 117,000 glosses into 45
# categories, from scratch, in half of the memory that ordinary training of the same batch needs.
#   ./demo.sh          about ten minutes on two cores: what it costs, a refusal and the way out, training, a kill and a
#                      resume to the same bits
#   ./demo.sh --full   trains all three epochs (a quarter of an hour more) to the accuracy of docs/results.md
set -euo pipefail
cd "$(dirname "$0")"
full=0
for argument in "$@"; do
  case "$argument" in
    --full) full=1 ;;
    *) echo "usage: ./demo.sh [--full]" >&2; exit 1 ;;
  esac
done
updates=130     # of the short demo: two trainings of two minutes each
snug=build/release/snug
demo=build/demo
say() { printf '\n\033[1m== %s\033[0m\n' "$*"; }

# One line that counts up on a terminal, a line every ten seconds elsewhere; what the compiler has to say comes through as it is.
build_snug() {
  export NINJA_STATUS="[%f of %t, %e s] "
  local command=(cmake --build build/release -j "$(nproc)" --target snug_cli)
  if [ -t 1 ]; then
    "${command[@]}"
    return
  fi
  "${command[@]}" | {
    local line next=0 last=""
    while IFS= read -r line; do
      if [[ $line != \[* ]]; then
        echo "$line"
        continue
      fi
      last=${line%%]*}]
      if ((SECONDS >= next)); then
        echo "$last"
        next=$((SECONDS + 10))
      fi
    done
    echo "$last"
  }
}

tools/install_packages.sh
say "building Snug (the first time takes a few minutes)"
cmake --preset ci -DSNUG_BUILD_TESTS=OFF -DSNUG_BUILD_BENCHMARKS=OFF >/dev/null
build_snug
mkdir -p "$demo"
python3 examples/wordnet/make_dataset.py --output "$demo"
rm -rf "$demo/run" "$demo/killed"

config=(-c examples/wordnet/run.yaml)
number() { python3 -c "import json, sys; print(json.load(sys.stdin)['$1'])"; }
say "1. What would it cost? (snug plan)"
plan=$("$snug" plan "${config[@]}" --memory 64GiB --json)
keep_all=$(number keep_all_peak_bytes <<<"$plan")
smallest=$(number smallest_budget_bytes <<<"$plan")
budget=$((keep_all / 2 / 4096 * 4096))
echo "Keeping everything, this run needs $((keep_all >> 20)) MiB. It gets half: $((budget >> 20)) MiB."
"$snug" plan "${config[@]}" --memory "$budget"

say "2. Too little is refused before anything is done, with ways to fit that were planned"
little=$((smallest * 19 / 20))
echo "\$ snug train --memory $little"
"$snug" train "${config[@]}" --memory "$little" 2>&1 | tee "$demo/refusal.txt" || true
python3 examples/wordnet/apply_hint.py "$demo/refusal.txt" "$snug" plan "${config[@]}" --memory "$little"

if [ "$full" -eq 1 ]; then
  say "3. Training all epochs in $((budget >> 20)) MiB"
  "$snug" train "${config[@]}" --memory "$budget"
  python3 examples/wordnet/report.py "$demo/run"
  exit 0
fi

short=(--max_steps "$updates" --save_steps 40 --logging_steps 10 --eval_steps "$updates" --learning_rate 0.001)
say "3. Training $updates updates in $((budget >> 20)) MiB (./demo.sh --full trains all epochs)"
"$snug" train "${config[@]}" "${short[@]}" --memory "$budget"
python3 examples/wordnet/report.py "$demo/run"

say "4. The same run again: killed in the middle (kill -9), then resumed in less memory"
"$snug" train "${config[@]}" "${short[@]}" --output_dir "$demo/killed" --memory "$budget" >"$demo/killed.txt" &
run=$!
until [ -e "$demo/killed/last/trainer_state.json" ] || ! kill -0 "$run" 2>/dev/null; do sleep 0.2; done
sleep 3
kill -9 "$run"
wait "$run" 2>/dev/null || true
less=$((budget / 2 / 4096 * 4096))
printf '\nkilled; now with --resume in %s MiB\n' "$((less >> 20))"
"$snug" train "${config[@]}" "${short[@]}" --output_dir "$demo/killed" --memory "$less" --resume
printf '\nweights of the run that was left alone   '; number weights_sha256 <"$demo/run/summary.json"
printf 'weights of the run that was killed       '; number weights_sha256 <"$demo/killed/summary.json"
cmp "$demo/run/last/model.safetensors" "$demo/killed/last/model.safetensors" && echo "the same to the last bit"

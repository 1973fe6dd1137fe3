#!/usr/bin/env bash
# Snug's main job on real input: a BERT-mini learns to sort WordNet's 117,000 glosses into 45 categories, from scratch,
# in half of the memory that ordinary training of the same batch needs. Two cores, about a quarter of an hour.
set -euo pipefail
cd "$(dirname "$0")"
tools/install_packages.sh
echo "building Snug (the first time takes a few minutes) ..."
cmake --preset release -DSNUG_BUILD_TESTS=OFF -DSNUG_BUILD_BENCHMARKS=OFF >/dev/null
cmake --build build/release -j "$(nproc)" --target snug_cli | tail -n 1
snug=build/release/snug
run=build/demo/run
mkdir -p build/demo
python3 examples/wordnet/make_dataset.py --output build/demo
rm -rf "$run"

config=(-c examples/wordnet/run.yaml)
keep_all=$("$snug" plan "${config[@]}" --memory 64GiB --json |
  python3 -c 'import json,sys; print(json.load(sys.stdin)["keep_all_peak_bytes"])')
budget=$((keep_all / 2 / 4096 * 4096))
echo
echo "Keeping everything, this run needs $((keep_all >> 20)) MiB. It gets half: $((budget >> 20)) MiB."
echo
"$snug" train "${config[@]}" --memory "$budget"
python3 examples/wordnet/report.py "$run"

#!/usr/bin/env bash
# Installs the portable wheel in an empty Debian 12 (python3 and python3-pip, nothing else) and trains BERT-tiny there.
#   empty_root.sh [WHEEL]     without a wheel one is built
# Where it cannot run (no root, no mirror, no auditwheel) it says why and leaves a line in $SNUG_NOT_RUN.
set -euo pipefail
source=$(cd "$(dirname "$0")/../.." && pwd)
not_run() {
  echo "not run: $1"
  [ -z "${SNUG_NOT_RUN:-}" ] || echo "tests/python/empty_root.sh: $1" >>"$SNUG_NOT_RUN"
  exit 0
}
[ "$(id -u)" -eq 0 ] || not_run "only root can make a root of its own"
command -v debootstrap >/dev/null || not_run "debootstrap is not installed"
work=$(mktemp -d)
# Mounts are seen by the command alone that made them, and are gone with it.
trap 'rm -rf --one-file-system "$work"' EXIT
if [ $# -gt 0 ]; then
  mkdir "$work/wheels"
  cp "$1" "$work/wheels"
else
  command -v auditwheel >/dev/null && command -v patchelf >/dev/null || not_run "auditwheel and patchelf are not installed"
  "$source/tools/portable_wheel.sh" "$work/wheels"
fi
python3 -m pip download -q --no-deps -d "$work/wheels" "tqdm>=4" || not_run "tqdm cannot be fetched"
root="$work/root"
# This machine's own mirror, where it has one.
mirror=$(sed -ns 's/^URIs: *//p; s/^deb \(\[[^]]*\] \)\?\(http[^ ]*\).*/\2/p' /etc/apt/sources.list.d/* /etc/apt/sources.list 2>/dev/null | head -1 || true)
debootstrap --variant=minbase --include=python3,python3-pip bookworm "$root" ${mirror:+"$mirror"} >"$work/log" 2>&1 ||
  not_run "debootstrap fails: $(tail -1 "$work/log")"
mkdir "$root/work"
cp "$work"/wheels/*.whl "$root/work"
PYTHONPATH="$source/tests/e2e" python3 -c "
import common, pathlib
common.write_jsonl(pathlib.Path('$root/work/train.jsonl'), common.make_rows(200))"
cat >"$root/work/run.py" <<'PYTHON'
import pathlib
import subprocess

import snug

keys = dict(train_file="/work/train.jsonl", output_dir="/work/out", memory="300MiB", threads=2)
summary = snug.train(keys, model="bert-tiny", max_seq_length=32, vocab_size=400, train_batch_size=16, max_steps=100, learning_rate=1e-3)
assert summary["measured_peak_rss_bytes"] <= 300 << 20, summary
assert summary["measured_arena_bytes"] == summary["planned_arena_bytes"], summary
assert snug.evaluate(model="/work/out/best", test_file="/work/train.jsonl", memory="300MiB")["accuracy"] > 0.5
# The command comes with the wheel.
assert snug.version()["version"] in subprocess.run(["snug", "--version"], check=True, capture_output=True, text=True).stdout
(site,) = pathlib.Path(snug.__file__).parents[1].glob("snug-*.dist-info")
assert len(list(site.glob("licenses/bundled/*.txt"))) > 3, list(site.iterdir())
print("trained in an empty Debian:", summary["measured_peak_rss_bytes"], "bytes")
PYTHON
unshare --mount sh -euc '
  mount -t proc proc "$0/proc"
  mount -t sysfs sys "$0/sys" 2>/dev/null || true
  inside() { chroot "$root" env -i PATH=/usr/local/bin:/usr/bin:/bin HOME=/root "$@"; }
  root=$0
  inside python3 -m pip install -q --no-index --find-links /work --break-system-packages --root-user-action ignore snug
  inside python3 /work/run.py' "$root"

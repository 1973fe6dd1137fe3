#!/usr/bin/env python3
"""`snug solve remat` at its default on a folder of problem files, beside its `best` and beside another program of the same kind.

    python3 bench/joint_models.py graphs                     the joint graphs of PyTorch models (needs torch and transformers)
    remat_zoo.py PATH_TO_SNUG graphs [--best] [--against OTHER_SNUG] [--known known.json] [--shares 0.8 0.4] [--orders given free]

A row for each file, order and budget: user seconds of the default, what it costs above running every op once, and the same of the others, in percent;
then by how much of the whole cost the default is behind the cheapest of all. Every schedule of the default is replayed by `snug solve check`.
--known keeps what the long runs found, by the bytes of the file: such a run is done once, and the file grows with what is new. Last lines: what is
more than 0.5 % behind, what is slower than 1 s (up to 500 ops) or 3 s (up to 5,000). Exit code 1 where there is such a row.
"""
import argparse
import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SHARES = ("0.8", "0.6", "0.4", "0.3", "0.2", "0.15")
MARGIN = 0.005


def ask(snug, *words):
    """The report of a run, without its schedule, and its user seconds."""
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen([snug, "solve", *map(str, words), "--json"], stdout=out, stderr=subprocess.PIPE)
        error = process.stderr.read().decode()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        text = out.read()
    if not text.startswith("{"):
        sys.exit(f"{snug} {' '.join(map(str, words))}: {error}")
    report = json.loads(text)
    report.pop("schedule", None)
    return report, used.ru_utime


def checked(snug, file, order, share):
    with tempfile.TemporaryDirectory() as folder:
        schedule = pathlib.Path(folder, "schedule.json")
        report, seconds = ask(snug, "remat", file, "--budget", share, "--order", order, "--output", schedule)
        if report["fits"]:
            replay, _ = ask(snug, "check", file, schedule)
            assert replay["peak_bytes"] == report["peak_bytes"] <= report["budget_bytes"], (file, order, share)
            assert abs(replay["cost"] - report["cost"]) <= 1e-9 * report["cost"], (file, order, share)
    return report, seconds


class Known:
    """What long runs found: cost or null (does not fit), and user seconds."""

    def __init__(self, path):
        self.path = path
        self.runs = json.loads(path.read_text()) if path and path.exists() else {}

    def of(self, who, snug, words, file, order, share):
        key = f"{who} {file.stem} {hashlib.sha1(file.read_bytes()).hexdigest()[:10]} {order} {share}"
        if key not in self.runs and snug:
            report, seconds = ask(snug, "remat", file, "--budget", share, "--order", order, *words)
            self.runs[key] = dict(cost=report["cost"] if report["fits"] else None, peak=report["peak_bytes"], seconds=round(seconds, 1))
            if self.path:
                self.path.write_text(json.dumps(self.runs, indent=0, sort_keys=True) + "\n")
        return self.runs.get(key)


def percent(cost, base):
    return "   none" if cost is None else f"{100 * (cost / base - 1):7.2f}"


def row(arguments, known, file, order, share):
    """A line, and what is wrong with it."""
    ops = len(json.loads(file.read_text())["ops"])
    ours, seconds = checked(arguments.snug, file, order, share)
    others = [known.of("best", arguments.best and arguments.snug, ["--effort", "best"], file, order, share),
              known.of("before", arguments.against, [], file, order, share)]
    base, cost = ours["base_cost"], ours["cost"] if ours["fits"] else None
    found = [each["cost"] for each in others if each and each["cost"] is not None]
    least, wrong = min(found, default=cost), []
    if cost is None and found:
        wrong.append("not found")
    behind = cost / least - 1 if cost is not None else 0
    if behind > MARGIN:
        wrong.append(f"{100 * behind:.2f} % behind")
    if ops <= 5000 and seconds > (1 if ops <= 500 else 3):
        wrong.append(f"{seconds:.2f} s")
    cells = [percent(each["cost"], base) if each else "      -" for each in others]
    proof = "" if cost is not None else f"  peak {ours['peak_bytes'] / ours['keep_all_peak_bytes']:.3f}, bound " \
        f"{ours['lower_bound_peak_bytes'] / ours['keep_all_peak_bytes']:.3f}"
    print(f"{file.stem:24} {ops:5} {order:5} {share:>5} {seconds:6.2f} {percent(cost, base)} {' '.join(cells)} {100 * behind:7.2f} "
          f"{percent(ours['lower_bound_cost'], base)}{proof}{'  <-' if wrong else ''}", flush=True)
    return [f"{file.stem} {order} {share}: {', '.join(wrong)}"] if wrong else []


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("snug")
    parser.add_argument("paths", nargs="+", type=pathlib.Path, help="problem files, or folders of them")
    parser.add_argument("--shares", nargs="+", default=SHARES, help="of the peak of the listed order")
    parser.add_argument("--orders", nargs="+", default=["given", "free"])
    parser.add_argument("--best", action="store_true", help="also with --effort best")
    parser.add_argument("--against", help="another snug, at its own default")
    parser.add_argument("--known", type=pathlib.Path)
    arguments = parser.parse_args()
    files = [file for path in arguments.paths for file in (sorted(path.glob("*.json")) if path.is_dir() else [path])]
    known, wrong = Known(arguments.known), []
    print(f"{'graph':24} {'ops':>5} {'order':5} {'at':>5} {'user s':>6} {'default':>7} {'best':>7} {'other':>7} {'behind':>7} {'bound':>7}")
    for file in files:
        for order in arguments.orders:
            for share in arguments.shares:
                wrong += row(arguments, known, file, order, share)
    print("\n".join([f"{len(wrong)} rows miss a goal"] + wrong))
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())

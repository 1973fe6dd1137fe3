#!/usr/bin/env python3
"""Prints accuracy per category and "planned X, measured X" of a finished run."""
import json
import pathlib
import sys


def mib(count):
    return f"{count / 2**20:.1f} MiB"


def main():
    folder = pathlib.Path(sys.argv[1])
    summary = json.loads((folder / "summary.json").read_text())
    plan = json.loads((folder / "plan.json").read_text())
    metrics = summary["final_metrics"]
    print("\naccuracy per category (held-out glosses)")
    for score in sorted(metrics["classes"], key=lambda s: -s["rows"]):
        if score["rows"]:
            bar = "█" * round(30 * score["recall"])
            print(f"  {score['label']:<22} {score['rows']:>5} rows  {100 * score['recall']:5.1f} %  {bar}")
    print(f"\naccuracy {100 * metrics['accuracy']:.2f} %, macro F1 {metrics['macro_f1']:.3f}, {summary['seconds']:.0f} s")
    print(f"arena    planned {summary['planned_arena_bytes']} bytes, measured {summary['measured_arena_bytes']} bytes")
    print(f"process  planned {mib(summary['planned_peak_bytes'])}, measured {mib(summary['measured_peak_rss_bytes'])}, "
          f"budget {mib(plan['budget_bytes'])}, keep-all would need {mib(plan['keep_all_peak_bytes'])}")


if __name__ == "__main__":
    main()

"""`snug plan` as a function."""
import json
import subprocess
import time


def plan(snug, memory, **keys):
    """The plan at this budget, or None where nothing fits; and the wall seconds that it took."""
    words = [snug, "plan", "--json", "--memory", memory]
    for key, value in keys.items():
        words += [f"--{key}", value]
    begin = time.monotonic()
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True)
    if done.returncode not in (0, 2):
        raise RuntimeError(done.stderr)
    return json.loads(done.stdout) if done.returncode == 0 else None, time.monotonic() - begin


def least_at(snug, most, **keys):
    """The plan of the smallest budget, within half a percent, whose overhead is not above `most`."""
    whole, _ = plan(snug, "1TiB", **keys)
    low, high, best = whole["smallest_budget_bytes"], whole["keep_all_peak_bytes"], whole
    at, _ = plan(snug, low, **keys)
    if at["recompute_overhead"] <= most:
        return at
    fixed = whole["process_bytes"] + whole["resident_bytes"]
    while high - low > 0.005 * (high - fixed):
        middle = (low + high) // 2
        at, _ = plan(snug, middle, **keys)
        if at["recompute_overhead"] <= most:
            high, best = middle, at
        else:
            low = middle
    return best

#!/usr/bin/env python3
"""Random configurations, and the five promises on each: planned = measured, a plan changes no bit, more memory is never slower,
refusal in advance with hints that fit, nothing lost by a kill. No level of fusion raises a smallest budget, either. Every run is under a hard limit equal to its budget. A failure is
shrunk and printed as a command.

usage: random_configs.py [--seed N] [--count N] [--seconds S] [--only N] [--plan-seconds S] [--most-parameters N]
The program is the environment variable SNUG.
"""
import argparse
import contextlib
import json
import os
import pathlib
import random
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.path.insert(0, str(HERE.parent / "e2e"))

import common  # noqa: E402
import draw  # noqa: E402
from common import PAGE  # noqa: E402

PLENTY = "64GiB"
TIMEOUT = 300
RUN_TIMEOUT = 1200


class Broken(Exception):
    """A promise that does not hold, with the command that shows it."""

    def __init__(self, promise, detail, words):
        super().__init__(f"{promise}: {detail}")
        self.promise = promise
        self.command = "snug " + " ".join(shlex.quote(str(word)) for word in words)


class NotRun(Exception):
    """The configuration is none (a value that the model refuses, a loss that is not finite)."""


class NoGroups(Exception):
    pass


class Asker:
    """Stands in for a test: without control groups the runs go unlimited, which is said at the end."""

    def id(self):
        return "random configurations"

    def skipTest(self, reason):
        raise NoGroups(reason)

    fail = skipTest


class Harness:
    def __init__(self, options, folder, given):
        self.options, self.folder, self.plan_seconds, self.checks_hints = options, folder, given.plan_seconds, not given.without_hints
        self.unlimited = None  # why
        self.figures = {"runs": 0, "limited": 0, "hints": 0, "kills": 0}

    def words(self, verb, values):
        words = [verb]
        for key, value in values.items():
            words += [f"--{key}", str(value)]
        return words

    @contextlib.contextmanager
    def limit(self, budget):
        """A prefix of words for commands that run under the hard limit."""
        group = common.MemoryLimit(Asker(), budget)
        try:
            group.__enter__()
        except NoGroups as reason:
            self.unlimited = str(reason)
            yield ()
            return
        self.figures["limited"] += 1
        try:
            yield group.prefix
        finally:
            group.__exit__()

    def plan(self, values):
        words = self.words("plan", values) + ["--json"]
        done = common.run(*words, timeout=TIMEOUT)
        return done, words

    def planned(self, values):
        done, words = self.plan(values)
        if done.returncode != 0:
            raise Broken("a plan", f"exit {done.returncode}: {done.stderr[-600:]}", words)
        return json.loads(done.stdout)

    def train(self, values, name):
        """Trains under a hard limit equal to the budget; gives the digests of what it leaves."""
        out = self.folder / name
        shutil.rmtree(out, ignore_errors=True)
        return self.finish(values, out, [])

    def finish(self, values, out, more):
        words = self.words("train", dict(values, output_dir=out)) + more
        self.figures["runs"] += 1
        with self.limit(int(values["memory"])) as prefix:
            done = common.run(*words, prefix=prefix, timeout=RUN_TIMEOUT)
        if done.returncode == 3:
            raise NotRun("a loss that is not finite")
        if done.returncode != 0:
            raise Broken("a run within its budget", f"exit {done.returncode}: {done.stderr[-600:]}", words)
        plan, summary = (json.loads((out / f"{name}.json").read_text()) for name in ("plan", "summary"))
        if summary["measured_arena_bytes"] != summary["planned_arena_bytes"]:
            raise Broken("planned = measured", f"arena planned {summary['planned_arena_bytes']}, measured {summary['measured_arena_bytes']}",
                         words)
        # A run that had ended before it was resumed keeps the summary of the budget in which it trained.
        if not more and plan["arena_bytes"] != summary["planned_arena_bytes"]:
            raise Broken("planned = measured", f"plan.json says {plan['arena_bytes']}, the summary {summary['planned_arena_bytes']}", words)
        if not more and summary["planned_peak_bytes"] > int(values["memory"]):
            raise Broken("planned = measured", f"a planned peak of {summary['planned_peak_bytes']} bytes in a budget of {values['memory']}",
                         words)
        if not common.IS_SANITIZED and summary["measured_peak_rss_bytes"] > summary["planned_peak_bytes"]:
            raise Broken("planned = measured", f"resident set of {summary['measured_peak_rss_bytes']} bytes, planned "
                         f"{summary['planned_peak_bytes']}", words)
        weights = next(name for name in ("model", "adapter_model") if (out / "last" / f"{name}.safetensors").exists())
        return tuple(common.sha256(out / "last" / f"{part}.safetensors") for part in (weights, "optimizer"))

    def kill(self, values, out, seconds):
        words = self.words("train", dict(values, output_dir=out))
        with self.limit(int(values["memory"])) as prefix:
            process = subprocess.Popen([*prefix, common.SNUG, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=seconds)
            self.figures["kills"] += process.poll() is None
            process.kill()
            process.wait()

    def hints(self, text):
        """Words of each line of a refusal that begins with an option."""
        for line in text.splitlines():
            if not re.match(r"\s+--[a-z_]+", line):
                continue
            with contextlib.suppress(ValueError):  # an apostrophe in the prose behind the words
                line = " ".join(shlex.quote(word) for word in shlex.split(line))
            tokens, words = shlex.split(line.replace("(", " (")), []
            while tokens and tokens[0].startswith("--"):
                key = tokens.pop(0).rstrip(",:;")
                words.append(key)
                option = self.options.get(key[2:])
                if option and tokens and (not option["is_switch"] or tokens[0] in ("true", "false", "auto")):
                    words.append(tokens.pop(0).rstrip(",:;"))
            yield words


def write_data(case, folder):
    text, data = case["text"], case["data"]
    paths = {}
    for key, count, seed in (("train_file", data["rows"], data["seed"]), ("validation_file", 24, data["seed"] + 1)):
        if key == "validation_file" and not data["validation"]:
            continue
        if text is None:
            paths[key] = folder / f"{key}.bin"
            common.write_images(paths[key], max(24, count // 2), seed)
            continue
        paths[key] = folder / (key + data["suffix"])
        rows = common.make_rows(count, seed=seed, longest=data["longest"])
        for i, row in enumerate(rows):
            row["label"] = f"class {(i + len(row['text'])) % data['labels'] if i >= data['labels'] else i}"
        if data["suffix"] == ".jsonl":
            common.write_jsonl(paths[key], rows)
        else:
            separator = "," if data["suffix"] == ".csv" else "\t"
            lines = [separator.join(("text", "label"))] + [separator.join((row["text"], row["label"])) for row in rows]
            paths[key].write_text("\n".join(lines) + "\n")
    return paths


def settle(harness, case, folder):
    """The values of the case with its data; keys that do not belong to the model are dropped."""
    for _ in range(30):
        values = dict(case["values"], **(case["text"] or {}), cache_dir=folder, memory=PLENTY, **write_data(case, folder))
        begin = time.monotonic()
        with contextlib.suppress(subprocess.TimeoutExpired):
            done, _ = harness.plan(values)
        if time.monotonic() - begin > harness.plan_seconds:
            raise NotRun(f"{values['model']} takes too long to plan for a test: {values}")
        if done.returncode == 0:
            return values
        if done.returncode != 1:
            raise Broken("a plan", f"exit {done.returncode}: {done.stderr[-600:]}", harness.words("plan", values))
        if case["text"] is not None and "reads images" in done.stderr:
            case["text"] = None
            continue
        wished = [(key, value) for key, value in re.findall(r"set ([a-z_]+) to (\d+)", done.stderr) if key not in draw.OWN]
        if wished and str(values.get(wished[0][0])) != wished[0][1]:
            case["values"].update(wished[:1])
            continue
        named = [key for key in re.findall(r"\[([a-z_]+)\]", done.stderr) + re.findall(r"\b([a-z]+_[a-z_]+)\b", done.stderr)
                 if key in case["values"] and key != "model"]
        drawn = named or [key for key in case["values"] if key not in draw.OWN and key != "seed"]
        if not drawn:
            raise NotRun(done.stderr.strip()[-300:])
        del case["values"][drawn[0]]
    raise NotRun("no configuration was left")


def with_base(harness, case, values):
    """The case on trained weights: adapters and what is stored in fewer bits belong to some. What describes a model is in its folder then."""
    base = harness.folder / "base"
    if values["model"] == str(base / "last"):
        return
    shutil.rmtree(base, ignore_errors=True)
    kept = ("model", "train_file", "max_seq_length", "vocab_size", "num_labels", "label_column", "cache_dir", "memory", "seed", "threads")
    words = harness.words("train", dict({key: values[key] for key in kept if key in values}, max_steps=1, output_dir=base))
    done = common.run(*words, timeout=RUN_TIMEOUT)
    if done.returncode != 0:
        raise NotRun(f"no base for adapters: {done.stderr[-300:]}")
    case["values"]["model"] = str(base / "last")
    if case["text"] is not None:
        case["text"].pop("vocab_size", None)


def check(harness, case):
    """Raises Broken with the promise that does not hold."""
    folder = harness.folder / "data"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    values = settle(harness, case, folder)
    if "lora" in values or values.get("frozen_dtype", "float32") != "float32":
        with_base(harness, case, values)
        values = settle(harness, case, folder)
    generator = random.Random(case["moment"])
    whole = harness.planned(values)
    low, high = whole["smallest_budget_bytes"], max(whole["keep_all_peak_bytes"], whole["smallest_budget_bytes"])
    budgets = sorted({low, high} | {generator.randint(low // PAGE, high // PAGE) * PAGE for _ in range(2)})
    plans = [harness.planned(dict(values, memory=budget)) for budget in budgets]
    for smaller, larger, budget in zip(plans, plans[1:], budgets[1:]):
        if larger["step_seconds"] > smaller["step_seconds"]:
            raise Broken("more memory is never slower", f"{smaller['step_seconds']} s, then {larger['step_seconds']} s",
                         harness.words("plan", dict(values, memory=budget)))
    check_refusal(harness, dict(values, memory=low - PAGE), low)
    check_levels(harness, values, whole)
    wanted = harness.train(dict(values, memory=low), "smallest")
    fixed = dict(values, micro_batch_size=plans[0]["micro_batch"])
    strategy = generator.choice(draw.strategies(harness.options["recompute"], generator))
    for other in (dict(fixed, memory=budgets[-1]), named(harness, dict(fixed, recompute=strategy))):
        if other is not None and harness.train(other, "other") != wanted:
            raise Broken("a plan never changes the result", f"other bits than at {low} bytes",
                         harness.words("train", other))
    check_kill(harness, fixed, wanted, generator, budgets)


def check_levels(harness, values, drawn):
    """No smallest budget rises where more ops may join row programs, but by the bytes of the rules themselves."""
    rest = {key: value for key, value in values.items() if key not in ("fusion", "fusion_overrides")}
    plans = [harness.planned(dict(rest, fusion="off")), drawn, harness.planned(dict(rest, fusion="full"))]
    for less, more in zip(plans, plans[1:]):
        of_rules = max(0, more["process_bytes"] - less["process_bytes"]) + (PAGE if "fusion_overrides" in values else 0)
        if more["smallest_budget_bytes"] > less["smallest_budget_bytes"] + of_rules:
            raise Broken("no level raises a smallest budget",
                         f"{[plan['smallest_budget_bytes'] for plan in plans]} without, as drawn and with all", harness.words("plan", values))


def named(harness, values):
    """At the smallest budget of a named strategy; None where the model does not take it."""
    done, words = harness.plan(values)
    if done.returncode == 1:
        return None
    if done.returncode != 0:
        raise Broken("a plan", f"exit {done.returncode}: {done.stderr[-600:]}", words)
    return dict(values, memory=json.loads(done.stdout)["smallest_budget_bytes"])


def check_refusal(harness, values, smallest):
    done, words = harness.plan(values)
    if done.returncode != 2 or str(smallest) not in done.stderr:
        raise Broken("a page less is refused", f"exit {done.returncode}: {done.stderr[-600:]}", words)
    for hint in harness.hints(done.stderr) if harness.checks_hints else ():
        harness.figures["hints"] += 1
        tried = common.run(*words, *hint, timeout=TIMEOUT)
        if tried.returncode != 0:
            raise Broken("every hint fits", f"{' '.join(hint)}: exit {tried.returncode}: {tried.stderr[-300:]}", [*words, *hint])


def check_kill(harness, values, wanted, generator, budgets):
    least = named(harness, values)
    begin = time.monotonic()
    out = harness.folder / "killed"
    first = dict(values, memory=generator.choice([budget for budget in budgets if budget >= int(least["memory"])] or [least["memory"]]))
    harness.train(first, "timed")
    seconds = time.monotonic() - begin
    for _ in range(2):
        shutil.rmtree(out, ignore_errors=True)
        harness.kill(first, out, generator.uniform(0, seconds))
        if harness.finish(least, out, ["--resume"]) != wanted:
            raise Broken("nothing is lost", "other bits after a kill and a resume", harness.words("train", least))


def smaller_cases(case):
    """Cases with one thing less, or half as large."""
    for key in case["values"]:
        if key not in ("model", "train_batch_size", "max_steps"):
            yield dict(case, values={name: value for name, value in case["values"].items() if name != key})
    for part in ("values", "text", "data"):
        for key, value in (case[part] or {}).items():
            if isinstance(value, bool) or not str(value).isdigit() or key in ("seed", "vocab_size") or int(value) < 2:
                continue
            half = int(value) // 2
            yield dict(case, **{part: dict(case[part], **{key: half if part == "data" else str(half)})})


def shrink(harness, case, broken, seconds):
    """The smallest case found within the time that breaks the same promise."""
    end = time.monotonic() + seconds
    again = True
    while again:
        again = False
        for smaller in smaller_cases(case):
            if time.monotonic() > end:
                return case, broken
            try:
                check(harness, json.loads(json.dumps(smaller)))
            except Broken as other:
                if other.promise == broken.promise:
                    case, broken, again = smaller, other, True
                    break
            except (NotRun, subprocess.TimeoutExpired):
                pass
    return case, broken


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=10**9, help="configurations to check")
    parser.add_argument("--seconds", type=float, default=10**9, help="no new one is begun after that time")
    parser.add_argument("--only", type=int, help="the number of one configuration")
    parser.add_argument("--plan-seconds", type=float, default=10, help="a configuration that takes longer to plan is not checked")
    parser.add_argument("--most-parameters", type=int, default=draw.MOST_PARAMETERS, help="larger models are not drawn")
    parser.add_argument("--without-hints", action="store_true", help="leaves out what a refusal suggests")
    parser.add_argument("--shrink-seconds", type=float, default=300)
    given = parser.parse_args()
    options = draw.read_options()
    models = draw.small_models(options, given.most_parameters)
    begin, checked, refused, failures = time.monotonic(), 0, 0, 0
    with tempfile.TemporaryDirectory(prefix="snug-random-") as folder:
        harness = Harness(options, pathlib.Path(folder), given)
        number = -1 if given.only is None else given.only - 1
        while checked < given.count and time.monotonic() - begin < given.seconds:
            number += 1
            if given.only is not None and number > given.only:
                break
            generator = random.Random(f"{given.seed} {number}")
            values, text, data = draw.draw(options, models, generator)
            case = {"values": values, "text": text, "data": data, "moment": generator.randrange(10**9)}
            try:
                check(harness, case)
                checked += 1
            except (NotRun, subprocess.TimeoutExpired) as reason:
                refused += 1
                print(f"  {number}: not a run: {reason}", flush=True)
            except Broken as broken:
                checked += 1
                failures += 1
                print(f"FAILED {number}: {broken}\n  {broken.command}", flush=True)
                case, broken = shrink(harness, case, broken, given.shrink_seconds)
                print(f"  smallest: {broken}\n  {broken.command}\n  data: {case['data']}", flush=True)
    figures = ", ".join(f"{value} {key}" for key, value in harness.figures.items())
    print(f"{checked} configurations (seed {given.seed}), {failures} broken, {refused} drawn in vain; {figures}; "
          f"{time.monotonic() - begin:.0f} s")
    if harness.unlimited:
        print(f"without hard limits: {harness.unlimited}")
    sys.exit(1 if failures or checked == 0 else 0)


if __name__ == "__main__":
    main()

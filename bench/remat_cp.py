#!/usr/bin/env python3
"""`snug solve remat --order given` beside constraint programming (CP-SAT) on the same problem and order.

    pip install ortools
    remat_cp.py PATH_TO_SNUG FILE.json... [--budgets 0.9 0.8 0.6 0.5] [--seconds 120] [--runs 2] [--workers 2] [--effort default]

The model is that of retention intervals: besides its first run, fixed in the listed order, an op has up to `--runs` - 1
further ones, each in a stage (the time up to the first run of an op), there in the listed order. Every run starts an
interval for each output that ends with its last reader; all intervals, outputs and scratch of the running op pass one
cumulative resource. CP-SAT starts from our schedule (an op that runs more often there may do so here as well), so it
always has one; its answer is replayed by `snug solve check`. Columns: overhead of ours, of CP-SAT's best schedule and of
its proved bound, by how much of the whole cost CP-SAT is better, and the gap that is left to its proof.
`reuses` is not modelled.
"""
import argparse
import collections
import json
import math
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

from ortools.sat.python import cp_model


def load(path):
    problem = json.loads(pathlib.Path(path).read_text(encoding="utf-8"))
    assert not any(op.get("reuses") for op in problem["ops"]), "reuses is not modelled"
    size = {s["id"]: int(s["bytes"]) for s in problem["storages"]}
    ops = []
    for op in problem["ops"]:
        arena = lambda key: [s for s in dict.fromkeys(op[key]) if s in size]
        ops.append({"id": op["id"], "cost": float(op["cost"]), "inputs": arena("inputs"), "outputs": arena("outputs"),
                    "scratch": int(op.get("scratch_bytes", 0)), "again": op.get("recompute", op.get("phase", "forward") == "forward"),
                    "last": len(problem["ops"])})
    # Behind the next writer of a resident storage its readers may not run again.
    for t, op in enumerate(problem["ops"]):
        written = [s for s in op["outputs"] if s not in size]
        if written:
            ops[t]["again"] = False
            for reader in range(t):
                if set(problem["ops"][reader]["inputs"]) & set(written):
                    ops[reader]["last"] = min(ops[reader]["last"], t)
    return size, ops, [s for s in problem.get("keep", []) if s in size]


def stages_of(ops, schedule):
    """For every op the stages of its runs: a stage ends with the first run of its op."""
    number = {op["id"]: i for i, op in enumerate(ops)}
    stages, stage = collections.defaultdict(list), 0
    for name in schedule:
        op = number[name]
        stages[op].append(stage)
        stage += op == stage
    return stages


class Model:
    def __init__(self, size, ops, keep, budget, runs, ours, smallest_peak=False):
        self.ops, self.n = ops, len(ops)
        self.model = cp_model.CpModel()
        self.ours = ours
        self.maker = {s: i for i, op in enumerate(ops) for s in op["outputs"]}
        self.runs_of, self.last_read = [], collections.defaultdict(int)
        unit = math.gcd(budget, *(b for b in size.values()), *(op["scratch"] for op in ops))
        self.moment_end = self.n * (self.n + 1) + self.n
        read = {s for op in ops for s in op["inputs"]} | set(keep)
        self.active, self.stage, self.start, self.ends = {}, {}, {}, {}
        intervals, demands = [], []
        model = self.model
        for v, op in enumerate(ops):
            again = op["again"] and op["last"] > v and any(s in read for s in op["outputs"])
            self.runs_of.append(range(max(runs, len(ours[v])) if again else 1))
            for r in self.runs_of[v]:
                self.add_run(v, r)
                for s in op["outputs"]:
                    self.ends[s, r] = model.new_int_var(0, self.moment_end, "")
                    length = model.new_int_var(1, self.moment_end + 1, "")
                    intervals.append(model.new_optional_interval_var(self.start[v, r], length, self.ends[s, r] + 1,
                                                                     self.active[v, r], ""))
                    demands.append(size[s] // unit)
                    if r > 0:
                        model.add(self.start[v, r] > self.ends[s, r - 1]).only_enforce_if(self.active[v, r])
                if op["scratch"]:
                    intervals.append(model.new_optional_fixed_size_interval_var(self.start[v, r], 1, self.active[v, r], ""))
                    demands.append(op["scratch"] // unit)
        for (v, r), active in list(self.active.items()):
            for s in ops[v]["inputs"]:
                self.read(s, self.start[v, r], active, self.hint_moment(v, r))
        for s in keep:
            self.read(s, self.moment_end, True, self.moment_end)
        if smallest_peak:
            self.scale, peak = 1 / unit, model.new_int_var(0, budget // unit, "")
            model.add_hint(peak, budget // unit)
            model.add_cumulative(intervals, demands, peak)
            model.minimize(peak)
            self.hint_ends()
            return
        model.add_cumulative(intervals, demands, budget // unit)
        self.scale = 1e9 / sum(op["cost"] for op in ops) if any(op["cost"] for op in ops) else 1
        model.minimize(sum(round(ops[v]["cost"] * self.scale) * a for (v, r), a in self.active.items()))
        self.hint_ends()

    def hint_moment(self, v, r):
        return (self.n + 1) * self.ours[v][r] + v if r < len(self.ours[v]) else None

    def add_run(self, v, r):
        model = self.model
        if r == 0:
            self.active[v, 0], self.stage[v, 0] = True, v
        else:
            active, stage = model.new_bool_var(""), model.new_int_var(v + 1, self.ops[v]["last"], "")
            self.active[v, r], self.stage[v, r] = active, stage
            is_ours = r < len(self.ours[v])
            model.add_hint(active, is_ours)
            model.add_hint(stage, self.ours[v][r] if is_ours else self.ops[v]["last"])
            model.add(stage == self.ops[v]["last"]).only_enforce_if(active.Not())
            if r > 1:
                model.add_implication(active, self.active[v, r - 1])
        self.start[v, r] = (self.n + 1) * self.stage[v, r] + v

    def read(self, s, moment, active, hint):
        """A run at `moment` reads s: an interval of s begins before it and does not end before."""
        v, choices = self.maker[s], []
        runs = self.runs_of[v]
        made = [self.hint_moment(v, r) for r in runs]
        from_run = max((r for r in runs if made[r] is not None and hint is not None and made[r] < hint), default=None)
        for r in runs:
            if len(runs) == 1:
                chosen = active
            else:
                chosen = self.model.new_bool_var("")
                self.model.add_hint(chosen, r == from_run)
                choices.append(chosen)
            enforce = [] if chosen is True else [chosen]
            if r > 0:
                self.model.add_implication(chosen, self.active[v, r])
            self.model.add(self.start[v, r] < moment).only_enforce_if(enforce)
            self.model.add(self.ends[s, r] >= moment).only_enforce_if(enforce)
            if r == from_run:
                self.last_read[s, r] = max(self.last_read[s, r], hint)
        if choices:
            self.model.add(sum(choices) == active)

    def hint_ends(self):
        for (s, r), end in self.ends.items():
            made = self.hint_moment(self.maker[s], r)
            self.model.add_hint(end, max(made if made is not None else 0, self.last_read.get((s, r), 0)))

    def solve(self, seconds, workers):
        solver = cp_model.CpSolver()
        solver.parameters.max_time_in_seconds = seconds
        solver.parameters.num_workers = workers
        solver.parameters.interleave_search = workers < 8  # every kind of search, large neighbourhoods too
        status = solver.solve(self.model)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return None, None, solver.best_objective_bound / self.scale
        moments = sorted((solver.value(self.start[key]) if key[1] else (self.n + 1) * key[0] + key[0], key[0])
                         for key, active in self.active.items() if active is True or solver.value(active))
        schedule = [self.ops[v]["id"] for _, v in moments]
        return schedule, solver.objective_value / self.scale, solver.best_objective_bound / self.scale


def ask(snug, *words):
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    done = subprocess.run([snug, "solve", *words], capture_output=True, text=True)
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    return (json.loads(done.stdout) if done.stdout.startswith("{") else {"error": done.stdout + done.stderr}), seconds


def compare(arguments, path, budget_text, folder):
    ours, seconds = ask(arguments.snug, "remat", path, "--budget", budget_text, "--order", "given", "--effort", arguments.effort, "--json")
    size, ops, keep = load(path)
    base = sum(op["cost"] for op in ops)
    percent = lambda cost: (cost / base - 1) * 100 if base else 0
    budget = ours["budget_bytes"]
    begin = time.monotonic()
    model = Model(size, ops, keep, budget, arguments.runs, stages_of(ops, ours["schedule"]))
    schedule, cost, bound = model.solve(arguments.seconds, arguments.workers)
    if schedule is None and not ours["fits"]:
        return f"{budget_text:>7} {seconds:7.1f}  refused by both: smallest peak {ours['peak_bytes'] / ours['keep_all_peak_bytes']:.4f} of the " \
               f"listed order's, bound {ours['lower_bound_peak_bytes'] / ours['keep_all_peak_bytes']:.4f}"
    if schedule is None:
        return f"{budget_text:>7} {seconds:7.1f} {percent(ours['cost']):8.2f}  no answer of CP-SAT"
    pathlib.Path(folder, "schedule.json").write_text(json.dumps(schedule), encoding="utf-8")
    checked, _ = ask(arguments.snug, "check", path, str(pathlib.Path(folder, "schedule.json")), "--json")
    assert checked.get("peak_bytes", budget + 1) <= budget, checked
    if not ours["fits"]:
        return f"{budget_text:>7} {seconds:7.1f}  refused, but CP-SAT has {percent(checked['cost']):.2f}"
    cost, bound = checked["cost"], max(bound, base, ours["lower_bound_cost"])
    return f"{budget_text:>7} {seconds:7.1f} {percent(ours['cost']):8.2f} {percent(cost):8.2f} {percent(bound):8.2f} " \
           f"{(ours['cost'] / cost - 1) * 100:8.2f} {(ours['cost'] / bound - 1) * 100:8.2f}  {time.monotonic() - begin:6.0f}"


def compare_peaks(arguments, path, folder):
    """Our smallest peak, that of a budget nobody can meet, beside the smallest CP-SAT finds from there."""
    ours, seconds = ask(arguments.snug, "remat", path, "--budget", "1", "--order", "given", "--json")
    size, ops, keep = load(path)
    model = Model(size, ops, keep, ours["peak_bytes"], arguments.runs, stages_of(ops, ours["schedule"]), smallest_peak=True)
    schedule, peak, bound = model.solve(arguments.seconds, arguments.workers)
    share = lambda value: f"{(value or 0) / ours['keep_all_peak_bytes']:.4f}"
    print(f"{path}: {len(ops)} ops, smallest peak: ours {share(ours['peak_bytes'])} in {seconds:.1f} s, CP-SAT {share(peak)}, bound of "
          f"CP-SAT {share(bound)}, ours {share(ours['lower_bound_peak_bytes'])}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("snug")
    parser.add_argument("files", nargs="+")
    parser.add_argument("--budgets", nargs="+", default=["0.9", "0.8", "0.6", "0.5"])
    parser.add_argument("--seconds", type=float, default=120, help="of CP-SAT for each budget")
    parser.add_argument("--runs", type=int, default=2, help="of an op at most, where our schedule has no more")
    parser.add_argument("--smallest-peak", action="store_true", help="compare peaks instead of costs")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--effort", default="default", help="of ours")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for path in arguments.files:
            if arguments.smallest_peak:
                compare_peaks(arguments, path, folder)
                continue
            print(f"{path}: {len(load(path)[1])} ops\n budget  user s   ours %     CP %  bound %   CP better   to proof   CP s")
            for budget in arguments.budgets:
                print(compare(arguments, path, budget, folder), flush=True)


if __name__ == "__main__":
    sys.exit(main())

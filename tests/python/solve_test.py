"""The planner alone: problems as dicts, ranges as arrays of any kind, pictures."""
import array
import csv
import json
import os
import pathlib
import random
import signal
import tempfile
import threading
import time
import unittest

import common
import snug

try:
    import numpy
except ImportError:
    numpy = None

PROBLEM = {"storages": [{"id": name, "bytes": 100} for name in "abcd"],
           "ops": [{"id": "f", "cost": 1, "inputs": [], "outputs": ["a"]}, {"id": "g", "cost": 2, "inputs": ["a"], "outputs": ["b"]},
                   {"id": "h", "cost": 1, "inputs": ["b"], "outputs": ["c"], "scratch_bytes": 40}, {"id": "k", "cost": 1, "inputs": ["c", "a"], "outputs": ["d"]}]}


def random_ranges(count, seed=1):
    generator = random.Random(seed)
    lower = [generator.randrange(10 * count) for _ in range(count)]
    return dict(lower=lower, upper=[begin + generator.randint(1, 40) for begin in lower], size=[64 * generator.randint(1, 50) for _ in range(count)])


def overlaps(ranges, offsets):
    rows = sorted(zip(ranges["lower"], ranges["upper"], ranges["size"], offsets))
    live = []
    for lower, upper, size, offset in rows:
        live = [each for each in live if each[0] > lower]
        if any(offset < other + more and other < offset + size for _, other, more in live):
            return True
        live.append((upper, offset, size))
    return False


class Solve(unittest.TestCase):
    def setUp(self):
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.folder = pathlib.Path(kept.name)

    def test_schedules(self):
        report = snug.solve.remat(PROBLEM, memory=1.0)
        self.assertEqual(report["schedule"], ["f", "g", "h", "k"])
        checked = [snug.solve.check(PROBLEM, schedule) for schedule in (report, report["schedule"], tuple(report["schedule"]))]
        for each in checked:
            self.assertEqual(each, checked[0])
            self.assertEqual(each["peak_bytes"], report["peak_bytes"])
        # a; a b; a b c and scratch; a c d.
        self.assertEqual(checked[0]["step_bytes"], [100, 200, 340, 300])
        self.assertGreater(len(snug.solve.curve(PROBLEM)["points"]), 0)
        file = self.folder / "problem.json"
        file.write_text(json.dumps(PROBLEM))
        self.assertEqual(snug.solve.remat(file, memory="340")["schedule"], report["schedule"])

    def test_what_is_wrong_of_a_dict_names_no_file(self):
        for of_schedule, call in ((False, lambda: snug.solve.remat({**PROBLEM, "colour": 1}, memory=1.0)), (True, lambda: snug.solve.check(PROBLEM, {"schedule": 3}))):
            with self.assertRaises(snug.Error) as caught:
                call()
            self.assertIn("schedule" if of_schedule else "problem", str(caught.exception))
            self.assertNotIn(".json", str(caught.exception) + caught.exception.where + caught.exception.message)

    def test_bytes_at_every_step_have_the_peak(self):
        problem = dict(PROBLEM, boundary=dict(forward_outputs=["b"], forward_base_bytes=7, backward_base_bytes=5, between_bytes=0),
                       ops=[dict(op, phase="backward") if op["id"] in "hk" else op for op in PROBLEM["ops"]])
        report = snug.solve.check(problem, ["f", "g", "h", "k"])
        self.assertEqual(report["step_bytes"], [107, 207, 345, 305])
        self.assertEqual(max(report["step_bytes"]), report["peak_bytes"])

    def test_ranges_of_every_kind_are_placed_alike(self):
        ranges = random_ranges(500)
        wanted = snug.solve.placement(ranges)
        self.assertIsInstance(wanted["offsets"], list)
        self.assertFalse(overlaps(ranges, wanted["offsets"]))
        self.assertEqual(wanted["height"], max(o + s for o, s in zip(wanted["offsets"], ranges["size"])))
        file = self.folder / "ranges.csv"
        with open(file, "w", newline="") as out:
            writer = csv.writer(out)
            writer.writerow(["id", *ranges])
            writer.writerows((i, *row) for i, row in enumerate(zip(*ranges.values())))
        self.assertEqual(snug.solve.placement(file)["offsets"], wanted["offsets"])
        for typecode in "qli":
            found = snug.solve.placement({name: array.array(typecode, column) for name, column in ranges.items()})
            self.assertIsInstance(found["offsets"], array.array)
            self.assertEqual(list(found["offsets"]), wanted["offsets"])
        found = snug.solve.placement({name: memoryview(array.array("q", column)) for name, column in ranges.items()})
        self.assertEqual(list(found["offsets"]), wanted["offsets"])
        empty = snug.solve.placement(dict(lower=[], upper=[], size=[]))
        self.assertEqual((empty["offsets"], empty["height"]), ([], 0))

    def test_ranges_in_numpy(self):
        if numpy is None:
            common.not_run(self, "numpy is not installed")
        ranges = random_ranges(500)
        wanted = snug.solve.placement(ranges)["offsets"]
        for dtype in ("int64", "int32", "uint32", "uint64", ">i8"):
            arrays = {name: numpy.array(column, dtype=dtype) for name, column in ranges.items()}
            arrays["lower"].setflags(write=False)
            arrays["size"] = numpy.repeat(arrays["size"], 2)[::2]  # not contiguous
            found = snug.solve.placement(arrays)["offsets"]
            self.assertEqual((type(found), found.dtype), (numpy.ndarray, numpy.dtype("int64")))
            self.assertEqual(found.tolist(), wanted, dtype)
        self.assertTrue(snug.solve.check(PROBLEM, numpy.array(["f", "g", "h", "k"]))["valid"])

    def test_a_million_ranges(self):
        """Of a schedule as frameworks have: every range lives briefly."""
        count = 1_000_000
        lower = array.array("q", range(count))
        ranges = dict(lower=lower, upper=array.array("q", (i + 2 + i % 7 for i in range(count))), size=array.array("q", (64 * (1 + i * 7919 % 50) for i in range(count))))
        begin = time.monotonic()
        found = snug.solve.placement(ranges, max_nodes=0)
        self.assertLess(time.monotonic() - begin, 120)
        self.assertFalse(overlaps(ranges, found["offsets"]))
        self.assertGreaterEqual(found["height"], found["load"])

    def test_what_is_no_range_is_refused_by_its_row(self):
        for wrong, part in ((dict(lower=[0, 5], upper=[1, 5], size=[1, 1]), "item '1'"), (dict(lower=[0], upper=[1], size=[-1]), "negative"),
                            (dict(lower=[0], upper=[1, 2], size=[1]), "1, 2 and 1"), (dict(lower=[0], upper=[1]), "no column 'size'"),
                            (dict(lower=[0.5], upper=[1], size=[1]), "[lower]"), (dict(lower=[0], upper=[2 ** 63], size=[1]), "[upper]"),
                            (dict(lower=b"\0", upper=b"\1", size=b"\1"), "bytes"), ([1], "no column"), (None, "no column")):
            with self.assertRaises(snug.Error) as caught:
                snug.solve.placement(wrong)
            self.assertIn(part, str(caught.exception))

    def test_pictures(self):
        try:
            import matplotlib
        except ImportError:
            with self.assertRaisesRegex(ImportError, "pip install matplotlib"):
                snug.solve.plot_curve(snug.solve.curve(PROBLEM))
            common.not_run(self, "matplotlib is not installed")
        matplotlib.use("agg")
        axes = snug.solve.plot_memory(PROBLEM, ["f", "g", "h", "k"])
        (steps,) = axes.patches
        self.assertEqual(steps.get_data().values.tolist(), [100, 200, 340, 300])
        self.assertEqual(steps.get_data().edges.tolist(), [0, 1, 3, 4, 5])
        self.assertIs(snug.solve.plot_memory(PROBLEM, {"schedule": ["f", "g", "h", "k"]}, ax=axes), axes)
        with self.assertRaisesRegex(ValueError, "not valid"):
            snug.solve.plot_memory(PROBLEM, ["g", "f", "h", "k"])
        curve = snug.solve.curve(PROBLEM)
        axes = snug.solve.plot_curve(curve)
        self.assertEqual(axes.lines[0].get_xdata().tolist(), [point["peak_bytes"] for point in curve["points"]])
        ranges = random_ranges(20)
        axes = snug.solve.plot_placement(ranges, snug.solve.placement(ranges)["offsets"])
        self.assertEqual(len(axes.collections[0].get_paths()), 20)
        # What is no result of the planner is refused by name.
        found = snug.solve.placement(ranges)
        for work, part in ((lambda: snug.solve.plot_curve({}), "has no points"), (lambda: snug.solve.plot_curve(None), "has no points"), (lambda: snug.solve.plot_curve(PROBLEM), "has no points"),
                           (lambda: snug.solve.plot_placement({}, [0]), "no column 'lower'"), (lambda: snug.solve.plot_placement("ranges.csv", [0]), "no column 'lower'"),
                           (lambda: snug.solve.plot_placement(ranges, found), "one for each"), (lambda: snug.solve.plot_placement(ranges, [0]), "one for each"),
                           (lambda: snug.solve.plot_placement(ranges, None), "one for each"), (lambda: snug.solve.plot_memory(PROBLEM, None), "no schedule"),
                           (lambda: snug.solve.plot_memory(PROBLEM, {"order": ["f"]}), "schedule"), (lambda: snug.solve.plot_memory("none.json", ["f"]), "none.json")):
            with self.assertRaises(snug.Error) as caught:
                work()
            self.assertIn(part, str(caught.exception))
        plan = snug.plan(model="bert-tiny", memory="1GiB", threads=2)
        axes = plan.plot()
        self.assertEqual(len(axes.lines[0].get_xdata()), len(plan.prices))
        axes.figure.savefig(self.folder / "plan.png")
        self.assertTrue((self.folder / "plan.png").read_bytes().startswith(b"\x89PNG"))


class Stops(unittest.TestCase):
    def stopped(self, work):
        """Ctrl-C while it works ends it; how long after it began."""
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))
        timer = threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT))
        begin = time.monotonic()
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            work()
        timer.join()
        return time.monotonic() - begin

    def test_ctrl_c_ends_a_search(self):
        count = 3000
        ops = [{"id": f"f{i}", "cost": 1, "inputs": [f"x{i - 1}"] if i else [], "outputs": [f"x{i}"]} for i in range(count)]
        ops += [{"id": f"b{i}", "cost": 1, "phase": "backward", "inputs": [f"x{i}", *([f"d{i + 1}"] if i + 1 < count else [])], "outputs": [f"d{i}"]} for i in reversed(range(count))]
        chain = {"storages": [{"id": f"{kind}{i}", "bytes": 100 + i % 7} for kind in "xd" for i in range(count)], "ops": ops, "keep": ["d0"]}
        ranges = random_ranges(5000)
        ranges["upper"] = [begin + 2000 for begin in ranges["lower"]]
        for work in (lambda: snug.solve.placement(ranges), lambda: snug.solve.remat(chain, memory=0.3, effort="best"), lambda: snug.solve.curve(chain, effort="best")):
            self.assertLess(self.stopped(work), 10)
        self.assertEqual(snug.solve.remat(PROBLEM, memory=1000)["cost"], 5)  # and the planner works on


if __name__ == "__main__":
    unittest.main()

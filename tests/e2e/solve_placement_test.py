"""`snug solve placement` as a process: what it prints and writes, exit codes, the instances of minimalloc, its own checker."""
import csv
import json
import pathlib

import common
from common import Case, run

INSTANCES = pathlib.Path(__file__).resolve().parent.parent / "data" / "placement"
CAPACITY = 1048576


def overlap(rows):
    """The ids of two buffers that share a byte at one time, or None."""
    rows = [(r["id"], *(int(r[c]) for c in ("lower", "upper", "size", "offset"))) for r in rows]
    for i, (a, a_lower, a_upper, a_size, a_offset) in enumerate(rows):
        for b, b_lower, b_upper, b_size, b_offset in rows[:i]:
            if a_lower < b_upper and b_lower < a_upper and a_offset < b_offset + b_size and b_offset < a_offset + a_size:
                return a, b
    return None


class SolvePlacement(Case):
    def solve(self, file, *words):
        output = self.folder / "placed.csv"
        done = run("solve", "placement", file, "--output", output, "--json", *words)
        self.assertEqual(done.returncode, 0, done.stderr)
        with open(output) as stream:
            return json.loads(done.stdout), list(csv.DictReader(stream))

    def test_every_instance_fits_its_capacity(self):
        seconds = 0
        for file in sorted(INSTANCES.glob("*.csv")):
            report, rows = self.solve(file, "--capacity", CAPACITY)
            with open(file) as stream:
                given = list(csv.DictReader(stream))
            self.assertEqual([{k: r[k] for k in ("id", "lower", "upper", "size")} for r in rows], given)
            self.assertIsNone(overlap(rows), file)
            self.assertEqual(max(int(r["offset"]) + int(r["size"]) for r in rows), report["height"])
            self.assertLessEqual(report["height"], CAPACITY)
            self.assertEqual(sorted(report), ["capacity", "gap", "height", "load", "seconds"])
            self.assertAlmostEqual(report["gap"], (report["height"] - report["load"]) / report["load"])
            seconds += report["seconds"]
        self.assertLess(seconds, 60)

    def test_without_capacity(self):
        report, rows = self.solve(INSTANCES / "C.csv")
        self.assertEqual(sorted(report), ["gap", "height", "load", "seconds"])
        self.assertEqual(report["height"], report["load"])
        self.assertIsNone(overlap(rows))

    def test_text(self):
        done = run("solve", "placement", INSTANCES / "C.csv", "--capacity", "1MiB")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([line.split()[0] for line in done.stdout.splitlines()], ["load", "height", "capacity", "gap", "seconds"])

    def test_a_capacity_is_in_the_unit_of_the_sizes(self):
        small = self.folder / "small.csv"
        small.write_text("id,lower,upper,size\na,0,2,17\nb,1,3,12\n")
        report, _ = self.solve(small, "--capacity", 29)
        self.assertEqual(report["height"], 29)
        self.assertEqual(self.solve(small, "--capacity", "1KiB")[0]["capacity"], 1024)
        self.assertEqual(run("solve", "placement", small, "--capacity", 28).returncode, 2)
        for text in ("60%", "29.5", "-1", "auto", "-5MiB", "much"):
            done = run("solve", "placement", small, f"--capacity={text}")
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(f"'{text}' is no capacity", done.stderr)
            self.assertNotRegex(done.stderr, "60%, |page|auto\\)")

    def test_an_empty_capacity_is_no_missing_one(self):
        for words in (("--capacity", ""), ("--output", ""), ("--max-nodes", "")):
            done = run("solve", "placement", INSTANCES / "C.csv", *words)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn(f"[{words[0]}] the value is empty", done.stderr)

    def test_does_not_fit(self):
        done = run("solve", "placement", INSTANCES / "A.csv", "--capacity", CAPACITY - 1)
        self.assertEqual(done.returncode, 2)
        self.assertIn("1048576 must be held at once", done.stderr)
        self.assertIn("at time", done.stderr)

    def test_not_found(self):
        done = run("solve", "placement", INSTANCES / "A.csv", "--capacity", CAPACITY, "--max-nodes", 0)
        self.assertEqual(done.returncode, 2)
        self.assertIn("no placement found", done.stderr)

    def test_bad_input(self):
        bad = self.folder / "bad.csv"
        bad.write_text("id,lower,upper,size\na,0,1,2\nb,3,3,1\n")
        for words, texts in (
            ((bad,), ("bad.csv:3", "lower 3", "hint:")),
            ((self.folder / "nowhere.csv",), ("nowhere.csv",)),
            ((INSTANCES / "A.csv", "--capacity", "much"), ("--capacity", "much")),
            ((INSTANCES / "A.csv", "--capacity", "60%"), ("--capacity", "60%")),
            ((INSTANCES / "A.csv", "--capacty", "1"), ("--capacty",)),
            ((INSTANCES / "A.csv", "--max-nodes", "0x10"), ("[--max-nodes] '0x10' is no number of nodes", "hint:")),
            ((INSTANCES / "A.csv", "--max-nodes=-5"), ("[--max-nodes] '-5' is no number of nodes", "hint:")),
            ((), ("file",)),
        ):
            done = run("solve", "placement", *words)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertEqual(done.stderr.count("error:"), 1, done.stderr)
            for text in texts:
                self.assertIn(text, done.stderr)
        self.assertEqual(run("solve", "packing").returncode, 1)
        self.assertEqual(run("solve", "--help").returncode, 0)
        self.assertIn("--capacity", run("solve", "placement", "--help").stdout)


if __name__ == "__main__":
    common.main()

"""The printed parts of docs/tour.md, and its figure, are what the program prints."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

import common

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Tour(unittest.TestCase):
    def setUp(self):
        version = common.run("--version", env={"SNUG_MAX_ISA": "avx2"})
        if "(avx2)" not in version.stdout:
            common.not_run(self, "the page was printed for AVX2")
        if common.IS_SANITIZED:
            common.not_run(self, "a sanitizer's shadow memory has no place in the page's budget")
        self.folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.folder)
        for name in ("tour.md", "tour.svg"):
            shutil.copy(ROOT / "docs" / name, self.folder)

    def tool(self, *words):
        return subprocess.run([sys.executable, ROOT / "tools/tour_page.py", common.SNUG, *words], capture_output=True, text=True, timeout=600, env=os.environ)

    def test_the_page_is_as_printed(self):
        done = self.tool("--check")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_changed_line_is_found_and_written_anew(self):
        page, figure = self.folder / "tour.md", self.folder / "tour.svg"
        right = page.read_text()
        self.assertEqual(right.count("%13 = relu(%12)"), 1)
        page.write_text(right.replace("%13 = relu(%12)", "%13 = relu(%11)"))
        figure.write_text(figure.read_text().replace("layers.0/relu<", "layers.1/relu<"))
        done = self.tool(self.folder, "--check")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("-  %13 = relu(%11)", done.stdout)
        self.assertIn("2 files differ", done.stdout)
        self.assertEqual(self.tool(self.folder).returncode, 0)
        self.assertEqual(page.read_text(), right)
        self.assertEqual(self.tool(self.folder, "--check").returncode, 0)

    def test_a_part_that_is_missing_is_named(self):
        page = self.folder / "tour.md"
        page.write_text(page.read_text().replace("<!-- printed: plan -->", "<!-- printed: plans -->"))
        done = self.tool(self.folder, "--check")
        self.assertEqual(done.returncode, 1)
        self.assertIn("each of these parts once: rows, command, stages, forward, backward, problem, plan, step, trained", done.stderr)


if __name__ == "__main__":
    unittest.main()

"""What type checkers see: a small script of a user's passes mypy --strict, and mistakes in one are found."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

import common

HERE = pathlib.Path(__file__).resolve().parent
MISTAKES = """
import snug

snug.plan(3.5)
plan: int = snug.plan(model="mlp")
snug.train(replay=1)
snug.predict(sink="x")
snug.Session("network")
snug.solve.placement([1, 2])
snug.solve.remat({}, memory=None)
snug.DoesNotFit("out_of_budget", "memory", "x").smallest_bytes + 1
"""


class Types(unittest.TestCase):
    def check(self, file):
        # As of an installed package, whose types count and whose own errors are not looked for.
        return subprocess.run([sys.executable, "-m", "mypy", "--strict", "--follow-imports", "silent", "--cache-dir", self.cache, file], capture_output=True, text=True, timeout=600,
                              env={"MYPYPATH": str(HERE.parents[1] / "python"), "PATH": "/usr/bin:/bin"})

    def setUp(self):
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.cache = kept.name
        if subprocess.run([sys.executable, "-c", "import mypy"], capture_output=True).returncode != 0:
            common.not_run(self, "mypy is not installed")

    def test_a_users_script(self):
        done = self.check(HERE / "typed_user.py")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_mistakes_are_found(self):
        file = pathlib.Path(self.cache, "mistakes.py")
        file.write_text(MISTAKES)
        done = self.check(file)
        found = {int(line.split(":")[1]) for line in done.stdout.splitlines() if "mistakes.py" in line and ": error:" in line}
        self.assertEqual(found, set(range(4, 12)), done.stdout)


if __name__ == "__main__":
    unittest.main()

"""The notebooks of examples/python: their cells run in order, as a notebook runs them, and what a cell ends with can be shown."""
import ast
import json
import os
import pathlib
import subprocess
import sys
import unittest

import common

try:
    import numpy
except ImportError:
    numpy = None

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "examples/python"


def run_cells(path):
    names = {"__name__": "__main__"}
    for number, cell in enumerate(json.loads(path.read_text())["cells"]):
        assert cell["cell_type"] != "code" or (cell["outputs"] == [] and cell["execution_count"] is None), f"cell {number} is not as new"
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]), f"{path.name}, cell {number}")
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, f"{path.name}, cell {number}", "exec"), names)
        value = None if last is None else eval(compile(ast.Expression(last.value), f"{path.name}, cell {number}", "eval"), names)
        if value is not None:
            print(value._repr_html_() if hasattr(value, "_repr_html_") else repr(value))


def shown_by(name):
    """All that a notebook prints and shows, in a process of its own as it has."""
    done = subprocess.run([sys.executable, __file__, "--run", FOLDER / f"{name}.ipynb"], capture_output=True, text=True, timeout=900, env=dict(os.environ, MPLBACKEND="agg"))
    if done.returncode != 0:
        raise AssertionError(f"{name}: {done.stderr[-3000:]}")
    return done.stdout


class Notebooks(unittest.TestCase):
    def setUp(self):
        if numpy is None:
            common.not_run(self, "numpy is not installed")

    def test_text_classifier(self):
        shown = shown_by("text_classifier")
        self.assertIn("<iframe srcdoc=", shown)
        self.assertIn("'memory'", shown)
        self.assertIn("keeping everything", shown)

    def test_own_network(self):
        self.assertIn("conv.0.weight", shown_by("own_network"))

    def test_planner(self):
        self.assertIn("it fits:", shown_by("planner"))

    def test_all_are_run(self):
        self.assertEqual({path.stem for path in FOLDER.glob("*.ipynb")}, {name.removeprefix("test_") for name in dir(self) if name.startswith("test_")} - {"all_are_run"})


if __name__ == "__main__":
    if sys.argv[1:2] == ["--run"]:
        run_cells(pathlib.Path(sys.argv[2]))
    else:
        unittest.main()

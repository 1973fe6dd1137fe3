"""The examples of docs/python.md, one behind the other as a reader would run them."""
import os
import pathlib
import re
import tempfile
import unittest
import warnings

import common

try:
    import numpy as np
except ImportError:
    np = None
try:
    import sklearn
except ImportError:
    sklearn = None

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/python.md"


class Examples(unittest.TestCase):
    def test_all_of_them(self):
        if np is None:
            common.not_run(self, "numpy is not installed")
        warnings.simplefilter("ignore")
        kept = tempfile.TemporaryDirectory()
        self.addCleanup(kept.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.chdir(kept.name)
        rows = common.make_rows(60)
        for name in ("train", "test"):
            common.write_jsonl(pathlib.Path(f"{name}.jsonl"), rows)
        # What the page takes as the reader's own.
        names = dict(np=np, pixels=np.zeros((64, 784), np.float32), labels=np.arange(64, dtype=np.int32) % 10)
        blocks = [block for kind, block in re.findall(r"^```(\w*)\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL) if kind == "python"]
        self.assertEqual(len(blocks), 6)
        for block in blocks:
            with self.subTest(block[:60]):
                self.run_block(block, names, rows)
        self.assertEqual(names["plan"].budget_bytes, int(names["way"].keys["memory"]))
        self.assertGreater(names["loss"], 0)

    def run_block(self, block, names, rows):
        if "@snug.op" in block:
            from snug.ops import where

            names["where"] = where
        if "address" in block:
            import ctypes

            from snug._native import Kernel

            names["kernel"] = Kernel(lambda *_given: 0)
            names["address"] = ctypes.cast(names["kernel"], ctypes.c_void_p).value
        if "snug.sklearn" in block:
            if sklearn is None:
                common.not_run(self, "scikit-learn is not installed")
            from sklearn.model_selection import GridSearchCV

            names.update(GridSearchCV=GridSearchCV, texts=[row["text"] for row in rows], labels=[row["label"] for row in rows])
        exec(compile(block, str(PAGE), "exec"), names)


if __name__ == "__main__":
    unittest.main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/arrow_rows: the same rows as Arrow's files and as JSON lines, and tests/fuzz/seeds/arrow.

   python3 tools/golden/arrow_rows.py     # pyarrow 26.0.1
"""
import json
import math
import pathlib

import pyarrow
import pyarrow.feather
import pyarrow.ipc

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests/golden/arrow_rows"
SEEDS = ROOT / "tests/fuzz/seeds/arrow"
LONG = "a long text " * 6000  # more than a window of the reader

ROWS = [
    dict(text="one é\n", pair="left", label="x", number=3, real=0.5, is_it=True, words=["a", "b c"], tags=[1, -2], names=["p", ""], shares=[0.25, 2.0], weight=0.5),
    dict(text="", pair="", label="", number=-1, real=2.0, is_it=False, words=[], tags=[], names=[], shares=[], weight=2),
    dict(text="t" * 300, pair=LONG[:3000], label=None, number=None, real=None, is_it=None, words=["w"] * 40, tags=[7] * 40, names=["q"] * 40, shares=[1e-9] * 3, weight=0),
    dict(text=LONG, pair="r", label="y", number=2**40, real=-1e-7, is_it=True, words=["ü"], tags=[2**62], names=None, shares=[1 / 3], weight=1.25),
]
ROWS += [dict(row, text=row["text"][:40], pair=row["pair"][:40]) for row in ROWS] * 2
SCHEMA = pyarrow.schema([
    ("id", pyarrow.int32()), ("text", pyarrow.string()), ("image", pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])),
    ("pair", pyarrow.large_string()), ("label", pyarrow.string()), ("kind", pyarrow.dictionary(pyarrow.int8(), pyarrow.string())), ("number", pyarrow.int64()),
    ("real", pyarrow.float64()), ("is_it", pyarrow.bool_()), ("words", pyarrow.list_(pyarrow.string())), ("view", pyarrow.string_view()),
    ("tags", pyarrow.large_list(pyarrow.int64())), ("names", pyarrow.list_(pyarrow.string())), ("pixels", pyarrow.list_(pyarrow.uint8(), 4)),
    ("shares", pyarrow.list_(pyarrow.float64())), ("weight", pyarrow.float32()), ("two", pyarrow.list_(pyarrow.int16(), 2)), ("nothing", pyarrow.null()),
])


def table():
    filled = [dict(row, id=i, image=dict(bytes=bytes(9), path=None), kind="k", view="a view that is longer than twelve bytes", pixels=[1, 2, 3, 4], two=[i, -i], nothing=None)
              for i, row in enumerate(ROWS)]
    return pyarrow.Table.from_pylist(filled, SCHEMA), filled


def write_stream(name, given, **options):
    with pyarrow.ipc.new_stream(FOLDER / name, given.schema) as writer:
        writer.write_table(given, **options)


def main():
    FOLDER.mkdir(parents=True, exist_ok=True)
    SEEDS.mkdir(parents=True, exist_ok=True)
    whole, rows = table()
    write_stream("stream.arrow", whole, max_chunksize=5)
    write_stream("slice.arrow", whole.slice(3, 6).combine_chunks(), max_chunksize=4)
    write_stream("empty.arrow", whole.slice(0, 0))
    with pyarrow.ipc.new_file(FOLDER / "file.arrow", whole.schema) as writer:
        writer.write_table(whole, max_chunksize=7)
    plain = whole.select(["text", "label"])
    pyarrow.feather.write_feather(plain, FOLDER / "packed.arrow", compression="lz4")
    write_stream("nan.arrow", pyarrow.table({"text": ["a", "b"], "label": [math.nan, 1.5], "weight": [1.0, math.nan], "inf": [math.inf, 1.0]}))
    names = {"names": ["no", "yes", "it depends"], "_type": "ClassLabel"}
    said = {"info": {"features": {"label": names, "tags": {"feature": names, "_type": "List"}, "older": [names], "number": {"dtype": "int32", "_type": "Value"}}}}
    classes = pyarrow.table({"text": list("abcd"), "label": pyarrow.array([2, 0, -1, 1], pyarrow.int8()), "tags": [[1, 1], [], [0], [2]], "older": [[0], [1], [2], []], "number": [0, 1, 2, 0],
                             "words": [["a", "b"], [], ["c"], ["d"]]})
    write_stream("classes.arrow", classes.replace_schema_metadata({"huggingface": json.dumps(said)}), max_chunksize=3)
    wrong = classes.set_column(1, "label", pyarrow.array([2, 0, 3, 1]))
    write_stream("wrong_classes.arrow", wrong.replace_schema_metadata({"huggingface": json.dumps(said)}))
    write_stream("broken_classes.arrow", classes.replace_schema_metadata({"huggingface": "{"}))
    with open(FOLDER / "rows.jsonl", "w", encoding="utf-8") as file:
        for row in rows:
            kept = {name: value for name, value in row.items() if name not in ("image", "kind", "view", "pixels", "nothing")}
            file.write(json.dumps(kept, ensure_ascii=False) + "\n")
    short = pyarrow.Table.from_pylist([{**row, "text": row["text"][:20], "pair": row["pair"][:20]} for row in rows[:4]], SCHEMA)
    for name, choice, given in (("rows", 5, short), ("pairs", 3, short.select(["text", "pair", "label"])), ("lists", 12, short.select(["words", "tags"]).rename_columns(["text", "label"])),
                                ("numbers", 1, short.select(["text", "real"]).rename_columns(["text", "label"]))):
        sink = pyarrow.BufferOutputStream()
        with pyarrow.ipc.new_stream(sink, given.schema) as writer:
            writer.write_table(given, max_chunksize=3)
        (SEEDS / name).write_bytes(bytes([choice]) + sink.getvalue().to_pybytes())


if __name__ == "__main__":
    main()

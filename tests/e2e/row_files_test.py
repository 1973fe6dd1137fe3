"""The same rows as an array, packed, in several files or out of a pipe: the same run."""
import csv
import gzip
import json
import os
import subprocess

import common
from common import SNUG, Case, make_rows, options, run, sha256, write_jsonl


def write_csv(path, rows):
    with open(path, "w", newline="") as file:
        table = csv.DictWriter(file, ["text", "label"])
        table.writeheader()
        table.writerows(rows)


def pack(path):
    packed = path.with_name(path.name + ".gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    return packed


class RowFiles(Case):
    rows = 60

    def base(self, **more):
        return super().base(**dict(dict(model="mlp", hidden_sizes="16", max_steps=4), **more))

    def piped(self, verb, stdin, **values):
        return subprocess.run([SNUG, verb, *options(**values)], input=stdin, capture_output=True, timeout=600)

    def weights(self, name, **more):
        return sha256(self.train(name, **more) / "last/model.safetensors")

    def forms(self):
        """train_file in every form that has the rows of train.jsonl."""
        rows = make_rows(self.rows)
        flat, pretty = self.folder / "flat.json", self.folder / "pretty.json"
        flat.write_text(json.dumps(rows, separators=(",", ":")))
        pretty.write_text(json.dumps(rows, indent=2))
        table = self.folder / "rows.csv"
        write_csv(table, rows)
        parts = self.folder / "parts"
        parts.mkdir()
        for part, rows_of_part in enumerate((rows[:10], rows[10:11], rows[11:])):
            write_jsonl(parts / f"part-{part}.jsonl", rows_of_part)
        pack(parts / "part-1.jsonl").rename(parts / "part-1.jsonl.gz")
        (parts / "part-1.jsonl").unlink()
        yield "flat", flat
        yield "pretty", pretty
        yield "array_gz", pack(pretty)
        yield "gz", pack(self.train_file)
        yield "csv_gz", pack(table)
        yield "pattern", parts / "part-*.jsonl*"
        yield "list", f"{parts}/part-0.jsonl, {parts}/part-1.jsonl.gz,{parts}/part-[2-9].jsonl"

    def test_every_form_trains_to_the_same_weights(self):
        wanted = self.weights("wanted")
        for name, file in self.forms():
            self.assertEqual(self.weights(name, train_file=file), wanted, name)
        config = self.folder / "run.yaml"
        config.write_text(f"train_file:\n- {self.folder}/parts/part-0.jsonl\n- {self.folder}/parts/part-[1-2]*\n")
        self.ok("train", **self.base(train_file=None, config=config, output_dir=self.folder / "yaml"))
        self.assertEqual(sha256(self.folder / "yaml/last/model.safetensors"), wanted)

    def test_a_pipe_trains_and_resumes_with_the_same_rows_alone(self):
        wanted = self.weights("wanted", max_steps=8, lr_scheduler_type="constant")
        rows = self.train_file.read_bytes()
        out = self.folder / "out"
        base = self.base(train_file="-", output_dir=out, max_steps=4, save_steps=4, lr_scheduler_type="constant")
        self.assertEqual(self.piped("train", gzip.compress(rows), **base).returncode, 0)
        (copy,) = out.glob("stream-*.jsonl")
        base = dict(base, max_steps=8, resume=True)
        other = self.piped("train", b"".join(rows.splitlines(True)[1:]), **base)
        self.assertEqual(other.returncode, 1)
        self.assertIn(f"not those that the run began with, of {copy}", other.stderr.decode())
        nothing = self.piped("train", b"", **base)
        self.assertEqual(nothing.returncode, 1)
        self.assertIn("[standard input] not a byte came out of it", nothing.stderr.decode())
        again = self.piped("train", gzip.compress(rows), **base)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(sha256(out / "last/model.safetensors"), wanted)
        twice = self.piped("train", rows, **self.base(train_file="-", validation_file="-", output_dir=self.folder / "no"))
        self.assertIn("two files of rows are this one stream", twice.stderr.decode())

    def test_eval_predict_and_inspect_read_pipes_and_leave_nothing(self):
        out = self.train("out")
        model = dict(model=out / "last", memory="1GiB", threads=2, cache_dir=self.folder / "cache")
        for verb in ("eval", "predict"):
            wanted = self.ok(verb, test_file=self.valid_file, **model).stdout
            piped = self.piped(verb, self.valid_file.read_bytes(), test_file="/dev/stdin", **model)
            self.assertEqual(piped.stdout.decode(), wanted, piped.stderr)
        read, write = os.pipe()
        os.write(write, b'[{"text": "cat", "label": "animal"}]')
        os.close(write)
        done = subprocess.run([SNUG, "inspect", "--json", *options(train_file=f"/dev/fd/{read}", model=out / "last")],
                              pass_fds=[read], capture_output=True, text=True)
        self.assertEqual(json.loads(done.stdout)["data"][0]["kept"], 1, done.stderr)
        self.assertEqual([path.name for path in (self.folder / "cache").glob("stream*")], [])

    def test_tokenize_takes_the_same_files(self):
        model = self.train("out") / "last"
        rows = make_rows(3, seed=9)
        lines = "".join(row["text"] + "\n" for row in rows)
        wanted = self.piped("tokenize", lines.encode(), model=model).stdout
        self.assertEqual(len(wanted.splitlines()), 3)
        file = self.named("rows.json", json.dumps(rows))
        self.assertEqual(self.piped("tokenize", b"", model=model, test_file=file).stdout, wanted)
        self.assertEqual(self.piped("tokenize", pack(file).read_bytes(), model=model, test_file="-").stdout, wanted)
        pairs = self.named("pairs.csv", "a,b\ncat,dog\n")
        pair = self.piped("tokenize", b"", model=model, test_file=pairs, text_column="a", text_pair_column="b").stdout
        self.assertEqual(len(json.loads(pair)), 5)

    def test_predictions_count_through_all_files(self):
        out = self.train("out")
        model = dict(model=out / "last", memory="1GiB", threads=2, bad_rows="skip")
        first, second = self.folder / "first.jsonl", self.folder / "second.json"
        first.write_text('{"text": "cat"}\n{"text": 7}\n')
        second.write_text('[{"text": "dog"}, 3, {"text": "saw"}]')
        lines = [json.loads(line) for line in self.ok("predict", test_file=f"{first},{second}", **model).stdout.splitlines()]
        self.assertEqual([line["row"] for line in lines], [0, 1, 2, 3, 4])
        self.assertEqual([line["label"] is None for line in lines], [False, True, False, True, False])
        self.assertIn("first.jsonl:2: the column 'text' is a number", lines[1]["reason"])
        self.assertIn("second.json:1, object 2: ", lines[3]["reason"])

    def refused(self, text, **more):
        done = run("train", *options(**self.base(output_dir=self.folder / "no", **more)))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(text, done.stderr)

    def test_what_cannot_be_read_is_named(self):
        packed = pack(self.train_file)
        packed.write_bytes(packed.read_bytes()[:-9])
        self.refused(f"[{packed}] the archive is cut off: it ends at byte {packed.stat().st_size}", train_file=packed)
        self.refused("train.csv.gz] is no gzip archive", train_file=self.named("train.csv.gz", "text,label\n"))
        self.refused("part-*.jsonl] no file has a name like this", train_file=self.folder / "part-*.jsonl")
        self.refused("twice", train_file=f"{self.train_file},{self.folder}/*.jsonl")
        self.refused("ends inside of its array", train_file=self.named("a.json", '[{"text": "a", "label": "x"},'))
        unlike = self.named("b.jsonl", '{"text": "a"}\n')
        self.refused("b.jsonl:1] the first row has no column 'label'", train_file=f"{self.train_file},{unlike}")

    def named(self, name, text):
        path = self.folder / name
        path.write_text(text)
        return path

    def test_a_long_array_takes_no_more_memory_than_its_lines(self):
        words = " ".join(f"w{i}" for i in range(50))
        text = ",".join(json.dumps({"text": words, "label": str(i % 2)}) for i in range(100_000))
        file = self.named("long.json", f"[{text}]")
        self.assertGreater(file.stat().st_size, 20 << 20)
        lines = self.named("long.jsonl", text.replace('},{', '}\n{'))
        peaks = [self.summary(self.train(name, train_file=each, validation_file=None, validation_split=0.01, max_steps=2))
                 ["measured_peak_rss_bytes"] for name, each in (("lines", lines), ("array", file), ("packed", pack(file)))]
        for peak in peaks[1:]:
            self.assertLess(peak, peaks[0] + (4 << 20))


if __name__ == "__main__":
    common.main()

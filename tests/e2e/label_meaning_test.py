"""What labels mean: numbers that are names, the order of classes, columns in doubt, lists of 0 and 1; a line for every row that is predicted."""
import json
import shutil

import common
from common import Case, options, read_safetensors, run, write_jsonl
from labels_test import edit_config, id2label

WORDS = ("bad ab", "mid cd", "good ef", "best gh")


class MeaningCase(Case):
    def small(self, **more):
        return self.base(**dict(dict(model="mlp", hidden_sizes=8, learning_rate=0.02, max_steps=40, threads=1, train_batch_size=16,
                                     max_seq_length=16, validation_file=None, validation_split=0), **more))

    def table(self, name, labels, times=30):
        """Rows of as many different texts as there are labels."""
        path = self.folder / name
        path.write_text("text,label\n" + "".join(f"{text},{label}\n" for _ in range(times) for text, label in zip(WORDS, labels)))
        return path

    def lines(self, name, labels, times=10):
        path = self.folder / name
        write_jsonl(path, [{"text": text, "label": label} for _ in range(times) for text, label in zip(WORDS, labels)])
        return path

    def refused(self, *texts, verb="train", **values):
        done = run(verb, *options(**dict(dict(output_dir=self.folder / "refused"), **values)))
        self.assertEqual(done.returncode, 1, done.stderr + done.stdout)
        for text in texts:
            self.assertIn(text, " ".join(done.stderr.split()))

    def accuracy(self, model, file):
        done = self.ok("eval", model=model, test_file=file, memory="1GiB", threads=1)
        return json.loads(done.stdout)["accuracy"]


class Numbers(MeaningCase):
    def test_a_number_is_the_class_of_that_name_in_any_spelling(self):
        for names in (("1.0", "2.0", "3.0"), ("01", "02", "03")):
            out = self.folder / names[0]
            self.ok("train", **self.small(train_file=self.table("s.csv", names)), output_dir=out)
            self.assertEqual(self.accuracy(out / "last", self.lines("t.jsonl", (1, 2))), 1)
            # Further training goes on with the same classes.
            further = self.folder / ("further" + names[0])
            self.ok("train", **self.small(model=out / "last", hidden_sizes=None, vocab_size=None, learning_rate=0, max_steps=1,
                                          train_file=self.lines("f.jsonl", (1, 2, 3))), output_dir=further)
            self.assertEqual(id2label(further / "last"), list(names))
            self.assertEqual(self.accuracy(further / "last", self.table("names.csv", names)), 1)

    def test_an_id_that_is_the_number_in_another_name_is_refused_with_both_readings(self):
        out = self.folder / "stars"
        self.ok("train", **self.small(train_file=self.table("s.csv", ("1 star", "2 stars", "3 stars"))), output_dir=out)
        ids = self.lines("ids.jsonl", (1, 2))
        both = ("as an id it is the class '2 stars', and '1 star' says that number, too", "give the names of the classes")
        self.refused(*both, verb="eval", model=out / "last", test_file=ids, memory="1GiB")
        self.refused(*both, **self.small(model=out / "last", hidden_sizes=None, vocab_size=None, train_file=ids))

    def test_several_labels_a_row_and_class_weights_follow_the_same_rule(self):
        several = self.lines("m.jsonl", (["1.0"], ["2.0"], ["1.0", "3.0"]), times=30)
        out = self.folder / "several"
        self.ok("train", **self.small(train_file=several, task="multi_label", max_steps=120), output_dir=out)
        done = self.ok("eval", model=out / "last", test_file=self.lines("t.jsonl", (["1"], ["2"], ["1", "3"])), memory="1GiB")
        self.assertEqual([entry["rows"] for entry in json.loads(done.stdout)["classes"]], [20, 10, 10])
        table = self.table("s.csv", ("1.0", "2.0"))
        said = self.ok("train", **self.small(train_file=table, class_weights="2=4,1=3", max_steps=1), output_dir=self.folder / "w").stderr
        self.assertIn("the classes weigh 1.0 3, 2.0 4", said)
        self.refused("there is no label '0'", **self.small(train_file=table, class_weights="0=4,1=3"))


class Order(MeaningCase):
    def test_numbers_are_in_order_and_names_where_label_order_says_it(self):
        names = ("10.0", "1.0", "2.0")
        out = self.folder / "numbers"
        said = self.ok("train", **self.small(train_file=self.table("n.csv", names), metric_for_best_model="qwk", validation_split=0.2), output_dir=out).stderr
        self.assertEqual(id2label(out / "best"), ["1.0", "2.0", "10.0"])
        self.assertNotIn("label_order", said)
        words = self.table("w.csv", ("low", "medium", "high"))
        more = dict(train_file=words, metric_for_best_model="qwk", validation_split=0.2)
        said = self.ok("train", **self.small(**more), output_dir=self.folder / "bytes").stderr
        self.assertIn("metric_for_best_model qwk takes the labels for steps in the order of their ids, and 3 of them are no numbers: high, low, medium", said)
        self.assertEqual([each["code"] for each in self.summary(self.folder / "bytes")["warnings"]], ["label_order"])
        order = self.folder / "order"
        said = self.ok("train", **self.small(**more, label_order="low,medium,high"), output_dir=order).stderr
        self.assertNotIn("warning", said)
        self.assertEqual(id2label(order / "best"), ["low", "medium", "high"])
        # A trained head has its own, which may be repeated.
        again = dict(model=order / "best", hidden_sizes=None, vocab_size=None, train_file=words, max_steps=1)
        self.ok("train", **self.small(**again, label_order="low,medium,high"), output_dir=self.folder / "again")
        self.refused("[label_order] the trained head", "low, medium, high, in this order", **self.small(**again, label_order="high,medium,low"))
        self.refused("[label_order] it lacks the label 'medium' of the data", **self.small(**more, label_order="low,high"))
        self.refused("[label_order] the task regression has no use for it", **self.small(task="regression", train_file=words, label_order="low,high"))

    def test_a_run_that_began_in_another_order_keeps_it(self):
        """As older versions ordered numbers: by bytes."""
        table = self.table("n.csv", ("10.0", "1.0", "2.0"))
        keys = self.small(train_file=table, save_steps=2, validation_split=0.2)
        first = self.folder / "first"
        self.ok("train", **dict(keys, label_order="1.0,10.0,2.0", max_steps=4), output_dir=first)
        state = first / "last/snug_state.json"
        json_state = json.loads(state.read_text())
        json_state["config"]["label_order"] = []
        state.write_text(json.dumps(json_state))
        marker = first / "last/.snug.complete"
        listed = json.loads(marker.read_text())
        listed["files"]["snug_state.json"] = {"bytes": state.stat().st_size, "sha256": common.sha256(state)}
        marker.write_text(json.dumps(listed))
        self.ok("train", **dict(keys, max_steps=8), output_dir=first, resume=True)
        self.assertEqual(id2label(first / "last"), ["1.0", "10.0", "2.0"])
        whole = self.folder / "whole"
        self.ok("train", **dict(keys, label_order="1.0,10.0,2.0", max_steps=4), output_dir=whole)
        self.ok("train", **dict(keys, label_order="1.0,10.0,2.0", max_steps=8), output_dir=whole, resume=True)
        self.assertEqual(read_safetensors(first / "last/model.safetensors"), read_safetensors(whole / "last/model.safetensors"))


class Doubt(MeaningCase):
    def test_numbers_with_a_label_that_is_none_are_no_names_of_classes(self):
        numbers = ["0.25", "1.25", "2.25", "3.25"]
        for other in ("NA", "nan", "inf"):
            table = self.table("r.csv", numbers, times=5)
            with open(table, "a") as file:
                file.write(f"bad ab,{other}\n")
            self.refused("20 of 21 labels are numbers such as 0.25, and 1 of 21 labels are none, such as", f"'{other}' at {table}:22",
                         "set task to regression", **self.small(train_file=table))
            self.refused(f"{table}:22", f"the label '{other}' is no finite number", "bad_rows to skip", **self.small(train_file=table, task="regression"))
            out = self.folder / f"skip-{other}"
            said = self.ok("train", **self.small(train_file=table, task="regression", bad_rows="skip", max_steps=1), output_dir=out).stderr
            self.assertIn("warning: 1 of 21 rows", said)
            (warning,) = self.summary(out)["warnings"]
            self.assertEqual((warning["code"], warning["count"]), ("bad_rows", 1))
            self.assertAlmostEqual(warning["share"], 1 / 21)
            self.ok("train", **self.small(train_file=table, task="classification", max_steps=1), output_dir=self.folder / f"names-{other}")
        for other in (" 1.5", "+1.5"):
            said = self.ok("train", **self.small(train_file=self.table("s.csv", [*numbers[:3], other]), max_steps=1), output_dir=self.folder / other).stderr
            self.assertIn("the task is regression", said)

    def test_lists_of_0_and_1_are_refused_until_the_task_is_said(self):
        several = self.lines("m.jsonl", ([1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 1.0], [0.0, 0.0, 0.0]), times=30)
        self.refused("are lists of 0 and 1, such as [1, 0, 0]", "or to multi_label", "label_order", **self.small(train_file=several))
        out = self.folder / "regression"
        self.ok("train", **self.small(train_file=several, task="regression", max_steps=1), output_dir=out)
        out = self.folder / "places"
        said = self.ok("train", **self.small(train_file=several, task="multi_label", max_steps=120), output_dir=out).stderr
        self.assertIn("no row to train on has the label '1' (0)", said)
        self.assertEqual(id2label(out / "last"), ["0", "1", "2"])
        config = json.loads((out / "last/config.json").read_text())
        self.assertEqual(config["problem_type"], "multi_label_classification")
        metrics = json.loads(self.ok("eval", model=out / "last", test_file=several, memory="1GiB").stdout)
        self.assertEqual(metrics["subset_accuracy"], 1)
        named = self.folder / "named"
        self.ok("train", **self.small(train_file=several, task="multi_label", max_steps=120, label_order="red,green,blue"), output_dir=named)
        self.assertEqual(id2label(named / "last"), ["red", "green", "blue"])
        rows = [json.loads(line) for line in self.ok("predict", model=named / "last", test_file=several, memory="1GiB").stdout.splitlines()]
        self.assertEqual([row["labels"] for row in rows[:4]], [["red"], ["blue"], ["red", "blue"], []])
        self.assertEqual(read_safetensors(out / "last/model.safetensors"), read_safetensors(named / "last/model.safetensors"))
        # A trained head takes the places for its ids, and names for its names.
        by_name = self.lines("names.jsonl", (["red"], ["blue"], ["red", "blue"], []))
        for file in (several, by_name):
            metrics = json.loads(self.ok("eval", model=named / "last", test_file=file, memory="1GiB").stdout)
            self.assertEqual(metrics["subset_accuracy"], 1)
        self.refused("a list of 3 numbers, one a label; label_order has 2", **self.small(train_file=several, task="multi_label", label_order="a,b"))


class Predictions(MeaningCase):
    def test_every_row_has_a_line_also_one_that_is_skipped(self):
        out = self.folder / "out"
        self.ok("train", **self.small(train_file=self.table("s.csv", ("neg", "pos"))), output_dir=out)
        good = [{"text": text} for text in WORDS]
        rows = self.folder / "rows.jsonl"
        rows.write_text("broken\n" + json.dumps(good[0]) + "\n" + '{"text": "cut \\ud83d"}\n{"text": 1}\n' + "\n".join(map(json.dumps, good[1:])) + "\n[]\n")
        self.refused("rows.jsonl:1", verb="predict", model=out / "last", test_file=rows, memory="1GiB", output_dir=self.folder / "none")
        done = self.ok("predict", model=out / "last", test_file=rows, memory="1GiB", bad_rows="skip", threads=1)
        found = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([row["row"] for row in found], list(range(8)))
        skipped = [row for row in found if row["label"] is None]
        self.assertEqual([row["row"] for row in skipped], [0, 2, 3, 7])
        for row in skipped:
            self.assertIn(f"{rows}:{row['row'] + 1}: ", row["reason"])
        self.assertIn("warning: 4 of 8 rows", done.stderr)
        write_jsonl(self.folder / "good.jsonl", good)
        alone = [json.loads(line) for line in self.ok("predict", model=out / "last", test_file=self.folder / "good.jsonl", memory="1GiB", threads=1).stdout.splitlines()]
        self.assertEqual([row["row"] for row in alone], list(range(4)))
        self.assertEqual([(row["label"], row["scores"]) for row in alone], [(row["label"], row["scores"]) for row in found if row["label"]])
        several = self.folder / "several"
        self.ok("train", **self.small(train_file=self.lines("m.jsonl", (["a"], ["b"], [])), task="multi_label", max_steps=1), output_dir=several)
        first = self.ok("predict", model=several / "last", test_file=rows, memory="1GiB", bad_rows="skip").stdout.splitlines()[0]
        self.assertIsNone(json.loads(first)["labels"])


if __name__ == "__main__":
    common.main()

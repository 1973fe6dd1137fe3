"""Every task from rows to predictions: training, evaluation, predictions, verify, buckets, splits, resume; and what is refused."""
import json
import random
import shutil

import common
from common import Case, options, read_safetensors, relative_l2, run, sha256, write_jsonl
from tensor_files import read_raw, write_raw

VALUES = {"good": 1.0, "fine": 0.5, "poor": -0.5, "bad": -1.25}
TAGS = {"new york": ["B-LOC", "I-LOC"], "rome": ["B-LOC"], "lee-ann": ["B-PER"]}
TOPICS = {"sun": "weather", "rain": "weather", "wind": "weather", "goal": "sport", "team": "sport", "bank": "money", "coin": "money"}


def rows_of(task, count, seed):
    generator = random.Random(seed)

    def words(among, most=24):
        return [generator.choice(sorted(among)) for _ in range(generator.randint(1, most))]

    def mean(found):
        return sum(VALUES[word] for word in found) / len(found)

    def row():
        if task == "regression":
            found = words(VALUES)
            return {"text": " ".join(found), "label": round(mean(found), 4)}
        if task == "several_targets":
            found = words(VALUES)
            return {"text": " ".join(found), "label": [round(mean(found), 4), round(-2 * mean(found), 4)]}
        if task == "token_classification":
            found = words([*VALUES, "new york", "rome", "lee-ann", "cut"], 16) if generator.random() < 0.95 else ["\u200b"]
            return {"text": sum((word.split(" ") for word in found), []), "label": sum((TAGS.get(word, ["O"]) for word in found), [])}
        found = words(TOPICS, 4) if generator.random() < 0.9 else ["nothing"]
        return {"text": " ".join(found), "label": sorted({TOPICS[word] for word in found if word in TOPICS})}

    return [row() for _ in range(count)]


class TaskCase(Case):
    """What holds of every task; `data` names its rows."""

    def data(self, name):
        write_jsonl(self.train_file, rows_of(name, 160, 1))
        write_jsonl(self.valid_file, rows_of(name, 40, 2))

    def small(self, **more):
        return dict(dict(model="mlp", hidden_sizes=16, vocab_size=80, train_batch_size=16, learning_rate=0.02, max_steps=40, threads=1), **more)

    def predictions(self, **values):
        return [json.loads(line) for line in self.ok("predict", **values).stdout.splitlines()]

    def whole_way(self, task, name=None, models=("mlp", "lstm", "bert-tiny", "distilbert-tiny"), **more):
        """Returns metrics and predictions of the first model."""
        self.data(name or task)
        first = None
        for model in models:
            sizes = dict(mlp=dict(hidden_sizes=16), lstm=dict(hidden_sizes=None, hidden_size=16))
            sizes = sizes.get(model, dict(hidden_sizes=None, max_steps=3))
            values = self.base(**dict(self.small(model=model, **more), **sizes))
            out = self.folder / model
            said = self.ok("train", **values, output_dir=out).stderr
            self.assertIn(f"the task is {task}", said)
            self.assertEqual(json.loads((out / "last/snug_state.json").read_text())["config"]["task"], task)
            summary = self.summary(out)
            self.assertEqual(summary["planned_arena_bytes"], summary["measured_arena_bytes"])
            metrics = json.loads(self.ok("eval", output_dir=out, model=model, test_file=self.valid_file, memory="1GiB", **more).stdout)
            for key, value in summary["final_metrics"].items():
                if key != "classes":
                    self.assertAlmostEqual(metrics[key], value, places=5, msg=key)
            self.metrics_are_of_the_whole_set(metrics, output_dir=out, model=model, **more)
            # The best folder alone says what the task is.
            found = self.predictions(model=out / "best", test_file=self.valid_file, memory="1GiB", **more)
            self.assertEqual(len(found), 40)
            first = first or (metrics, found)
        self.splits_and_resume([model for model in models if model in ("mlp", "bert-tiny")], **more)
        return first

    def metrics_are_of_the_whole_set(self, wanted, **values):
        """Other batches, other neighbours in them: the rows the other way around."""
        turned = self.folder / "turned.jsonl"
        turned.write_text("".join(reversed(self.valid_file.read_text().splitlines(keepends=True))))
        found = json.loads(self.ok("eval", **dict(values, test_file=turned, eval_batch_size=7, memory="1GiB")).stdout)
        self.assertEqual(found.get("classes"), wanted.get("classes"))
        for key in set(wanted) - {"classes"}:
            self.assertAlmostEqual(found[key], wanted[key], places=5, msg=key)

    def splits_and_resume(self, models=("mlp", "bert-tiny"), **more):
        for model in models:
            values = self.base(**self.small(model=model, hidden_sizes=16 if model == "mlp" else None, max_steps=4, hidden_dropout_prob=0.1,
                                            lr_scheduler_type="constant", **more))
            verified = self.ok("verify", **dict(values, micro_batch_size=6))
            self.assertIn("micro-batches of 6 against", verified.stdout)
            weights = [read_safetensors(self.train(f"{model}-{size}", **dict(values, optim="sgd", micro_batch_size=size)) / "last/model.safetensors")
                       for size in (16, 3)]
            self.assertLess(relative_l2(*weights), 1e-6)
            whole = self.train(f"{model}-whole", **values)
            halves = self.train(f"{model}-halves", **dict(values, max_steps=2))
            self.train(f"{model}-halves", **dict(values, resume=True))
            self.assertEqual(sha256(whole / "last/model.safetensors"), sha256(halves / "last/model.safetensors"))

    def refused(self, *texts, verb="train", **values):
        done = run(verb, *options(**self.base(**self.small(**dict(dict(output_dir=self.folder / "refused"), **values)))))
        self.assertEqual(done.returncode, 1, done.stderr + done.stdout)
        for text in texts:
            self.assertIn(text, " ".join(done.stderr.split()))


class Regression(TaskCase):
    def test_one_target(self):
        metrics, found = self.whole_way("regression")
        self.assertEqual(list(metrics), ["rows", "loss", "mse", "rmse", "mcrmse", "mae", "pearson", "spearman"])
        wanted = [json.loads(line)["label"] for line in self.valid_file.read_text().splitlines()]
        self.assertTrue(all(list(row) == ["row", "values"] and len(row["values"]) == 1 for row in found))
        squares = [(row["values"][0] - label) ** 2 for row, label in zip(found, wanted)]
        self.assertAlmostEqual(sum(squares) / len(squares), metrics["mse"], places=5)
        self.assertGreater(metrics["pearson"], 0.9)
        config = json.loads((self.folder / "bert-tiny/best/config.json").read_text())
        self.assertEqual((config["problem_type"], len(config["id2label"])), ("regression", 1))

    def test_several_targets_and_smooth_l1(self):
        metrics, found = self.whole_way("regression", "several_targets", models=("mlp",), regression_loss="smooth_l1", metric_for_best_model="pearson")
        self.assertTrue(all(len(row["values"]) == 2 for row in found))
        self.assertLess(metrics["loss"], metrics["mse"])
        self.assertLess(metrics["mse"], 0.3)

    def test_what_is_refused(self):
        self.data("regression")
        self.refused("regression_loss", "the task classification has no use for it", task="classification", regression_loss="smooth_l1")
        self.refused("metric_for_best_model", "the task regression has no 'accuracy'", "mse, rmse, mcrmse, mae", metric_for_best_model="accuracy")
        self.refused("label_smoothing_factor", "the task regression has no use for it", label_smoothing_factor=0.1)
        self.refused("train.jsonl:1", "is not an integer", "set task to regression", task="classification")
        self.refused("train.jsonl:1", "has 1 numbers, not 3", num_labels=3)
        lines = self.train_file.read_text().splitlines(keepends=True)
        for label, text in (('"much"', "'much' is no number"), ("1e60", "does not fit 32 bits"), ("[1, 2]", "has 2 numbers, not 1"),
                            ("[]", "the label is an empty list")):
            self.train_file.write_text("".join([*lines[:2], '{"text": "good", "label": %s}\n' % label, *lines[2:]]))
            self.refused("train.jsonl:3", text, task="regression")
        self.train_file.write_text("".join(lines))
        table = self.folder / "nan.csv"
        table.write_text("text,label\ngood,0.5\nbad,nan\n")
        self.refused("nan.csv:3", "the label 'nan' is no finite number", task="regression", train_file=table)
        images = common.write_cifar(self.folder / "cifar", data_batch_1=8)
        self.refused("'resnet-8' reads images", "the task regression", model="resnet-8", hidden_sizes=None, vocab_size=None, max_seq_length=None,
                     train_file=images, validation_file=None, task="regression")

    def test_a_trained_head_says_what_it_is_for(self):
        self.data("regression")
        out = self.train("first", **self.small(task="regression", max_steps=2))
        classes = self.folder / "classes.jsonl"
        write_jsonl(classes, common.make_rows(40))
        again = dict(model=out / "best", hidden_sizes=None, vocab_size=None, train_file=classes, validation_file=None, max_steps=2)
        self.refused("its head is for regression, not classification", "fresh_head", task="classification", **again)
        self.refused("is no number", **again)
        self.ok("train", **self.base(**self.small(**again, fresh_head=True, output_dir=self.folder / "second")))
        config = json.loads((self.folder / "second/best/config.json").read_text())
        self.assertEqual(config["problem_type"], "single_label_classification")

    def test_one_label_is_a_number_where_the_head_is_trained_or_it_is_said(self):
        self.data("regression")
        best = self.train("first", **self.small(task="regression", max_steps=2)) / "best"
        (best / ".snug.complete").unlink()
        config = json.loads((best / "config.json").read_text())
        del config["problem_type"]
        classes = self.folder / "classes.jsonl"
        write_jsonl(classes, [dict(row, label=i % 2) for i, row in enumerate(common.make_rows(40))])
        values = dict(hidden_sizes=None, vocab_size=None, train_file=classes, validation_file=None, max_steps=1)

        def said(name, has_head, **fields):
            folder = shutil.copytree(best, self.folder / name)
            (folder / "config.json").write_text(json.dumps(dict(config, **fields)))
            tensors = read_raw(folder / "model.safetensors")
            self.assertTrue(any(key.startswith("classifier.") for key in tensors))
            write_raw(folder / "model.safetensors", {k: v for k, v in tensors.items() if has_head or not k.startswith("classifier.")})
            out = self.folder / f"of-{name}"
            done = self.ok("train", **self.base(**self.small(model=folder, output_dir=out, **values)))
            shown = run("inspect", "--json", "--model", folder, "--train_file", classes)
            self.assertEqual(shown.returncode, 0, shown.stderr)
            return done.stderr, json.loads((out / "last/config.json").read_text())["problem_type"]

        self.assertEqual(said("trained", True)[1], "regression")
        text, task = said("headless", False)
        self.assertEqual(task, "single_label_classification")
        self.assertIn("the task is classification: what the labels of", text)
        self.assertEqual(said("said", False, problem_type="regression")[1], "regression")

    def test_csv_and_inspect(self):
        for name, labels, task in (("fractions", "0.5 1 2", "regression"), ("whole", "0 1 2", "classification"), ("names", "0.5 1 a", "classification")):
            path = self.folder / f"{name}.csv"
            path.write_text("text,label\n" + "".join(f"some words,{label}\n" for label in labels.split() * 8))
            done = self.ok("train", **self.base(**self.small(train_file=path, validation_file=None, max_steps=1, output_dir=self.folder / name)))
            self.assertIn(f"the task is {task}", done.stderr)
            self.ok("inspect", **self.base(**self.small(train_file=path, validation_file=None)))


class MultiLabel(TaskCase):
    def test_whole_way(self):
        metrics, found = self.whole_way("multi_label")
        self.assertEqual(list(metrics), ["rows", "loss", "micro_f1", "macro_f1", "weighted_f1", "subset_accuracy", "roc_auc", "classes"])
        wanted = [json.loads(line)["label"] for line in self.valid_file.read_text().splitlines()]
        same = sum(sorted(row["labels"]) == label for row, label in zip(found, wanted))
        self.assertAlmostEqual(same / len(wanted), metrics["subset_accuracy"])
        self.assertGreater(metrics["micro_f1"], 0.8)
        for row in found:
            self.assertEqual(list(row), ["row", "labels", "scores"])
            self.assertEqual(row["labels"], [name for name, score in row["scores"].items() if score >= 0.5])
        all_labels = self.predictions(model=self.folder / "mlp/best", test_file=self.valid_file, memory="1GiB", threshold=0)
        self.assertTrue(all(row["labels"] == ["money", "sport", "weather"] for row in all_labels))
        config = json.loads((self.folder / "bert-tiny/best/config.json").read_text())
        self.assertEqual(config["problem_type"], "multi_label_classification")

    def test_a_folder_keeps_what_evaluation_follows(self):
        for task, key, metric in (("multi_label", dict(threshold=0.05), "micro_f1"), ("regression", dict(regression_loss="smooth_l1"), "loss")):
            self.data(task)
            out = self.folder / task
            self.ok("train", **self.base(**self.small(max_steps=3, output_dir=out, **key)))
            logged = json.loads((out / "evaluations.jsonl").read_text().splitlines()[-1])[f"eval_{metric}"]
            config = out / "best/config.json"
            self.assertEqual(json.loads(config.read_text())["snug_task"], {name: str(value) for name, value in key.items()})
            values = dict(model=out / "best", test_file=self.valid_file, memory="1GiB", threads=1)
            done = self.ok("eval", **values)
            self.assertEqual(json.loads(done.stdout)[metric], logged)
            self.assertIn(f"{next(iter(key))}: {next(iter(key.values()))}, as in training", done.stderr)
            other = dict(threshold=0.95) if task == "multi_label" else dict(regression_loss="mse")
            self.assertNotEqual(json.loads(self.ok("eval", **values, **other).stdout)[metric], logged)
            self.ok("train", **self.base(**self.small(model=out / "best", hidden_sizes=None, vocab_size=None, max_steps=1,
                                                      output_dir=self.folder / f"{task}-more")))
            self.assertEqual(json.loads((self.folder / f"{task}-more/best/config.json").read_text())["snug_task"],
                             {name: str(value) for name, value in key.items()})
            for field in ({"no_key": "1"}, {next(iter(key)): "much"}):
                copy = self.folder / f"{task}-{next(iter(field))}"
                shutil.copytree(out / "best", copy)
                (copy / ".snug.complete").unlink()
                (copy / "config.json").write_text(json.dumps(dict(json.loads(config.read_text()), snug_task=field)))
                done = run("eval", *options(**dict(values, model=copy)))
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("snug_task", done.stderr)

    def test_the_best_may_be_that_of_any_metric(self):
        self.data("multi_label")
        for metric in ("roc_auc", "eval_weighted_f1"):
            values = self.base(**self.small(metric_for_best_model=metric, eval_steps=10))
            out = self.folder / metric
            self.ok("train", **values, output_dir=out)
            best = json.loads((out / "last/snug_state.json").read_text())["best_metric"]
            found = json.loads(self.ok("eval", output_dir=out, model="mlp", test_file=self.valid_file, memory="1GiB").stdout)
            self.assertAlmostEqual(found[metric.removeprefix("eval_")], best, places=6)

    def test_what_is_refused(self):
        self.data("multi_label")
        self.refused("threshold", "the task classification has no use for it", task="classification", threshold=0.4)
        self.refused("the label is a list", task="classification")
        lines = self.train_file.read_text().splitlines(keepends=True)
        for label, text in (('["sport", "sport"]', "stands twice"), ("[1, 2]", "no list of texts"), ('"sport"', "no list of texts"),
                            ('["sport", 1]', "texts and numbers")):
            self.train_file.write_text("".join([*lines[:2], '{"text": "good", "label": %s}\n' % label, *lines[2:]]))
            self.refused("train.jsonl:3", text, task="multi_label")
        self.train_file.write_text("".join(lines))
        write_jsonl(self.valid_file, [{"text": "sun", "label": ["weather", "other"]}])
        self.refused("valid.jsonl:1", "the label 'other' does not occur in the training data")


class TokenClassification(TaskCase):
    models = ("bert-tiny", "distilbert-tiny")

    def test_whole_way(self):
        metrics, found = self.whole_way("token_classification", models=self.models, metric_for_best_model="f1", max_seq_length=20)
        self.assertEqual(list(metrics), ["rows", "loss", "precision", "recall", "f1", "accuracy", "span_scheme", "classes"])
        rows = [json.loads(line) for line in self.valid_file.read_text().splitlines()]
        pairs = [pair for row, predicted in zip(rows, found) for pair in zip(row["label"], predicted["labels"], strict=True)]
        self.assertTrue(any(label is None for _, label in pairs), "no word was cut off")
        kept = [(wanted, label) for wanted, label in pairs if label is not None]
        self.assertAlmostEqual(sum(wanted == label for wanted, label in kept) / len(kept), metrics["accuracy"])
        for model, name in zip(self.models, ("BertForTokenClassification", "DistilBertForTokenClassification")):
            config = json.loads((self.folder / model / "best/config.json").read_text())
            self.assertEqual((config["architectures"], config.get("problem_type")), ([name], None))
            self.assertEqual(sorted(config["id2label"].values()), ["B-LOC", "B-PER", "I-LOC", "O"])

    def test_it_learns(self):
        self.data("token_classification")
        out = self.train("learns", model="bert-tiny", vocab_size=80, max_steps=40, train_batch_size=16, learning_rate=2e-3)
        self.assertGreater(self.summary(out)["final_metrics"]["f1"], 0.9)

    def test_spans_are_read_as_the_rows_write_them(self):
        """As IOB1: I begins a span, B one behind another of its kind."""
        def row(i):
            names = ["Ann", "Bob", "Eve"]
            words = ["saw", names[i % 3], "in", ["Rome", "Oslo"][i % 2]] + (["y", *names[:2]] if i % 8 == 0 else [])
            return {"text": words, "label": ["O", "I-PER", "O", "I-LOC"] + (["O", "I-PER", "B-PER"] if i % 8 == 0 else [])}
        for path, count in ((self.train_file, 160), (self.valid_file, 40)):
            write_jsonl(path, [row(i) for i in range(count)])
        values = dict(model="bert-tiny", vocab_size=60, max_steps=40, train_batch_size=16, learning_rate=3e-3, metric_for_best_model="f1")
        done = self.ok("train", **self.base(output_dir=self.folder / "out", **values))
        self.assertEqual(done.stderr.count("spans are read as IOB1 (span_scheme: auto)"), 1, done.stderr)
        metrics = self.summary(self.folder / "out")["final_metrics"]
        self.assertEqual(metrics["span_scheme"], "IOB1")
        self.assertGreater(metrics["f1"], 0.9)
        keys = dict(test_file=self.valid_file, memory="1GiB", threads=2)
        self.assertEqual(json.loads(self.ok("eval", model=self.folder / "out/best", **keys).stdout)["f1"], metrics["f1"])
        out = self.train("kept", **dict(values, max_steps=1, span_scheme="IOB2"))
        self.assertEqual(json.loads(self.ok("eval", model=out / "best", **keys).stdout)["span_scheme"], "IOB2")

    def test_other_tags_have_no_spans(self):
        rows = [{"text": ["see", "rome"], "label": ["VERB", "NOUN"]} for _ in range(16)]
        write_jsonl(self.train_file, rows)
        out = self.train("verbs", model="bert-tiny", max_steps=1, validation_file=None, validation_split=0.5)
        metrics = self.summary(out)["final_metrics"]
        self.assertEqual([metrics[name] for name in ("precision", "recall", "f1")], [None, None, None])
        self.assertGreaterEqual(metrics["accuracy"], 0)
        self.refused("[span_scheme] the label 'NOUN' is not of IOB1", "omit span_scheme", model="bert-tiny", hidden_sizes=None,
                     validation_file=None, span_scheme="IOB1")

    def test_what_is_refused(self):
        self.data("token_classification")
        small = dict(model="bert-tiny", hidden_sizes=None)
        for model in ("mlp", "lstm"):
            self.refused(f"'{model}' has no head for the task token_classification", model=model, hidden_sizes=None)
        self.refused("text_pair_column", "one list of words a row", text_pair_column="other", task="token_classification", **small)
        lines = self.train_file.read_text().splitlines(keepends=True)
        for row, text in (('"text": ["a", "b"], "label": ["O"]', "1 labels for 2 words"), ('"text": "a b", "label": ["O", "O"]', "is a string, not a list"),
                          ('"text": ["a"], "label": [1]', "a list of ids, those before are lists of names"), ('"text": ["a"], "label": "O"', "no list of texts")):
            self.train_file.write_text("".join([*lines[:2], "{%s}\n" % row, *lines[2:]]))
            self.refused("train.jsonl:3", text, task="token_classification", **small)
        self.train_file.write_text("".join(lines))
        self.refused("the column 'text' is an array", task="classification", **small)

    def test_an_encoder_takes_either_head(self):
        self.data("token_classification")
        tokens = self.train("tokens", model="bert-tiny", vocab_size=80, max_steps=2) / "best"
        classes = self.folder / "classes.jsonl"
        write_jsonl(classes, common.make_rows(40))
        further = dict(model=tokens, train_file=classes, validation_file=None, vocab_size=None, max_steps=2)
        self.refused("its head is for token_classification, not classification", task="classification", hidden_sizes=None, **further)
        rows = self.train("rows", fresh_head=True, **further) / "best"
        again = self.train("again", model=rows, vocab_size=None, max_steps=2, fresh_head=True) / "best"
        names = {path: set(common.read_safetensors_header(path / "model.safetensors")) for path in (tokens, rows, again)}
        self.assertEqual(names[again], names[tokens])
        self.assertEqual(names[rows] - names[tokens], {"bert.pooler.dense.weight", "bert.pooler.dense.bias"})


if __name__ == "__main__":
    common.main()

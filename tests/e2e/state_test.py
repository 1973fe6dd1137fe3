"""What a run keeps: only finite numbers, files that are what was written, and keys that may change when it goes on."""
import json
import math
import os
import pathlib
import shutil
import struct

import common
from common import Case, options, run, sha256

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"


def write_value(path, name, value, index=0):
    """Sets an element of a tensor of a safetensors file."""
    data = bytearray(path.read_bytes())
    (length,) = struct.unpack("<Q", data[:8])
    begin = 8 + length + json.loads(data[8:8 + length])[name]["data_offsets"][0] + 4 * index
    data[begin:begin + 4] = struct.pack("<f", value)
    path.write_bytes(data)


def write_marker(folder, is_new=True):
    """Makes the marker agree with the files, in this format or the older one."""
    files = sorted(path for path in folder.iterdir() if path.name != ".snug.complete")
    if is_new:
        text = json.dumps({"format": 2, "files": {path.name: {"bytes": path.stat().st_size, "sha256": sha256(path)} for path in files}})
    else:
        text = "".join(f"{path.stat().st_size} {path.name}\n" for path in files)
    (folder / ".snug.complete").write_text(text)


class Tiny(Case):
    rows = 60

    def base(self, **more):
        return super().base(**dict(dict(max_seq_length=8, recompute="none"), **more))


class Finite(Tiny):
    EXTREMES = ({"learning_rate": 1e300}, {"adam_epsilon": 1e-300}, {"weight_decay": 1e300})

    def assert_no_checkpoint(self, out):
        self.assertEqual([path.name for path in out.iterdir() if path.is_dir()], [])

    def test_nothing_that_is_not_finite_is_saved_and_the_hint_works(self):
        for i, extreme in enumerate(self.EXTREMES):
            for save_steps in (0, 1):
                out = self.folder / f"run{i}{save_steps}"
                good = self.base(output_dir=out, max_steps=1, save_steps=save_steps)
                done = run("train", *options(**dict(good, **extreme)))
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertIn("there is no checkpoint", done.stderr)
                self.assertIn(next(iter(extreme)), done.stderr.split("hint: ")[1])
                self.assert_no_checkpoint(out)
                self.ok("train", **dict(good, resume=True))

    def test_the_last_good_checkpoint_stays_and_a_resume_with_other_values_goes_on(self):
        base = self.base(max_steps=4, save_steps=2)
        for i, extreme in enumerate(self.EXTREMES):
            out = self.train(f"run{i}", **dict(base, max_steps=2))
            before = {name: sha256(out / name) for name in ("last/model.safetensors", "best/model.safetensors")}
            done = run("train", *options(**dict(base, output_dir=out, resume=True, **extreme)))
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn(f"{out}/last (after update 2)", done.stderr)
            self.assertEqual({name: sha256(out / name) for name in before}, before)
            done = self.ok("train", **dict(base, output_dir=out, resume=True))
            self.assertEqual(self.summary(out)["steps"], 4)
            for tensor in common.read_safetensors(out / "last/optimizer.safetensors").values():
                self.assertTrue(all(map(math.isfinite, tensor)))

    def test_a_checkpoint_whose_weights_are_useless_is_not_gone_on_from(self):
        # One update makes weights that are finite, and whose loss is not.
        for name, extreme in (("lion", dict(optim="lion", learning_rate=1e30)), ("sgd", dict(optim="sgd", momentum=0.9, learning_rate=1e38))):
            out = self.folder / name
            base = self.base(output_dir=out, save_steps=1, max_steps=3, validation_file=None, validation_split=0)
            last = f"remove {out}/last and add --resume"
            for more in (extreme, dict(extreme, learning_rate=1e-3, resume=True)):
                done = run("train", *options(**dict(base, **more)))
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertIn(f"the weights of the last checkpoint, {out}/last (after update 1), give it already", done.stderr)
                self.assertIn(last, done.stderr.split("hint: ")[1])
            shutil.rmtree(out / "last")
            self.ok("train", **dict(base, **dict(extreme, learning_rate=1e-3, resume=True)))
            self.assertEqual([line["step"] for line in map(json.loads, (out / "metrics.jsonl").read_text().splitlines())], [1, 2, 3])
        # Such weights to begin with: no rate helps.
        write_value(out / "last/model.safetensors", "classifier.weight", 3e38)
        write_value(out / "last/model.safetensors", "bert.pooler.dense.bias", 3e38)
        write_value(out / "last/model.safetensors", "classifier.bias", 3e38)
        (out / "last/.snug.complete").unlink()
        done = run("train", *options(**self.base(output_dir=self.folder / "tuned", model=out / "last", vocab_size=None)))
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("the weights that training begins with give it already", done.stderr)
        self.assertNotIn("learning_rate", done.stderr.split("hint: ")[1])

    def test_whoever_followed_the_hint_is_told_to_begin_again(self):
        base = dict(self.base(max_steps=6, save_steps=1, eval_steps=3, validation_file=None, validation_split=0.2))
        for i, (extreme, begun, key) in enumerate(((dict(fp16_full_eval=True), "last good checkpoint", "fp16_full_eval"),
                                                   (dict(fp16=True, learning_rate=1e30), "give it already", "fp16"))):
            out = self.folder / f"run{i}"
            for more, kept in ((extreme, begun), (dict(extreme, learning_rate=1e-5, resume=True), begun)):
                done = run("train", *options(**dict(base, **{"output_dir": out, "learning_rate": 1000, **more})))
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertIn("the loss of the evaluation is not finite", done.stderr)
                self.assertIn(kept, done.stderr)
                hint = done.stderr.split("hint: ")[1]
                self.assertIn(f"{key}, whose numbers end at 65504", hint)
                self.assertIn(f"begin again: remove {out}/last and add --resume", hint)
            shutil.rmtree(out / "last")  # as the hint says
            self.ok("train", **dict(base, output_dir=out, resume=True))

    def test_weights_that_are_not_finite_are_refused_by_name(self):
        out = self.train("run", max_steps=1)
        (out / "best/.snug.complete").unlink()
        write_value(out / "best/model.safetensors", "classifier.bias", math.nan)
        data = options(test_file=self.valid_file, memory="1GiB", threads=2)
        for verb in ("eval", "predict"):
            done = run(verb, *options(output_dir=out), *data)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn("classifier.bias", done.stderr)
            self.assertEqual(done.stdout, "")
        tuned = run("train", *options(**self.base(output_dir=self.folder / "tuned", model=out / "best", vocab_size=None)))
        self.assertEqual(tuned.returncode, 3, tuned.stderr)
        self.assertEqual(tuned.stdout, "")  # no plan for what cannot be trained
        self.assertFalse((self.folder / "tuned/plan.json").exists())
        self.assert_no_checkpoint(self.folder / "tuned")

    def test_weights_that_are_not_finite_are_not_written_again(self):
        out = self.train("run", max_steps=1)
        base = out / "best"
        adapters = self.train("adapters", model=base, vocab_size=None, max_steps=1,
                              lora=json.dumps({"match": "*.query.weight", "r": 2})) / "best"
        to = self.folder / "written"
        verbs = {"export": ["--model", base], "export to bfloat16": ["--model", base, "--dtype", "bfloat16"], "convert": [base],
                 "merge": ["--model", base, "--adapter", adapters]}

        def refused(name, *texts):
            done = run(name.split()[0], *verbs[name], "--output", to)
            self.assertEqual(done.returncode, 3, name + done.stderr)
            for text in texts:
                self.assertIn(text, done.stderr)
            self.assertFalse(to.exists())

        (adapters / ".snug.complete").unlink()
        finite = (adapters / "adapter_model.safetensors").read_bytes()
        name = next(name for name in common.read_safetensors(adapters / "adapter_model.safetensors") if "lora_A" in name)
        for value, texts in ((-math.nan, (f"'{name}' is nan at element 0",)), (3e38, ("query.weight' is ",))):
            write_value(adapters / "adapter_model.safetensors", name, value)
            if value == 3e38:  # finite, and its product is not
                write_value(adapters / "adapter_model.safetensors", name.replace("lora_A", "lora_B"), 3e38)
            refused("merge", *texts)
        (adapters / "adapter_model.safetensors").write_bytes(finite)
        (base / ".snug.complete").unlink()
        write_value(base / "model.safetensors", "bert.embeddings.LayerNorm.weight", -math.nan, index=2)
        for name in verbs:
            refused(name, f"[{base}", "'bert.embeddings.LayerNorm.weight' is nan at element 2", "the weights are not finite")

    def test_a_loss_of_eval_that_is_not_finite_is_exit_3(self):
        out = self.train("run", max_steps=1)
        (out / "best/.snug.complete").unlink()
        write_value(out / "best/model.safetensors", "classifier.weight", 3e38)
        write_value(out / "best/model.safetensors", "bert.pooler.dense.bias", 3e38)
        write_value(out / "best/model.safetensors", "classifier.bias", 3e38)
        for verb in ("eval", "predict"):
            done = run(verb, *options(output_dir=out, test_file=self.valid_file, memory="1GiB", threads=2))
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertIn("not finite", done.stderr)
            self.assertNotIn("-nan", done.stderr)

    def test_an_evaluation_that_is_not_finite_ends_training_with_3(self):
        # Only the validation file has characters that are not in the vocabulary.
        start = self.train("run", max_steps=1) / "best"
        (start / ".snug.complete").unlink()
        tokens = json.loads((start / "tokenizer.json").read_text())["model"]["vocab"]
        hidden_size = json.loads((start / "config.json").read_text())["hidden_size"]
        for column in (0, 1):  # their sum is more than a float holds
            write_value(start / "model.safetensors", "bert.embeddings.word_embeddings.weight", 3e38,
                        tokens["[UNK]"] * hidden_size + column)
        valid_file = self.folder / "unknown.jsonl"
        label = json.loads(self.train_file.read_text().splitlines()[0])["label"]
        common.write_jsonl(valid_file, [{"text": "\u03a9", "label": label}])
        done = run("train", *options(**self.base(output_dir=self.folder / "tuned", model=start, validation_file=valid_file, max_steps=1,
                                                 vocab_size=None)))
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("the loss of the evaluation is not finite", done.stderr)
        self.assertNotIn("-nan", done.stderr)
        self.assert_no_checkpoint(self.folder / "tuned")


class Changes(Tiny):
    def changed_lines(self, out):
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        return [line for line in lines if "changed" in line]

    def test_the_recipe_may_change_and_every_change_is_said(self):
        other = dict(learning_rate=5e-4, adam_epsilon=1e-7, weight_decay=0.01, max_grad_norm=0, warmup_steps=3, warmup_ratio=0.2,
                     lr_scheduler_type="cosine", max_steps=9, num_train_epochs=2, logging_steps=2, save_steps=3, save_total_limit=1,
                     memory="900MiB", threads=1)
        out = self.train("run", max_steps=2)
        done = self.ok("train", **dict(self.base(output_dir=out, resume=True), **other))
        (line,) = self.changed_lines(out)
        self.assertEqual(line["step"], 2)
        self.assertEqual(set(line["changed"]), set(other))
        for key in other:
            self.assertIn(f"changed: {key} from", done.stderr)
        self.assertIn("schedule: cosine with a peak of 5e-04, 3 warm-up updates, 9 updates in all, 2 done", done.stderr)
        self.assertEqual(self.summary(out)["steps"], 9)
        # And back: a clipped run goes on from an unclipped one.
        self.ok("train", **dict(self.base(output_dir=out, resume=True), **dict(other, max_grad_norm=1.0, max_steps=10)))
        self.assertEqual(self.summary(out)["steps"], 10)
        self.assertEqual(self.changed_lines(out)[1]["changed"]["max_grad_norm"], {"from": "0", "to": "1"})

    def test_a_finished_run_that_gets_more_updates_is_the_longer_run(self):
        base = dict(lr_scheduler_type="constant", validation_file=None, validation_split=0)
        wanted = self.train("whole", max_steps=6, **base)
        out = self.train("run", max_steps=3, **base)
        self.ok("train", **self.base(output_dir=out, resume=True, max_steps=6, **base))
        for name in ("last/model.safetensors", "last/optimizer.safetensors"):
            self.assertEqual(sha256(out / name), sha256(wanted / name), name)
        fewer = run("train", *options(**self.base(output_dir=out, resume=True, max_steps=4, **base)))
        self.assertEqual(fewer.returncode, 1)
        self.assertIn("max_steps", fewer.stderr)

    def test_what_decides_the_mathematics_is_refused(self):
        out = self.train("run", max_steps=2)
        for key, value in {"seed": 4, "train_batch_size": 16, "optim": "sgd", "max_seq_length": 16, "adam_beta1": 0.8,
                           "metric_for_best_model": "accuracy", "label_smoothing_factor": 0.1}.items():
            done = run("train", *options(**dict(self.base(output_dir=out, resume=True, max_steps=2), **{key: value})))
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(f"[{key}]", done.stderr)

    def test_the_tokens_stay(self):
        out = self.train("run", max_steps=2)
        same, other = self.folder / "same", self.train("other", max_steps=1, vocab_size=90) / "last"
        shutil.copytree(out / "last", same)
        again = dict(self.base(output_dir=out, resume=True, max_steps=3, lr_scheduler_type="constant"))
        done = run("train", *options(**dict(again, tokenizer=other)))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("[tokenizer]", done.stderr)
        self.assertIn("other tokens", done.stderr)
        self.ok("train", **dict(again, tokenizer=same))

    def test_data_may_move_but_not_change(self):
        base = self.base(max_steps=6, save_steps=2, lr_scheduler_type="constant")
        wanted = self.train("whole", **base)
        out = self.train("run", **dict(base, max_steps=2))
        moved = self.folder / "moved"
        moved.mkdir()
        train_file = shutil.move(self.train_file, moved / "t.jsonl")
        valid_file = shutil.move(self.valid_file, moved / "v.jsonl")
        again = dict(base, output_dir=out, resume=True, train_file=train_file, validation_file=valid_file)
        for path in (train_file, valid_file):
            text = path.read_text()
            path.write_text(text.replace("cat", "dog", 1) + text.splitlines()[0] + "\n")
            changed = run("train", *options(**again))
            self.assertEqual(changed.returncode, 1, changed.stderr)
            self.assertIn(f"[{path}]", changed.stderr)
            path.write_text(text)
        self.ok("train", **again)
        self.assertEqual(sha256(out / "last/model.safetensors"), sha256(wanted / "last/model.safetensors"))

    def swap_labels(self, path):
        """Other rows of equal size and time, as a file system of whole seconds or a copy with its time has them."""
        times = path.stat()
        text = path.read_text()
        for name, other in (("food", "F00D"), ("tool", "food"), ("F00D", "tool")):
            text = text.replace(f'"label": "{name}"', f'"label": "{other}"')
        path.write_text(text)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        self.assertEqual((path.stat().st_size, path.stat().st_mtime_ns), (times.st_size, times.st_mtime_ns))

    def test_changed_data_of_equal_size_and_time_are_seen_behind_every_cache(self):
        cache = self.folder / "cache"
        base = dict(max_steps=2, validation_file=None, validation_split=0)
        out = self.train("run", **base)
        self.train("first", **dict(base, cache_dir=cache))
        values = dict(model=out / "last", test_file=self.train_file, memory="1GiB", threads=2, cache_dir=self.folder / "eval")
        losses = [json.loads(self.ok("eval", **values).stdout)["loss"]]
        self.swap_labels(self.train_file)
        done = run("train", *options(**self.base(**dict(base, output_dir=out, max_steps=4, resume=True))))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(f"[{self.train_file}] the rows or their tokens changed", done.stderr)
        shared, alone = self.train("shared", **dict(base, cache_dir=cache)), self.train("alone", **base)
        self.assertEqual(sha256(shared / "last/model.safetensors"), sha256(alone / "last/model.safetensors"))
        losses += [json.loads(self.ok("eval", **dict(values, cache_dir=folder)).stdout)["loss"]
                   for folder in (values["cache_dir"], self.folder / "fresh")]
        self.assertEqual(losses[1], losses[2])
        self.assertNotEqual(losses[0], losses[1])


class Network(Tiny):
    """The model's folder is the user's; a run goes on with the network that it began with."""
    EDITS = dict(hidden_act="relu", num_attention_heads=4, layer_norm_eps=1e-5, hidden_dropout_prob=0.3, attention_probs_dropout_prob=0.0,
                 classifier_dropout=0.4)

    def edit(self, path, **fields):
        path.write_text(json.dumps(dict(json.loads(path.read_text()), **fields)))

    def refuse(self, where, field, **values):
        done = run("train", *options(**dict(values, resume=True)))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(f"[{where}] the network changed since the run began: \"{field}\" is", done.stderr)
        return done.stderr

    def test_an_edited_config_json_is_refused_by_field(self):
        start = self.train("start", max_steps=1) / "best"
        alone = self.folder / "alone.json"
        shutil.copy(start / "config.json", alone)
        lora = json.dumps({"match": "*.query.weight", "r": 2})
        for name, model, more in (("folder", start, {}), ("fresh", alone, {"tokenizer": start}), ("lora", start, {"lora": lora}),
                                  ("frozen", start, {"freeze": "bert.encoder.*", "frozen_dtype": "bfloat16"})):
            more = dict(more, model=model, vocab_size=None, max_steps=4, lr_scheduler_type="constant")
            wanted = self.train(f"{name}-whole", **more)
            values = self.base(output_dir=self.folder / name, **more)
            self.ok("train", **dict(values, max_steps=2))
            config = model / "config.json" if model.is_dir() else model
            original = config.read_text()
            for field, value in self.EDITS.items():
                self.edit(config, **{field: value})
                own = "snug_config.json" if name == "lora" else "config.json"
                self.assertIn(f"{values['output_dir']}/last/{own} says", self.refuse(config, field, **values))
                config.write_text(original)
            self.edit(config, transformers_version="9.9")  # says nothing of the network
            self.ok("train", **dict(values, resume=True))
            weights = "last/adapter_model.safetensors" if name == "lora" else "last/model.safetensors"
            self.assertEqual(sha256(values["output_dir"] / weights), sha256(wanted / weights), name)
            config.write_text(original)

    def test_edited_adapters_that_a_run_began_with_are_refused_by_field(self):
        base = self.train("start", max_steps=1) / "best"
        adapters = self.train("adapters", model=base, vocab_size=None, max_steps=1, lora=json.dumps({"match": "*.query.weight", "r": 2})) / "best"
        values = self.base(model=base, lora_adapter=adapters, vocab_size=None, output_dir=self.folder / "run", max_steps=2)
        self.ok("train", **values)
        path = adapters / "adapter_config.json"
        original = path.read_text()
        for field, value in (("lora_alpha", 3), ("lora_dropout", 0.25)):
            self.edit(path, **{field: value})
            self.refuse(path, field, **dict(values, max_steps=4))
            path.write_text(original)
        self.ok("train", **dict(values, max_steps=4, resume=True))

    def test_a_setting_of_the_task_may_change_by_its_key_alone(self):
        rows = [json.loads(line) for line in self.train_file.read_text().splitlines()]
        common.write_jsonl(self.train_file, [dict(row, label=[row["label"]]) for row in rows])
        values = dict(task="multi_label", validation_file=None, validation_split=0.2, lr_scheduler_type="constant")
        start = self.train("start", max_steps=1, threshold=0.9, **values) / "best"
        again = self.base(**values, model=start, vocab_size=None, output_dir=self.folder / "run")
        self.ok("train", **dict(again, max_steps=2))
        self.edit(start / "config.json", snug_task={"threshold": "0.2"})
        self.refuse(start / "config.json", "snug_task.threshold", **dict(again, max_steps=4))
        self.edit(start / "config.json", snug_task={"threshold": "0.9"})
        done = self.ok("train", **dict(again, max_steps=4, resume=True, threshold=0.3))
        self.assertIn("changed: threshold from", done.stderr)


class Best(Tiny):
    def resumed(self, out, **more):
        return self.ok("train", **self.base(output_dir=out, resume=True, **more))

    def best_of(self, out):
        state = json.loads((out / "last/trainer_state.json").read_text())
        return state["best_global_step"], state["best_metric"], state["best_model_checkpoint"]

    def test_best_that_is_gone_is_said_and_written_again_by_the_next_evaluation(self):
        values = dict(eval_steps=2, learning_rate=1e-3, lr_scheduler_type="constant")
        out = self.train("run", max_steps=2, **values)
        shutil.rmtree(out / "best")
        step, metric, _ = self.best_of(out)
        done = self.resumed(out, max_steps=6, **dict(values, learning_rate=0.5))  # the loss rises
        self.assertIn(f"{out}/best is gone: its metric of ", done.stderr)
        self.assertIn("after update 2 is forgotten, and the next evaluation writes the folder again", done.stderr)
        self.assertEqual(step, 2)
        kept = {row["step"]: row["eval_loss"] for row in map(json.loads, (out / "evaluations.jsonl").read_text().splitlines())}
        best = min((loss, at) for at, loss in kept.items() if at > 2)
        self.assertGreater(best[0], metric)
        self.assertEqual(self.best_of(out), (best[1], best[0], f"{out}/best"))
        self.assertTrue((out / "best/model.safetensors").exists())
        self.ok("eval", output_dir=out, test_file=self.valid_file, memory="1GiB", threads=2)

    def test_best_that_is_gone_changes_nothing_of_early_stopping(self):
        values = dict(eval_steps=1, early_stopping_patience=3, learning_rate=1e-3, lr_scheduler_type="constant", max_steps=30)
        rising = dict(values, learning_rate=0.5)
        results = []
        for name in ("kept", "lost"):
            out = self.train(name, **dict(values, max_steps=1))
            if name == "lost":
                shutil.rmtree(out / "best")
            self.resumed(out, **rising)
            results.append((self.summary(out)["steps"], sha256(out / "last/model.safetensors"), sha256(out / "last/optimizer.safetensors")))
            self.assertEqual(self.summary(out)["status"], "early_stopped")
        self.assertEqual(*results)

    def test_damaged_weights_of_best_are_refused_and_other_edits_are_said(self):
        values = dict(eval_steps=2, lr_scheduler_type="constant")
        out = self.train("run", max_steps=2, **values)
        path = out / "best/model.safetensors"
        data = path.read_bytes()
        for change in (lambda: path.write_bytes(data[:-9] + bytes([data[-9] ^ 1]) + data[-8:]), lambda: path.write_bytes(data[:-1]), path.unlink,
                       (out / "best/tokenizer.json").unlink):
            names = {name: (out / "best" / name).read_bytes() for name in ("model.safetensors", "tokenizer.json")}
            last = sha256(out / "last/snug_state.json")
            change()
            done = run("train", *options(**self.base(output_dir=out, resume=True, max_steps=4, **values)))
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(f"[{out}/best/", done.stderr)
            self.assertIn(f"put a copy of {out}/best in its place, or remove the folder", done.stderr)
            self.assertEqual(sha256(out / "last/snug_state.json"), last)
            for name, text in names.items():
                (out / "best" / name).write_bytes(text)
        config = json.loads((out / "best/config.json").read_text())
        (out / "best/config.json").write_text(json.dumps(dict(config, note="mine")))
        done = self.resumed(out, max_steps=4, **values)
        self.assertIn(f"{out}/best/config.json: the file has ", done.stderr)


class Files(Tiny):
    def refuse(self, out, *words, verb="train", code=1, **more):
        values = self.base(output_dir=out, resume=True, **more) if verb == "train" else dict(
            output_dir=out, test_file=self.valid_file, memory="1GiB", threads=2)
        done = run(verb, *options(**values))
        self.assertEqual(done.returncode, code, done.stderr)
        for word in words:
            self.assertIn(str(word), done.stderr)
        self.assertNotIn("bug", done.stderr)

    def flip_bytes(self, path):
        data = bytearray(path.read_bytes())
        data[-9] ^= 1
        data[-5] ^= 1
        path.write_bytes(data)

    def test_the_marker_holds_bytes_and_sha256_of_every_file(self):
        out = self.train("run", max_steps=2, save_steps=2, save_total_limit=1)
        for name in ("last", "best", "checkpoint-2"):
            marker = json.loads((out / name / ".snug.complete").read_text())
            self.assertEqual(marker["format"], 2)
            files = {path.name: {"bytes": path.stat().st_size, "sha256": sha256(path)} for path in (out / name).iterdir()
                     if path.name != ".snug.complete"}
            self.assertEqual(marker["files"], files)

    def test_a_file_that_the_marker_does_not_name_is_refused_and_one_that_is_never_read_is_not(self):
        values = dict(max_steps=4)
        out = self.train("run", max_steps=2)
        marker = out / "last/.snug.complete"
        whole = json.loads(marker.read_text())
        for name in whole["files"]:
            files = {other: record for other, record in whole["files"].items() if other != name}
            marker.write_text(json.dumps(dict(whole, files=files)))
            self.refuse(out, f"[{out}/last/{name}]", "marker does not name", **values)
        for verb in ("eval", "predict"):
            marker.write_text(json.dumps(dict(whole, files={})))
            shutil.rmtree(out / "best", ignore_errors=True)
            self.refuse(out, "last/model.safetensors", f"remove {marker}", verb=verb)
        marker.write_text(json.dumps(whole))
        (out / "last/README.md").write_text("mine")
        self.ok("train", **self.base(output_dir=out, resume=True, **values))

    def test_changed_bytes_are_found_and_an_older_checkpoint_takes_their_place(self):
        values = dict(max_steps=4, save_steps=2, save_total_limit=1)
        out = self.train("run", **values)
        wanted = sha256(out / "last/model.safetensors")
        for name in ("model.safetensors", "optimizer.safetensors", "config.json", "tokenizer.json", "snug_state.json", "trainer_state.json"):
            original = (out / "last" / name).read_bytes()
            self.flip_bytes(out / "last" / name)
            self.refuse(out, f"{out}/last/{name}", "SHA-256", f"rename {out}/checkpoint-4", **values)
            (out / "last" / name).write_bytes(original)
        (out / "last/vocab.txt").unlink()
        self.refuse(out, "last/vocab.txt", "is gone", **values)
        shutil.rmtree(out / "last")
        (out / "checkpoint-4").rename(out / "last")
        self.ok("train", **self.base(output_dir=out, resume=True, **values))
        self.assertEqual(sha256(out / "last/model.safetensors"), wanted)

    def test_changed_weights_are_refused_before_training_plans(self):
        folder = self.train("run", max_steps=1) / "best"
        self.flip_bytes(folder / "model.safetensors")
        done = run("train", *options(**self.base(output_dir=self.folder / "tuned", model=folder)))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(f"remove {folder}/.snug.complete", done.stderr)
        self.assertNotIn("planned peak", done.stdout)

    def test_changed_weights_are_refused_by_eval_unless_they_are_meant(self):
        out = self.train("run", max_steps=1)
        self.flip_bytes(out / "best/model.safetensors")
        for verb in ("eval", "predict"):
            self.refuse(out, "best/model.safetensors", f"remove {out}/best/.snug.complete", verb=verb)
        (out / "best/.snug.complete").unlink()
        self.ok("eval", output_dir=out, test_file=self.valid_file, memory="1GiB", threads=2)

    def test_a_checkpoint_of_the_older_format_resumes_with_a_message(self):
        values = dict(max_steps=4)
        wanted = self.train("whole", **values)
        out = self.train("run", **dict(values, save_steps=2))
        write_marker(out / "last", is_new=False)
        done = self.ok("train", **self.base(output_dir=out, resume=True, save_steps=2, **values))
        self.assertIn("older version", done.stderr)
        self.assertEqual(sha256(out / "last/model.safetensors"), sha256(wanted / "last/model.safetensors"))
        self.assertEqual(json.loads((out / "last/.snug.complete").read_text())["format"], 2)

    def test_a_checkpoint_whose_state_is_trainer_state_json_resumes(self):
        """tests/golden/older_run: written before snug_state.json existed."""
        for is_new in (True, False):
            out = self.folder / f"older_{is_new}"
            shutil.copytree(GOLDEN / "older_run", out)
            write_marker(out / "last", is_new)
            values = dict(model="mlp", hidden_sizes=4, vocab_size=60, max_seq_length=8, train_file=out / "rows.jsonl", output_dir=out,
                          train_batch_size=8, lr_scheduler_type="constant", logging_steps=1, eval_steps=2, save_steps=2, memory="256MiB", threads=1)
            done = self.ok("train", **values, max_steps=8, resume=True)
            self.assertIn("resuming after update 4", done.stderr)
            state = json.loads((out / "last/trainer_state.json").read_text())
            self.assertEqual(state["global_step"], 8)
            self.assertEqual([entry["step"] for entry in state["log_history"] if "eval_loss" in entry], [6, 8])
            self.assertEqual([entry["step"] for entry in state["log_history"] if "loss" in entry], [5, 6, 7, 8])
            self.ok("train", **values, max_steps=10, resume=True)

    def test_a_state_without_the_rows_hash_goes_on_and_says_so(self):
        values = dict(lr_scheduler_type="constant")
        wanted = self.train("wanted", max_steps=4, **values)
        out = self.train("older", max_steps=2, **values)
        path = out / "last/snug_state.json"
        state = json.loads(path.read_text())
        for name in ("rows_hash", "validation_rows_hash"):
            del state[name]
        del state["config"]["task"]  # an older version knew none
        path.write_text(json.dumps(dict(state, content_hash="1")))
        write_marker(out / "last")
        done = self.ok("train", **self.base(output_dir=out, resume=True, max_steps=4, **values))
        self.assertIn("whether its rows are those of", done.stderr)
        self.assertEqual(sha256(out / "last/model.safetensors"), sha256(wanted / "last/model.safetensors"))

    def test_every_field_of_an_edited_state_is_checked(self):
        values = dict(max_steps=4)
        out = self.train("run", **values)
        path = out / "last/snug_state.json"
        original = path.read_text()
        nan = str(struct.unpack("<Q", struct.pack("<d", math.nan))[0])
        edits = [("global_step", -3), ("global_step", 10**15), ("global_step", 3), ("global_step", "4"), ("epoch", -1),
                 ("schedule_step", -1), ("schedule_step", 5), ("optimizer_step", 5), ("optimizer_step", "4"),
                 ("batch", 10**6), ("batch", -1), ("micro_batch", 0), ("micro_batch", 9), ("micro_batch", 2**40),
                 ("rows_hash", "x"), ("rows_hash", "-1"), ("validation_rows_hash", "1.5"), ("stale_evaluations", -1),
                 ("stale_evaluations", 99), ("best_step", 5), ("evaluations_bytes", -1), ("loss_sum_bits", nan), ("loss_count", -1), ("loss_count", 99), ("metrics_bytes", -1),
                 ("is_finished", 1), ("best_metric_bits", nan), ("best_metric_bits", "18446744073709551616"),
                 # Against the other fields: nothing was skipped, and there was one evaluation, at the end.
                 ("optimizer_step", 0), ("schedule_step", 0), ("schedule_step", 3), ("best_step", 1), ("best_step", 0), ("best_metric", 7),
                 ("loss_sum_bits", "4607182418800017408"),
                 ("loss_scale", {"value_bits": "4679240012837945344", "clean_updates": 0, "overflows": 0})]
        for field, value in edits:
            path.write_text(json.dumps(dict(json.loads(original), **{field: value})))
            write_marker(out / "last")
            self.refuse(out, path, f'"{field}"', **values)
        for lever in ({"output_dir": str(self.folder / "elsewhere")}, {"memory": "8GiB"}, {"no_such_key": "1"}):
            path.write_text(json.dumps(dict(json.loads(original), levers_taken=lever)))
            write_marker(out / "last")
            self.refuse(out, path, '"levers_taken"', *lever, **values)
        self.assertFalse((self.folder / "elsewhere").exists())
        path.write_text(json.dumps(dict(json.loads(original), epoch=7)))
        write_marker(out / "last")
        self.refuse(out, path, '"global_step" is 4, but', "epoch 7", **values)
        for gone, text in ((("best_metric",), '"best_metric_bits" stands without best_metric'),
                           (("best_metric_bits",), '"best_metric" stands without best_metric_bits'),
                           (("best_metric", "best_metric_bits"), '"best_step" stands without best_metric')):
            path.write_text(json.dumps({key: value for key, value in json.loads(original).items() if key not in gone}))
            write_marker(out / "last")
            self.refuse(out, path, text, **values)
        unfinished = dict(json.loads(original), global_step=2, schedule_step=2, optimizer_step=2, batch=2, is_finished=True)
        path.write_text(json.dumps(unfinished))
        write_marker(out / "last")
        self.refuse(out, path, '"is_finished"', **values)
        path.write_text(original)
        write_marker(out / "last")
        self.ok("train", **self.base(output_dir=out, resume=True, **values))

    def test_the_best_may_be_the_end_of_an_earlier_run_as_long_as_the_log_says_so(self):
        values = dict(eval_steps=2, lr_scheduler_type="constant")
        out = self.train("run", max_steps=3, **values)  # the last evaluation is the best
        rising = dict(values, learning_rate=0.5, resume=True)
        self.ok("train", **self.base(output_dir=out, max_steps=4, **rising))
        path = out / "last/snug_state.json"
        original = path.read_text()
        self.assertEqual(json.loads(original)["best_step"], 3)
        path.write_text(json.dumps(dict(json.loads(original), best_step=1)))
        write_marker(out / "last")
        self.refuse(out, path, '"best_step" is 1; there was no evaluation after that update', max_steps=5, **values)
        path.write_text(original)
        write_marker(out / "last")
        self.ok("train", **self.base(output_dir=out, max_steps=5, **rising))
        (out / "evaluations.jsonl").unlink()
        for steps in (6, 7):
            self.ok("train", **self.base(output_dir=out, max_steps=steps, **rising))

    def test_every_count_of_a_dynamic_scale_is_checked_against_the_others(self):
        values = dict(max_steps=4, loss_scale="dynamic")
        out = self.train("run", **values)
        path = out / "last/snug_state.json"
        original = json.loads(path.read_text())
        scale = original["loss_scale"]
        edits = [("schedule_step", 3), ("optimizer_step", 3), ("loss_scale", None), ("loss_scale", dict(scale, overflows=1)),
                 ("loss_scale", dict(scale, clean_updates=5))]
        for field, value in edits:
            path.write_text(json.dumps(dict(original, **{field: value})))
            write_marker(out / "last")
            self.refuse(out, path, '"schedule_step"' if field == "optimizer_step" else f'"{field}"', **values)

    def test_a_checkpoint_without_its_marker_is_refused_before_anything_is_done(self):
        out = self.train("run", max_steps=2)
        log = (out / "metrics.jsonl").read_bytes()
        for name in ("last", "best"):
            marker = (out / name / ".snug.complete").read_bytes()
            (out / name / ".snug.complete").unlink()
            self.refuse(out, out / name, "did not complete", max_steps=4)
            self.assertEqual((out / "metrics.jsonl").read_bytes(), log)
            (out / name / ".snug.complete").write_bytes(marker)
        self.ok("train", **self.base(output_dir=out, resume=True, max_steps=4))

    def test_archives_that_snug_did_not_complete_are_neither_counted_nor_touched(self):
        out = self.folder / "run"
        foreign = {out / name: text for name, text in (("checkpoint-1/pytorch_model.bin", "w"), ("checkpoint-3/sub/thesis.txt", "x"),
                                                       ("checkpoint-99/notes", "y"), ("checkpoint-002/notes", "z"))}
        for path, text in foreign.items():
            path.parent.mkdir(parents=True)
            path.write_text(text)
        (out / "checkpoint-500").write_text("a file")
        keys = dict(save_steps=2, save_total_limit=2, lr_scheduler_type="constant")
        self.ok("train", **self.base(output_dir=out, max_steps=8, **keys))
        names = ["checkpoint-002", "checkpoint-1", "checkpoint-3", "checkpoint-500", "checkpoint-6", "checkpoint-8", "checkpoint-99"]
        self.assertEqual(sorted(path.name for path in out.glob("checkpoint-*")), names)
        # A removal that was cut short, as a kill leaves it, and one in the middle of a copy.
        (out / "checkpoint-6").rename(out / "checkpoint-6.snug-old")
        (out / "checkpoint-6.snug-old/.snug.complete").unlink()
        shutil.copytree(out / "checkpoint-8", out / "checkpoint-8.snug-new")
        (out / "checkpoint-8.snug-new/.snug.complete").unlink()
        self.ok("train", **self.base(output_dir=out, max_steps=10, resume=True, **keys))
        names = ["checkpoint-002", "checkpoint-1", "checkpoint-10", "checkpoint-3", "checkpoint-500", "checkpoint-8", "checkpoint-99"]
        self.assertEqual(sorted(path.name for path in out.glob("checkpoint-*")), names)
        for path, text in foreign.items():
            self.assertEqual(path.read_text(), text)

    def test_an_archive_place_that_is_taken_is_refused_before_training(self):
        keys = dict(save_steps=2, save_total_limit=1)
        out = self.folder / "run"
        (out / "checkpoint-4").mkdir(parents=True)
        self.ok("train", **self.base(output_dir=out, max_steps=2, **keys))
        (out / "checkpoint-4/notes").write_text("mine")
        log = (out / "metrics.jsonl").read_bytes()
        self.refuse(out, out / "checkpoint-4", "did not complete", max_steps=6, **keys)
        self.assertEqual((out / "metrics.jsonl").read_bytes(), log)
        # Places that the run does not write are everybody's.
        for others in (dict(keys, max_steps=3), dict(keys, max_steps=4, save_steps=3), dict(keys, max_steps=5, save_total_limit=0)):
            self.ok("train", **self.base(output_dir=out, resume=True, **others))
        self.assertEqual((out / "checkpoint-4/notes").read_text(), "mine")

    def test_half_a_line_of_the_log_is_cut(self):
        values = dict(lr_scheduler_type="constant")
        out = self.train("run", max_steps=3, **values)
        log = out / "metrics.jsonl"
        log.write_bytes(log.read_bytes()[:-9])
        done = self.ok("train", **self.base(output_dir=out, resume=True, max_steps=5, **values))
        self.assertIn("metrics.jsonl", done.stderr)
        steps = [json.loads(line)["step"] for line in log.read_text().splitlines() if "loss" in line]
        self.assertEqual(steps, [1, 2, 4, 5])


if __name__ == "__main__":
    common.main()

"""What a model's folder says: its labels against the data's, its weights against its config.json, its length of texts."""
import ast
import json
import shlex
import shutil
import struct

import common
from common import CIFAR_NAMES, Case, options, read_safetensors, run

NAMES = ("animal", "food", "tool")


def read_header(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8:8 + length]), data[8 + length:]


def write_raw(path, header, body):
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)
    (path.parent / ".snug.complete").unlink(missing_ok=True)  # changed on purpose


def edit_config(folder, **values):
    path = folder / "config.json"
    config = json.loads(path.read_text())
    for key, value in values.items():
        if value is None:
            config.pop(key, None)
        else:
            config[key] = value
    path.write_text(json.dumps(config))


def id2label(folder):
    names = json.loads((folder / "config.json").read_text())["id2label"]
    return [names[str(i)] for i in range(len(names))]


class FolderCase(Case):
    rows = 120

    def base(self, **more):
        return super().base(**dict(dict(model="mlp", hidden_sizes="16" if more.get("model", "mlp") == "mlp" else None,
                                        learning_rate=0.02, max_steps=30, threads=1), **more))

    def refused(self, *texts, code=1, verb="train", **values):
        done = run(verb, *options(**self.base(**dict(dict(output_dir=self.folder / "out"), **values))))
        self.assertEqual(done.returncode, code, done.stderr + done.stdout)
        self.assertEqual(done.stderr.count("error:"), 1, done.stderr)
        self.assertEqual(done.stdout, "", "something was printed before the refusal")
        for text in texts:
            self.assertIn(text, " ".join(done.stderr.split()))

    def further(self, name, model, **more):
        """Trains a folder further; returns what was said and the new folder."""
        values = dict(model=model, learning_rate=0, max_steps=2, vocab_size=None, output_dir=self.folder / name)
        done = self.ok("train", **self.base(**dict(values, **more)))
        return done.stderr, self.folder / name

    def accuracy(self, model, **more):
        metrics = json.loads(self.ok("eval", **self.base(model=model, vocab_size=None, **more)).stdout)
        return metrics["accuracy"], [entry["label"] for entry in metrics["classes"]]

    def trained(self):
        """A trained folder whose labels are not in the order of their names."""
        out = self.train("first")
        folder = self.folder / "model"
        shutil.copytree(out / "best", folder)
        order = (2, 0, 1)
        header, body = read_header(folder / "model.safetensors")
        body = bytearray(body)
        for name in ("classifier.weight", "classifier.bias"):
            begin, end = header[name]["data_offsets"]
            size = (end - begin) // 3
            rows = [bytes(body[begin + i * size:begin + (i + 1) * size]) for i in range(3)]
            body[begin:end] = b"".join(rows[i] for i in order)
        write_raw(folder / "model.safetensors", header, bytes(body))
        names = [NAMES[i] for i in order]
        edit_config(folder, id2label={str(i): name for i, name in enumerate(names)},
                    label2id={name: i for i, name in enumerate(names)})
        return folder, names

    def relabelled(self, path, label_of):
        rows = [json.loads(line) for line in path.read_text().splitlines()]
        out = path.with_name("relabelled-" + path.name)
        common.write_jsonl(out, [dict(row, label=label_of(row["label"])) for row in rows])
        return out


class Labels(FolderCase):
    def test_a_classifier_trained_further_keeps_its_labels(self):
        model, names = self.trained()
        before, classes = self.accuracy(model)
        self.assertGreater(before, 0.6)
        self.assertEqual(classes, names)
        said, out = self.further("further", model)
        self.assertIn("gives their names", said)
        self.assertEqual(id2label(out / "last"), names)
        self.assertEqual(read_safetensors(out / "last/model.safetensors"), read_safetensors(model / "model.safetensors"))
        self.assertEqual(self.summary(out)["final_metrics"]["accuracy"], before)
        self.assertEqual([entry["label"] for entry in self.summary(out)["final_metrics"]["classes"]], names)
        self.assertEqual(self.accuracy(out / "best")[0], before)
        # One configuration serves every verb: what was trained is evaluated, not what it began with.
        self.assertIn(f"the model is {out}/best", self.ok("eval", **self.base(model=model, vocab_size=None, output_dir=out)).stderr)

        # Ids in the data: the names stay, in training, evaluation and prediction.
        ids = [self.relabelled(path, names.index) for path in (self.train_file, self.valid_file)]
        said, out = self.further("ids", model, train_file=ids[0], validation_file=ids[1])
        self.assertIn("gives their ids", said)
        self.assertIn("0 = " + names[0], said)
        self.assertEqual(id2label(out / "last"), names)
        self.assertEqual(self.summary(out)["final_metrics"]["accuracy"], before)
        self.assertEqual(self.accuracy(model, validation_file=ids[1]), (before, names))
        rows = self.ok("predict", **self.base(model=model, vocab_size=None, validation_file=ids[1])).stdout.splitlines()
        truth = [json.loads(line)["label"] for line in self.valid_file.read_text().splitlines()]
        hits = sum(json.loads(row)["label"] == label for row, label in zip(rows, truth))
        self.assertAlmostEqual(hits / len(truth), before)
        said = self.ok("eval", **self.base(model=model, vocab_size=None, validation_file=ids[1])).stderr
        self.assertIn(f"0 = {names[0]}, 1 = {names[1]}", said)
        self.assertIn(f"{ids[1]} gives their ids", said)

    def test_labels_that_are_not_the_models_are_said_beside_both_lists(self):
        model, names = self.trained()
        of_the_file = self.relabelled(self.valid_file, lambda label: label.upper() if label == "food" else label)
        self.refused("the label 'FOOD' is none of the trained model", "known labels are " + ", ".join(names),
                     "those of the data FOOD, animal, tool", verb="eval", model=model, vocab_size=None, validation_file=of_the_file)
        self.refused("the label 'FOOD' does not occur in the training data", "known labels are animal, food, tool",
                     "those of the data FOOD, animal, tool", validation_file=of_the_file)

    def test_ids_of_a_validation_file_are_said_where_the_training_data_have_names(self):
        ids = self.relabelled(self.valid_file, NAMES.index)
        done = self.ok("train", **self.base(output_dir=self.folder / "out", max_steps=1, validation_file=ids))
        self.assertIn(f"0 = animal, 1 = food, 2 = tool; {ids} gives their ids", " ".join(done.stderr.split()))

    def test_a_resumed_run_ends_with_the_same_bits(self):
        model, names = self.trained()
        values = dict(learning_rate=0.01, max_steps=6)
        _, whole = self.further("whole", model, **values)
        base = self.base(model=model, vocab_size=None, output_dir=self.folder / "killed", save_steps=2, **values)
        self.kill_after_a_checkpoint(**base)
        self.ok("train", resume=True, **base)
        self.assertEqual(common.sha256(whole / "last/model.safetensors"),
                         common.sha256(self.folder / "killed/last/model.safetensors"))
        self.assertEqual(id2label(self.folder / "killed/last"), names)

    def test_labels_that_do_not_match_are_refused_with_both_lists(self):
        model, names = self.trained()
        other = self.relabelled(self.train_file, lambda name: name.upper())
        both = ("ANIMAL, FOOD, TOOL", ", ".join(names), "fresh_head")
        self.refused(*both, model=model, vocab_size=None, train_file=other)
        self.refused("1, 2, 3", ", ".join(names), model=model, vocab_size=None,
                     train_file=self.relabelled(self.train_file, lambda name: 1 + names.index(name)))
        self.refused("relabelled-valid.jsonl:1", ", ".join(names), verb="eval", model=model, vocab_size=None,
                     validation_file=self.relabelled(self.valid_file, lambda name: name.upper()))
        upper = self.relabelled(self.valid_file, lambda name: name.upper())
        for more in ({}, dict(bad_rows="skip")):
            self.refused(*both[:2], "those of the trained model", "name the labels of the data as the model does", verb="eval", model=model,
                         vocab_size=None, validation_file=upper, **more)
            self.refused(both[0], ", ".join(NAMES), "those of the training data", "name the labels as train_file does", validation_file=upper, **more)
        # Nothing says which row of a nameless head is which label.
        nameless = self.folder / "nameless"
        shutil.copytree(model, nameless)
        edit_config(nameless, id2label=None, label2id=None, num_labels=3)
        self.refused("LABEL_0, LABEL_1, LABEL_2", "animal, food, tool", "which is which", model=nameless, vocab_size=None)
        self.refused("LABEL_0, LABEL_1, LABEL_2", "animal, food, tool", "which is which", "id2label", "ids from 0 to 2", verb="eval",
                     model=nameless, vocab_size=None)
        self.refused("are 1, 2, 3;", "LABEL_0, LABEL_1, LABEL_2", "ids from 0 to 2", verb="eval", model=nameless, vocab_size=None,
                     validation_file=self.relabelled(self.valid_file, lambda name: 1 + names.index(name)))
        ids = self.relabelled(self.train_file, names.index)
        _, out = self.further("nameless-ids", nameless, train_file=ids, validation_file=None)
        self.assertEqual(id2label(out / "last"), ["LABEL_0", "LABEL_1", "LABEL_2"])

    def test_a_head_is_fresh_where_that_is_asked_for_or_there_is_none(self):
        model, names = self.trained()
        other = self.relabelled(self.train_file, lambda name: name.upper())
        said, out = self.further("fresh", model, fresh_head=True, train_file=other, validation_file=None)
        for name in ("classifier.weight", "classifier.bias"):
            self.assertIn("fresh weights for " + name, said)
        self.assertEqual(said.count("fresh weights for"), 2)
        self.assertEqual(id2label(out / "last"), ["ANIMAL", "FOOD", "TOOL"])
        # The same configuration evaluates what it trained, not what it began with.
        classes = self.accuracy(model, fresh_head=True, output_dir=out, train_file=other, validation_file=None)[1]
        self.assertEqual(classes, ["ANIMAL", "FOOD", "TOOL"])

        headless = self.folder / "headless"
        shutil.copytree(model, headless)
        header, body = read_header(headless / "model.safetensors")
        kept = {name: info for name, info in header.items() if not name.startswith("classifier.")}
        end = max(info["data_offsets"][1] for name, info in kept.items() if name != "__metadata__")
        names_in_order = sorted(kept, key=lambda name: kept[name].get("data_offsets", [-1])[0])
        at, data = 0, b""
        for name in names_in_order:
            if name != "__metadata__":
                begin, end = kept[name]["data_offsets"]
                data += body[begin:end]
                kept[name] = dict(kept[name], data_offsets=[at, len(data)])
                at = len(data)
        write_raw(headless / "model.safetensors", kept, data)
        said, out = self.further("headless-run", headless, train_file=other, validation_file=None)
        self.assertIn("fresh weights for classifier.weight", said)
        self.assertEqual(id2label(out / "last"), ["ANIMAL", "FOOD", "TOOL"])
        self.refused("no trained weights for", "classifier.weight", verb="eval", model=headless, vocab_size=None)
        self.refused("fresh_head", "has no trained head", fresh_head=True)

    def test_num_labels(self):
        out = self.train("more", num_labels=5)
        self.assertEqual(id2label(out / "last"), ["animal", "food", "tool", "LABEL_3", "LABEL_4"])
        self.assertEqual(len(read_safetensors(out / "last/model.safetensors")["classifier.bias"]), 5)
        self.refused("num_labels", "animal, food, tool", num_labels=2)
        self.refused("num_labels", "16384", num_labels=16385)
        self.refused("num_labels", "fresh_head", model=out / "best", vocab_size=None, num_labels=4)
        few = self.folder / "few"
        shutil.copytree(out / "best", few)
        edit_config(few, num_labels=20000, id2label=None, label2id=None)
        self.refused("num_labels", "16384", model=few, vocab_size=None)

    def test_control_characters_of_labels_do_not_reach_a_terminal(self):
        path = self.folder / "red.jsonl"
        common.write_jsonl(path, [dict(row, label={"food": "\x1b[31mred", "tool": "a\nb"}.get(row["label"], "c")) for row in common.make_rows(60)])
        out = self.folder / "red"
        done = self.ok("train", **self.base(train_file=path, validation_file=None, max_steps=1, output_dir=out))
        more = self.ok("train", **self.base(model=out / "best", train_file=path, vocab_size=None, validation_file=None, max_steps=1,
                                            output_dir=self.folder / "more"))
        shown = self.ok("inspect", model=out / "best", train_file=path)
        for text in (done.stderr, done.stdout, more.stderr, shown.stdout, shown.stderr):
            self.assertNotIn("\x1b", text)
        self.assertIn("\\x1b[31mred", shown.stdout)
        self.assertIn("a\\x0ab", shown.stdout)
        self.assertIn("\\x1b[31mred", more.stderr)
        self.assertEqual(sorted(id2label(out / "last")), ["\x1b[31mred", "a\nb", "c"])

    def test_qwk_of_constant_predictions_is_zero(self):
        rows = [{"text": "the same", "label": i} for i, count in enumerate((3, 5, 5)) for _ in range(count)]
        common.write_jsonl(self.train_file, rows)
        out = self.folder / "same"
        self.ok("train", **self.base(validation_file=None, validation_split=0, max_steps=1, output_dir=out))
        metrics = json.loads(self.ok("eval", **self.base(model=out / "last", vocab_size=None, validation_file=None, test_file=self.train_file)).stdout)
        self.assertEqual(metrics["qwk"], 0)

    def test_names_of_label2id_alone_are_used(self):
        best = self.train("run", max_steps=2) / "best"
        names = id2label(best)
        headless = shutil.copytree(best, self.folder / "only-ids")
        edit_config(headless, id2label=None, num_labels=None)
        self.assertEqual(self.accuracy(headless)[1], names)

    def test_switches_take_every_word_for_true_and_false(self):
        for word in ("no", "off", "0", "false"):
            done = run("plan", *options(**self.base(output_dir=None)), "--fresh_head", word, "--bf16", word)
            self.assertEqual(done.returncode, 0, done.stderr)

    def test_warnings(self):
        path = self.folder / "one.jsonl"
        rows = [{"text": "a cat", "label": "x"}] * 20 + [{"text": "a dog", "label": None}] * 3 + [{"text": "", "label": "x"}]
        rows += [{"text": " ", "label": "y"}]
        common.write_jsonl(path, rows)
        path.write_text(path.read_text() + "{broken\n")
        done = self.ok("train", **self.base(output_dir=self.folder / "one", train_file=path, validation_file=None,
                                            max_steps=1, bad_rows="skip"))
        for text in ("every row of", "has the label 'x'", "3 of 26 rows of", "have no label and are left out",
                     "2 of 26 rows of", "have no text", "no row is left that has the label y", "1 of 26 rows of",
                     "cannot be read"):
            self.assertIn(text, done.stderr)

    def test_images_keep_a_trained_order(self):
        data = common.write_cifar(self.folder / "cifar", data_batch_1=40)
        test = common.write_cifar(self.folder / "test", data_batch_1=20)
        base = dict(model="resnet-8", train_file=data, validation_file=test, train_batch_size=20, threads=1,
                    memory="1GiB", seed=3)
        self.ok("train", **base, max_steps=2, output_dir=self.folder / "images")
        best = self.folder / "images/best"
        self.assertEqual(id2label(best), CIFAR_NAMES)
        (data / "batches.meta.txt").unlink()  # ids alone now
        done = self.ok("train", **dict(base, model=best), max_steps=1, learning_rate=0, output_dir=self.folder / "further")
        self.assertIn("gives their ids", done.stderr)
        self.assertEqual(id2label(self.folder / "further/last"), CIFAR_NAMES)
        names = CIFAR_NAMES[::-1]
        (test / "batches.meta.txt").write_text("\n".join(names) + "\n")
        flipped = json.loads(self.ok("eval", **dict(base, model=best)).stdout)
        (test / "batches.meta.txt").write_text("\n".join(CIFAR_NAMES) + "\n")
        straight = json.loads(self.ok("eval", **dict(base, model=best)).stdout)
        rows = {entry["label"]: entry["rows"] for entry in straight["classes"]}
        self.assertEqual([entry["rows"] for entry in flipped["classes"]], [rows[name] for name in names])
        (test / "batches.meta.txt").write_text("\n".join("abcdefghij") + "\n")
        done = run("eval", *options(**dict(base, model=best)))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("a, b, c", done.stderr)


class Weights(FolderCase):
    def copy_of(self, model, name):
        folder = self.folder / name
        shutil.copytree(model, folder)
        return folder

    def test_weights_in_another_format_are_refused_with_the_line_that_converts(self):
        best = self.train("run") / "best"
        for name, line in (("pytorch_model.bin", "call it model.safetensors"), ("tf_model.h5", "AutoModel as M; M.from_pretrained('"),
                           ("pytorch_model-00001-of-00002.bin", "index.json"), ("flax_model.msgpack", "from_flax=True"),
                           ("bert_model.ckpt.index", "save_pretrained"), ("weights.pt", "snug convert "), ("model.onnx", "save_pretrained"),
                           ("model-00001-of-00002.safetensors", "index.json")):
            folder = self.copy_of(best, "other-" + name)
            (folder / "model.safetensors").rename(folder / name)
            if name.startswith("tf_model"):
                edit_config(folder, architectures=None)
            self.refused(name, line, model=folder, vocab_size=None)
            self.refused(name, line, verb="plan", model=folder, vocab_size=None, output_dir=None)
            self.refused(name, line, verb="eval", model=folder, vocab_size=None)
        edit_config(folder, architectures=["BertForMaskedLM"])
        (folder / "model-00001-of-00002.safetensors").rename(folder / "tf_model.h5")
        self.refused("from transformers import BertForMaskedLM as M", "with transformers before 5", model=folder, vocab_size=None)

    def test_whatever_may_hold_weights_is_refused_and_nothing_else(self):
        best = self.train("run", max_steps=1) / "best"
        for name, line in (("model.safetensors.gz", ": gunzip {}/model.safetensors.gz"), ("w.zip", ": unzip {0}/w.zip -d {0}"),
                           ("w.tar.gz", ": tar -xf {0}/w.tar.gz -C {0}"), ("pytorch_model.bin.gz", "gunzip"),
                           ("global_step8/mp_rank_00_model_states.pt", "python3 {0}/zero_to_fp32.py {0} {0}"),
                           ("pytorch_model_fsdp_0/__0_0.distcp", "accelerate merge-weights {0}/pytorch_model_fsdp_0 {0}"),
                           ("saved_model/variables/variables.data-00000-of-00001", "save_pretrained"),
                           ("0_Transformer/model.safetensors", "mv {0}/0_Transformer/model.safetensors {0}/"),
                           (".cache/huggingface/download/x.incomplete", "get the file again"),
                           ("model.safetensors.part", "get the file again"), ("model.safetensors.crdownload", "get the file again"),
                           ("model.safetensors.tmp", "get the file again"), ("MODEL.SAFETENSORS", "rename it to model.safetensors"),
                           ("model.safetensors.1", "mv {0}/model.safetensors.1 {0}/model.safetensors"),
                           ("model.safetensors~", "rename it to model.safetensors"), ("pytorch_model.bin.bak", "rename it to pytorch_model.bin"),
                           ("model.safetensors.txt", "rename it"), ("weights.hdf5", "save_pretrained"), ("blob", "save_pretrained"),
                           ("state_dict.pkl", "mv {0}/state_dict.pkl {0}/pytorch_model.bin"), ("net.model", "save_pretrained")):
            folder = self.copy_of(best, "w-" + name.replace("/", "-"))
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / "model.safetensors").rename(folder / name)
            for verb in ("train", "plan"):
                self.refused(name, line.format(folder), verb=verb, model=folder, vocab_size=None)
            done = run("inspect", "--model", folder)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn(name, done.stderr)
        of_trainer = self.copy_of(best, "of-trainer")
        (of_trainer / "model.safetensors").unlink()
        for step in (500, 1000):
            shutil.copytree(best, of_trainer / f"checkpoint-{step}")
        self.refused("checkpoint-500/model.safetensors", f"--model {of_trainer}/checkpoint-1000,", model=of_trainer, vocab_size=None)
        (of_trainer / "config.json").unlink()
        self.refused("no config.json", f"give --model {of_trainer}/checkpoint-1000", model=of_trainer, vocab_size=None)
        # What is known to hold none passes, and so does the run's own folder, also when it is resumed.
        bare = self.copy_of(best, "bare")
        (bare / "model.safetensors").unlink()
        for name in (".gitattributes", "README.md", "LICENSE", "Notice.txt", "training_args.bin", "spiece.model", "card/a.PNG", "data/t.jsonl",
                     ".cache/huggingface/download/config.json.lock", "runs/Nov25/events.out.tfevents.1.host.2.0", ".git/objects/pack/a.pack"):
            (bare / name).parent.mkdir(parents=True, exist_ok=True)
            (bare / name).write_text("x")
        base = self.base(model=bare, vocab_size=None, max_steps=1, output_dir=bare / "out/")
        self.assertIn("has no weights: all", self.ok("train", **base).stderr)
        self.ok("train", **dict(base, max_steps=2), resume=True)
        self.refused("out/best/model.safetensors", f"--model {bare}/config.json --tokenizer {bare}", **dict(base, output_dir=self.folder / "b"))
        self.ok("train", **dict(base, model=bare / "config.json", tokenizer=bare, output_dir=self.folder / "c"))

    def test_a_line_that_is_said_runs_whatever_the_folder_is_called(self):
        folder = self.copy_of(self.train("run", max_steps=1) / "best", "it's a $HOME`x\"y")
        (folder / "model.safetensors").rename(folder / "weights.pt")
        done = run("eval", *options(**self.base(model=folder, vocab_size=None)))
        words = shlex.split(done.stderr.split("its state_dict: ")[1].splitlines()[0])
        self.assertEqual(words, ["snug", "convert", f"{folder}/weights.pt", "--output", f"{folder}/model.safetensors"])
        (folder / "weights.pt").rename(folder / "tf_model.h5")
        done = run("eval", *options(**self.base(model=folder, vocab_size=None)))
        words = shlex.split(done.stderr.split("hint: ")[1])
        self.assertEqual(words[:2], ["python3", "-c"])
        calls = [node for node in ast.walk(ast.parse(words[2])) if isinstance(node, ast.Call)]
        self.assertEqual({call.args[0].value for call in calls}, {str(folder)})

    def test_trained_weights_never_get_a_vocabulary_that_is_learned(self):
        folder = self.copy_of(self.train("run") / "best", "no-tokens")
        (folder / ".snug.complete").unlink()
        kept = self.copy_of(folder, "tokens")
        for name in ("tokenizer.json", "tokenizer_config.json", "vocab.txt"):
            (folder / name).unlink()
        for verb in ("train", "plan", "eval"):
            self.refused("weights and no tokenizer", "or give tokenizer", verb=verb, model=folder, vocab_size=None,
                         **(dict(train_file=None, validation_file=None, output_dir=None) if verb == "plan" else {}))
        self.further("given", folder, tokenizer=kept)

    def test_fields_that_are_not_understood_are_said(self):
        folder = self.copy_of(self.train("run") / "best", "fields")
        edit_config(folder, layer_scale=0.5)
        said, _ = self.further("more", folder)
        self.assertIn("not understood and without effect", said)
        self.assertIn("layer_scale", said)

    def test_a_head_for_another_task_is_no_classifier(self):
        folder = self.copy_of(self.train("run") / "best", "tokens")
        edit_config(folder, architectures=["BertForMultipleChoice"])
        for verb in ("train", "plan", "eval"):
            more = dict(output_dir=None) if verb == "plan" else {}
            self.refused("BertForMultipleChoice", "is no head for the task classification", "fresh_head",
                         verb=verb, model=folder, vocab_size=None, **more)
        said, _ = self.further("new_head", folder, fresh_head=True)
        self.assertIn("classifier.weight", said)

    def test_a_link_to_weights_that_are_gone_is_said(self):
        folder = self.copy_of(self.train("run") / "best", "cached")
        (folder / "model.safetensors").unlink()
        (folder / "model.safetensors").symlink_to("../blobs/gone")
        (self.folder / "link").symlink_to("gone")
        for model in (folder, self.folder / "link"):
            self.refused("which does not exist", "remove the link", model=model, vocab_size=None)

    def test_a_folder_in_place_of_the_weights_is_said(self):
        folder = self.train("base", max_steps=1) / "best"
        for name in ("model.safetensors", "pytorch_model.bin"):
            (folder / "model.safetensors").unlink(missing_ok=True)
            (folder / name).mkdir()
            for verb in ("train", "eval"):
                self.refused(f"[{folder}/{name}] is a folder, not a file", verb=verb, model=folder, vocab_size=None)
            (folder / name).rmdir()

    def test_files_of_a_model_that_are_links_to_nothing_are_said(self):
        folder = self.train("base", max_steps=1) / "best"
        (folder / ".snug.complete").unlink()
        for name in ("config.json", "adapter_config.json", "model.safetensors", "tokenizer.json", ".snug.complete"):
            file, kept = folder / name, folder / "kept"
            if file.exists():
                file.rename(kept)
            (folder / "pytorch_model.bin").write_bytes(b"")
            file.symlink_to("gone")
            self.refused(f"[{folder}/{name}] is a symbolic link to 'gone', which does not exist", verb="eval",
                         model=folder, vocab_size=None)
            file.unlink()
            if kept.exists():
                kept.rename(file)
        (folder / "pytorch_model.bin").unlink()
        (folder / "pytorch_model.bin").symlink_to("gone")  # not read beside model.safetensors
        self.further("next", folder, max_steps=1)

    def test_a_config_alone_trains_fresh_weights_and_lists_them(self):
        folder = self.copy_of(self.train("run") / "best", "alone")
        (folder / "model.safetensors").unlink()
        said, _ = self.further("fresh", folder)
        for text in ("all 5 are fresh", "embeddings.weight", "layers.0.weight", "layers.0.bias", "classifier.weight"):
            self.assertIn(text, said)

    def test_weights_are_compared_before_anything_is_planned(self):
        best = self.train("run", model="bert-tiny", hidden_sizes=None, max_steps=1) / "best"
        header, body = read_header(best / "model.safetensors")

        def edited(name, change):
            folder = self.copy_of(best, name)
            tensors = dict(header)
            change(tensors)
            write_raw(folder / "model.safetensors", tensors, body)
            return dict(model=folder, vocab_size=None)

        def renamed(tensors):
            for name in list(tensors):
                if name != "__metadata__":
                    tensors["net." + name] = tensors.pop(name)
        self.refused("37 missing: bert.embeddings.word_embeddings.weight", "41 that the model does not have: net.bert", "every name in the file begins with 'net.'",
                     **edited("prefix", lambda tensors: (renamed(tensors))))

        def without_bias(tensors):
            tensors["other.bias"] = tensors.pop("classifier.bias")
        self.refused("1 missing: classifier.bias", **edited("half-a-head", without_bias))

        def with_a_layer(tensors):
            tensors["bert.encoder.layer.2.output.dense.bias"] = tensors.pop("bert.pooler.dense.bias")
            tensors["x.bias"] = tensors.pop("bert.pooler.dense.weight")
        self.refused("1 that the model does not have: bert.encoder.layer.2.output.dense.bias", **edited("layers", with_a_layer))

        folder = self.copy_of(best, "wide")
        edit_config(folder, intermediate_size=256)
        self.refused("of another shape or type", "intermediate.dense.bias is [512], config.json says [256]", model=folder,
                     vocab_size=None)
        folder = self.copy_of(best, "five")
        edit_config(folder, id2label={str(i): str(i) for i in range(5)}, label2id=None)
        self.refused("classifier.bias is [3], config.json says [5]", model=folder, vocab_size=None)
        folder = self.copy_of(best, "short")
        (folder / "model.safetensors").write_bytes((best / "model.safetensors").read_bytes()[:-100])
        self.refused("model.safetensors", model=folder, vocab_size=None)

        # Another head beside the encoder is not an error: it is named, and ours is fresh.
        def masked(tensors):
            tensors["cls.predictions.bias"] = tensors.pop("classifier.bias")
            tensors["cls.predictions.weight"] = tensors.pop("classifier.weight")
        said, _ = self.further("masked", edited("masked-model", masked)["model"], max_steps=1)
        self.assertIn("fresh weights for classifier.weight", said)
        self.assertIn("cls.predictions.bias, cls.predictions.weight", said)


class Lengths(FolderCase):
    def test_a_folder_keeps_the_length_that_it_was_trained_with(self):
        out = self.train("run", max_seq_length=12)
        for folder in ("last", "best"):
            config = json.loads((out / folder / "tokenizer_config.json").read_text())
            self.assertEqual(config["model_max_length"], 12)

        def loss(**more):
            done = self.ok("eval", **dict(self.base(model=out / "best", vocab_size=None, max_seq_length=None), **more))
            return json.loads(done.stdout)["loss"], done.stderr
        trained, said = loss()
        self.assertIn("12 tokens (model_max_length", said)
        self.assertEqual(trained, loss(max_seq_length=12)[0])
        longer, said = loss(max_seq_length=32)
        self.assertNotEqual(trained, longer)
        self.assertIn("was trained with 12", said)
        self.assertEqual(trained, self.summary(out)["final_metrics"]["loss"])
        # transformers' word for "not known" and files of older versions say nothing.
        path = out / "best/tokenizer_config.json"
        config = json.loads(path.read_text())
        for value in (10 ** 30, None):
            path.write_text(json.dumps(dict(config, model_max_length=value)))
            at_default, said = loss()
            self.assertIn("128 tokens", said)
            self.assertEqual(at_default, longer)

    def test_the_default_length_is_no_more_than_the_model_has_positions(self):
        config = json.loads((self.train("first", model="bert-tiny", max_steps=1) / "best/config.json").read_text())
        short = self.folder / "short.json"
        short.write_text(json.dumps(dict(config, max_position_embeddings=20)))
        best = self.train("run", model=short, max_seq_length=12, vocab_size=None, max_steps=1) / "best"
        path = best / "tokenizer_config.json"
        path.write_text(json.dumps(dict(json.loads(path.read_text()), model_max_length=None)))
        done = self.ok("eval", **self.base(model=best, vocab_size=None, max_seq_length=None))
        self.assertIn("texts are cut at 20 tokens", done.stderr)


if __name__ == "__main__":
    common.main()

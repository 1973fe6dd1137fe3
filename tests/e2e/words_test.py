"""What the program says: warnings, hints, and texts that fit a terminal."""
import json
import re
import shutil

import common
from common import Case, options, run


class Tokenizers(Case):
    def model(self):
        """A trained folder, to be changed by the test."""
        copy = self.folder / "model"
        shutil.copytree(self.train("run", max_steps=2) / "last", copy)
        return copy

    def test_a_file_of_an_older_version_is_read_by_plan_and_train(self):
        model = self.model()
        path = model / "tokenizer.json"
        tokenizer = json.loads(path.read_text())
        tokenizer["truncation"] = {"max_length": 128, "strategy": "LongestFirst", "stride": 0}
        del tokenizer["model"]["type"]
        path.write_text(json.dumps(tokenizer))
        self.ok("plan", model=model, max_seq_length=32, memory="1GiB")
        self.train("again", model=model, max_steps=2)

    def test_plan_without_data_reads_the_tokenizer_that_training_reads(self):
        model = self.model()
        fresh = dict(model="bert-tiny", max_seq_length=32, memory="1GiB")
        with_tokenizer = self.plan(tokenizer=model, num_labels=3, **fresh)["parameters"]
        self.assertEqual(with_tokenizer, self.plan(**self.base(tokenizer=model))["parameters"])
        path = model / "tokenizer.json"
        path.write_text(path.read_text().replace('"BertPreTokenizer"', '"UnicodeScripts"'))
        for words in (dict(model=model), dict(model="bert-tiny", tokenizer=model)):
            done = run("plan", *options(max_seq_length=32, memory="1GiB", **words))
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertIn("'UnicodeScripts'", done.stderr)

    def test_a_vocabulary_shorter_than_the_embedding_is_said(self):
        model = self.model()
        rows = len((model / "vocab.txt").read_text().splitlines())
        both = self.ok("eval", **self.base(model=model, train_file=None)).stderr
        self.assertEqual(both.count(f"the tokenizer is read from tokenizer.json of {model}, not from vocab.txt"), 1, both)
        (model / "tokenizer.json").unlink()
        said = f"has {rows - 7} tokens, the model's embedding {rows} rows"
        evaluation = dict(self.base(model=model, train_file=None))
        alone = self.ok("eval", **evaluation).stderr
        self.assertNotIn("warning", alone)
        self.assertNotIn("the tokenizer is read", alone)
        lines = (model / "vocab.txt").read_text().splitlines()
        (model / "vocab.txt").write_text("\n".join(lines[:-7]) + "\n")
        self.assertIn(said, self.ok("eval", **evaluation).stderr)
        self.assertIn(said, self.ok("plan", model=model, max_seq_length=32, memory="1GiB").stderr)
        self.assertIn(said, self.ok("train", **self.base(model=model, max_steps=1, output_dir=self.folder / "out")).stderr)


class Hints(Case):
    def refused(self, words, *texts, verb="plan"):
        done = run(verb, *words)
        self.assertEqual(done.returncode, 1, done.stderr + done.stdout)
        for text in texts:
            self.assertIn(text, done.stderr)

    def test_keys_of_other_programs_are_known_on_the_command_line_as_in_a_file(self):
        advice = {"train_micro_batch_size_per_gpu": "give micro_batch_size", "batch_size": "give train_batch_size",
                  "model_name_or_path": "give model", "tokenizer_name": "give tokenizer", "num_epochs": "give num_train_epochs"}
        config = self.folder / "run.yaml"
        for key, hint in advice.items():
            config.write_text(f"{key}: 3\n")
            self.refused(["-c", config], f"unknown key '{key}'", hint)
            self.refused([f"--{key}", 3], f"unknown key '{key}'", hint)
            self.refused([f"--{key}=3"], f"unknown key '{key}'", hint)
            self.refused([f"--{key.replace('_', '-')}"], hint)

    def test_training_arguments_are_keys_or_refused_in_a_file_and_on_the_command_line(self):
        """Their names give the run that Snug's keys give; each is said, none on stdout."""
        config = self.folder / "run.yaml"
        config.write_text("model: bert-tiny\nmax_seq_length: 24\nmemory: 400MiB\nthreads: 1\nper_device_train_batch_size: 4\n"
                          "gradient_checkpointing: true\ndeepspeed: null\nreport_to: none\n")
        theirs = run("plan", "-c", config, "--json", "--gradient-accumulation-steps", 3, "--tf32", "False", "--auto_find_batch_size")
        ours = run("plan", "--json", *options(model="bert-tiny", max_seq_length=24, memory="400MiB", threads=1, train_batch_size=12,
                                              recompute="all"))
        self.assertEqual(theirs.returncode, 0, theirs.stderr)
        self.assertEqual(json.loads(theirs.stdout), json.loads(ours.stdout))
        for text in ("per_device_train_batch_size 4 x gradient_accumulation_steps 3: train_batch_size 12; Snug picks the split",
                     "gradient_checkpointing true: recompute all", "tf32 False has no meaning here: a float32 product is computed as one",
                     "deepspeed none", "auto_find_batch_size true is what happens anyway: the planner finds the split that fits"):
            self.assertIn(text, theirs.stderr)
        for words, texts in ((["--ignore_data_skip"], ("[--ignore_data_skip] ignore_data_skip: 'true' is refused", "hint: omit it")),
                             (["--train_batch_size", 16, "--per_device_train_batch_size", 2], ("contradicts train_batch_size 16",)),
                             (["--fsdp=full_shard"], ("one process computes on the CPU",)),
                             (["--no_save_safetensors"], ("give save_safetensors: false",))):
            self.refused(["-c", config, *words], *texts)
        config.write_text("\nsave_strategy: often\n")
        self.refused(["-c", config], "run.yaml:2] save_strategy: 'often' is refused", "give save_steps")

    def test_RECOMPUTE_of_the_environment_recomputes_all_where_nothing_else_says_so(self):
        words = ["--json", *options(model="bert-tiny", max_seq_length=24, memory="400MiB", threads=1)]
        every = run("plan", *words, "--recompute", "all").stdout
        kept = run("plan", *words).stdout
        self.assertNotEqual(every, kept)
        said = "RECOMPUTE=1 in the environment: recompute all"
        for value, more, stdout, stderr in (("1", [], every, said), ("0", [], kept, ""), ("", [], kept, ""),
                                            ("1", ["--recompute", "auto"], kept, "without effect: recompute is auto (command line)")):
            done = run("plan", *words, *more, env={"RECOMPUTE": value})
            self.assertEqual(done.stdout, stdout, done.stderr)
            self.assertIn(stderr, done.stderr)
            self.assertEqual("RECOMPUTE" in done.stderr, stderr != "")
        config = self.folder / "run.yaml"
        config.write_text("recompute: auto\n")
        self.assertEqual(run("plan", *words, "-c", config, env={"RECOMPUTE": "1"}).stdout, kept)
        wrong = run("plan", *words, env={"RECOMPUTE": "2"})
        self.assertEqual(wrong.returncode, 1)
        self.assertIn("[RECOMPUTE] '2' in the environment is neither 1 nor 0", wrong.stderr)
        saved = self.folder / "kept.plan"
        self.assertEqual(run("plan", *words, "--save-plan", saved).returncode, 0)
        replayed = run("plan", *words, "--plan", saved, env={"RECOMPUTE": "1"})
        self.assertEqual(replayed.returncode, 0, replayed.stderr)
        self.assertNotIn("RECOMPUTE", replayed.stderr)

    def test_a_word_without_a_key_says_how_files_are_given(self):
        self.refused(["--bf16", "maybe"], "[--bf16] 'maybe' is no value that it takes", "give true, false, or the option alone", verb="plan")
        self.refused(["--seed", "1", "--bf16", "-c", "a.yaml", "1"], "[1] this word belongs to no option", "-c run.yaml", verb="plan")
        self.refused(["run.yaml"], "[run.yaml] this word belongs to no option", "-c run.yaml", verb="train")

    def test_a_name_from_a_hub_or_a_missing_path_says_that_a_folder_is_needed(self):
        for name in ("bert-base-uncased", "google/bert_uncased_L-2_H-128_A-2", "./no/such/folder", "resnet50"):
            self.refused(["--model", name], f"'{name}' is neither a folder that exists nor a preset", "downloads nothing",
                         "bert-tiny", "resnet-1202")

    def test_a_printed_budget_is_enough_when_typed_as_printed(self):
        for model, batch in (("bert-tiny", 7), ("bert-mini", 3), ("mlp", 5), ("lstm", 2)):
            words = options(model=model, train_batch_size=batch, max_seq_length=24, vocab_size=977, threads=2)
            refusal = run("plan", *words, "--memory", "1MiB")
            self.assertEqual(refusal.returncode, 2)
            printed = refusal.stderr.split("the smallest budget that works is ")[1].split(" (")[0]
            table = run("plan", *words, "--memory", *printed.split())
            self.assertEqual(table.returncode, 0, table.stderr)
            budgets = [line.split("smallest budget")[1].split() for line in table.stdout.splitlines() if "smallest budget" in line]
            self.assertEqual(run("plan", *words, "--memory", " ".join(budgets[0])).returncode, 0, budgets)
            prices = table.stdout.split("price list")[1].splitlines()[1:]
            lowest = prices[0].replace("=>", "").split()[:2]
            self.assertEqual(run("plan", *words, "--memory", *lowest).returncode, 0, lowest)


class Terminal(Case):
    def assert_fits(self, text, columns, plain):
        """No line is longer than the terminal, unless it is one word; and every word is one of the plain text's."""
        known = set(plain.split())
        for line in text.split("\n"):
            for drawn in line.split("\r"):
                drawn = drawn.replace("\x1b[K", "")
                if len(drawn.split()) > 1:
                    self.assertLessEqual(len(drawn), columns, drawn)
            for word in line.split():
                if plain:
                    self.assertIn(word, known, line)

    def test_plans_and_errors_break_between_words(self):
        words = ["plan", *options(model="bert-mini", train_batch_size=16, max_seq_length=64, threads=2)]
        smallest = json.loads(run(*words, "--memory", "8GiB", "--json").stdout)["smallest_budget_bytes"]
        for memory, code in (("8GiB", 0), (smallest, 0), ("1MiB", 2)):
            plain = run(*words, "--memory", memory)
            for columns in (80, 50):
                text, ended = self.on_terminal(*words, "--memory", memory, columns=columns)
                self.assertEqual(ended, code)
                self.assert_fits(text, columns, plain.stdout + plain.stderr)
            text = re.sub(r".*\x1b\[K", "", text)  # progress that was drawn over
            self.assertEqual(" ".join(text.split()), " ".join((plain.stderr + plain.stdout).split()))
        self.assertTrue(any(len(line) > 80 for line in plain.stderr.splitlines()), "a log is not broken")

    def test_a_hint_in_quotes_is_broken_inside_of_them_and_can_be_copied(self):
        words = ["plan", *options(model="bert-base", train_batch_size=16, max_seq_length=128, memory="1200MiB")]
        text, ended = self.on_terminal(*words, columns=80)
        self.assertEqual(ended, 2)
        text = re.sub(r".*\x1b\[K", "", text)  # progress that was drawn over
        self.assertLessEqual(max(map(len, text.splitlines())), 80, text)
        lora = text[text.index("--lora '"):].split("'")[1]
        self.assertIn("\n", lora)
        self.assertEqual(run(*words, "--lora", lora).returncode, 0)

    def test_progress_fits(self):
        for columns in (80, 40):
            text, ended = self.on_terminal("train", *options(**self.base(output_dir=self.folder / f"out{columns}", max_steps=3)),
                                           columns=columns)
            self.assertEqual(ended, 0, text)
            self.assert_fits(text, columns, "")
            self.assertIn("step 3/3", text)
            self.assertIn("loss", text)
        plain = self.ok("train", **self.base(output_dir=self.folder / "plain", max_steps=1)).stderr
        for field in ("step 1/1", "epoch", "loss", "lr", "norm", "tokens/s", "rss", "arena"):
            self.assertIn(field, plain)


class Inspection(Case):
    def test_data_comes_first_and_equal_layers_are_one_line(self):
        words = self.base(model="bert-mini", freeze="bert.embeddings.*")
        text = self.ok("inspect", **words).stdout
        self.assertLess(text.index("rows read"), text.index("model bert-mini"))
        self.assertIn("bert.encoder.layer.0 to 3 (4 equal, each)", text)
        self.assertRegex(text, "bert.embeddings .* frozen\n")
        self.assertNotIn("query.weight", text)
        self.assertLess(len(text.split("model bert-mini")[1].splitlines()), 12)
        listed = self.ok("inspect", weights=True, **words).stdout
        self.assertIn("bert.encoder.layer.3.attention.self.query.weight", listed)
        weights = json.loads(self.ok("inspect", json=True, **words).stdout)["model"]["weights"]
        self.assertEqual(sum(line.startswith("  ") and "[" in line for line in listed.split("model bert-mini")[1].splitlines()),
                         len(weights))


class Warnings(Case):
    def test_a_warm_up_longer_than_the_run_is_said(self):
        said = "warmup_steps 7 in a run of 6 updates"
        self.assertIn(said, self.ok("plan", **self.base(train_file=None, validation_file=None, warmup_steps=7)).stderr)
        self.assertIn(said, self.ok("train", **self.base(warmup_steps=7, output_dir=self.folder / "out")).stderr)
        for ratio in (1, 0.9):  # rounded up
            self.assertIn(f"warmup_ratio {ratio} in a run of 6 updates: the learning rate rises to the end",
                          self.ok("train", **self.base(warmup_ratio=ratio, output_dir=self.folder / f"out{ratio}")).stderr)
        self.assertNotIn("rises to the end", self.ok("plan", **self.base(warmup_ratio=0.8)).stderr)
        by_epochs = self.base(max_steps=None, num_train_epochs=1, train_batch_size=50, warmup_steps=5)
        self.assertIn("in a run of 4 updates", self.ok("plan", **by_epochs).stderr)
        self.assertNotIn("warning", self.ok("plan", **self.base(warmup_steps=5)).stderr)

    def test_a_freeze_pattern_that_matches_nothing_is_refused_by_every_verb_that_reads_it(self):
        for verb in ("plan", "train", "verify", "inspect"):
            values = self.base(freeze="bert.embeddings.*,no.such.*", output_dir=self.folder / verb)
            done = run(verb, *options(**values))
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn("'no.such.*' matches no weight", done.stderr)
            self.assertIn("snug inspect --weights", done.stderr)
            self.assertTrue(verb == "inspect" or "vocabulary" not in done.stderr, done.stderr)


if __name__ == "__main__":
    common.main()

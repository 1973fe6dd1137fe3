"""Levers: each line of the table is what a plan with its keys says, to the byte and in time; what is allowed is taken, said,
trained and kept on resume; nothing is taken that is not allowed; more memory is never slower among what is allowed."""
import json
import random

from common import PAGE, Case, main, options, run, set_rates, sha256


def words(keys):
    return [word for key, value in keys.items() for word in (f"--{key}", value)]


class Levers(Case):
    def table(self, **keys):
        return json.loads(self.ok("plan", levers=True, json=True, **keys).stdout)

    def planned_with(self, more, **keys):
        """The plan of these keys with the others in their place; where it does not fit, that of the smallest budget."""
        given = {key: value for key, value in keys.items() if key not in more}
        return run("plan", *options(**given, json=True), *words(more))

    def check_line(self, line, keys):
        done = self.planned_with(line["keys"], **keys)
        if not line["fits"]:
            self.assertEqual(done.returncode, 2, f"{line} of {keys}\n{done.stdout}")
            self.assertIn(f"({line['smallest_budget_bytes']} bytes)", done.stderr, line)
            done = self.planned_with(line["keys"], **dict(keys, memory=line["smallest_budget_bytes"]))
        self.assertEqual(done.returncode, 0, f"{line} of {keys}\n{done.stderr}")
        plan = json.loads(done.stdout)
        for field in ("planned_peak_bytes", "smallest_budget_bytes", "step_seconds"):
            self.assertEqual(plan[field], line[field], f"{field} of {line['keys']} with {keys}")

    def test_each_line_alone_is_its_plan(self):
        generator = random.Random(15)
        for _ in range(8):
            model = generator.choice(("bert-tiny", "distilbert-tiny", "lstm", "mlp", "resnet-14"))
            keys = dict(model=model, train_batch_size=generator.choice((2, 4, 8)), threads=2)
            if model != "resnet-14":
                keys.update(vocab_size=generator.choice((300, 5000)), max_seq_length=generator.choice((8, 24)))
            if generator.random() < 0.3:
                keys.update(max_grad_norm=0)
            if generator.random() < 0.2:
                keys.update(bf16=True)
            smallest = self.plan(**keys, memory="1TiB")["smallest_budget_bytes"]
            keys["memory"] = int(smallest * generator.uniform(0.9, 1.3)) // PAGE * PAGE
            lines = self.table(**keys)
            self.assertEqual(lines[0]["keys"], {})
            for line in [lines[0], *generator.sample(lines[1:], 4)]:
                self.check_line(line, keys)

    def test_the_table_has_every_lever_alone_and_together(self):
        lines = [line["keys"] for line in self.table(model="bert-tiny", train_batch_size=4, memory="1GiB")]
        named = {key for keys in lines if len(keys) == 1 for key in keys}
        wanted = {"micro_batch_size", "recompute", "two_pass_clip", "optim_bits", "bf16", "fp16", "optim", "max_grad_norm", "freeze", "lora", "weight_dtype"}
        self.assertEqual(named, wanted)
        self.assertIn({"optim_bits": "8", "bf16": "true", "freeze": "*embeddings*"}, lines)
        text = self.ok("plan", levers=True, model="bert-tiny", train_batch_size=4, memory="1GiB").stdout
        self.assertIn("--optim_bits 8 --bf16 true", text)
        self.assertIn("as asked for", text)

    def taken(self, **keys):
        return self.plan(**keys)["levers_taken"]

    def test_nothing_is_taken_that_is_not_allowed(self):
        keys = dict(model="bert-tiny", train_batch_size=4, max_seq_length=32)
        smallest = self.plan(**keys, memory="1GiB")["smallest_budget_bytes"]
        for memory in (smallest, "1GiB"):
            self.assertEqual(self.taken(**keys, memory=memory), {})
        done = run("plan", *options(**keys, memory=smallest - PAGE))
        self.assertEqual(done.returncode, 2)
        for hint in ("--optim_bits 8", "--freeze", "--lora"):
            self.assertIn(hint, done.stderr)
        self.assertEqual(self.taken(**keys, memory=smallest - PAGE, allow="adam8bit"), {"optim_bits": "8"})
        plan = self.plan(**keys, memory=smallest - PAGE, allow="adam8bit")
        self.check_line(dict(plan, keys={"optim_bits": "8"}, fits=True), dict(keys, memory=smallest - PAGE))

    def test_more_memory_is_never_slower_among_what_is_allowed(self):
        keys = dict(model="bert-tiny", train_batch_size=8, max_seq_length=64)
        for allow, named in (("bf16,adam8bit", {"bf16", "optim_bits"}), ("fp16,freeze", {"fp16", "freeze"}),
                             ("adam8bit,optim", {"optim_bits", "optim"})):
            least = min(line["smallest_budget_bytes"] for line in self.table(**keys, memory="1GiB", allow=allow)
                        if set(line["keys"]) <= named)
            plans = [self.plan(**keys, memory=int(least * share) // PAGE * PAGE, allow=allow)
                     for share in (1.001, 1.05, 1.2, 1.5, 2, 4)]
            seconds = [plan["step_seconds"] for plan in plans]
            self.assertEqual(seconds, sorted(seconds, reverse=True), f"{allow}: {[plan['levers_taken'] for plan in plans]}")

    def test_the_fastest_that_fits_is_taken(self):
        keys = dict(model="bert-tiny", train_batch_size=8, max_seq_length=64, memory="200MiB")
        allowed = {"adam8bit": "optim_bits", "bf16": "bf16"}
        lines = [line for line in self.table(**keys, allow=",".join(allowed))
                 if line["fits"] and set(line["keys"]) <= set(allowed.values())]
        fastest = min(lines, key=lambda line: line["step_seconds"])
        self.assertEqual(self.taken(**keys, allow=",".join(allowed)), fastest["keys"])

    def test_what_is_taken_is_said_trained_and_kept(self):
        keys = dict(model="bert-mini", train_batch_size=8, max_steps=4, save_steps=1)
        smallest = self.plan(**self.base(**keys))["smallest_budget_bytes"]
        keys.update(allow="adam8bit,freeze", memory=smallest - PAGE)
        out = self.folder / "taken"
        said = self.ok("train", **self.base(**keys, output_dir=out)).stderr
        self.assertIn("levers taken: --", said)
        taken = json.loads((out / "plan.json").read_text())["levers_taken"]
        state = json.loads((out / "last/snug_state.json").read_text())
        self.assertEqual(state["levers_taken"], taken)
        self.assertTrue(taken)
        alone = {key: value for key, value in keys.items() if key != "allow"}
        plain = self.train("alone", **alone, **taken)
        self.assertEqual(sha256(out / "last/model.safetensors"), sha256(plain / "last/model.safetensors"))
        cut = self.base(**keys, output_dir=self.folder / "cut")
        self.kill_after_a_checkpoint(**cut)
        # With more memory nothing would be taken: the run keeps what it began with.
        resumed = self.ok("train", **dict(cut, memory="1GiB", resume=True)).stderr
        self.assertIn("levers taken: --", resumed)
        self.assertEqual(sha256(cut["output_dir"] / "last/model.safetensors"), sha256(plain / "last/model.safetensors"))
        self.assertEqual(json.loads((cut["output_dir"] / "plan.json").read_text())["levers_taken"], taken)

    def test_evaluation_computes_as_a_run_that_took_its_precision(self):
        # So many bytes a second that what takes fewer is faster, whatever this machine is.
        env = set_rates(self.folder, {"": dict(per_call=1e-9, per_flop=0, per_byte=1e-7)})
        keys = self.base(model="bert-mini", train_batch_size=16, max_steps=2, output_dir=self.folder / "mixed", allow="bf16")
        self.ok("train", env=env, **keys)
        state = json.loads((self.folder / "mixed/last/snug_state.json").read_text())
        self.assertEqual(state["levers_taken"], {"bf16": "true"})
        logged = json.loads((self.folder / "mixed/evaluations.jsonl").read_text().splitlines()[-1])["eval_loss"]
        found = json.loads(self.ok("eval", **keys).stdout)["loss"]
        self.assertEqual(found, logged)
        self.assertNotEqual(json.loads(self.ok("eval", **dict(keys, allow="adam8bit", bf16="false", output_dir="",
                                                              model=self.folder / "mixed/best")).stdout)["loss"], logged)

    def test_adapters_are_taken_with_trained_weights_alone(self):
        # So many bytes a second that fewer weights to update are faster, whatever this machine is.
        env = set_rates(self.folder, {"": dict(per_call=1e-9, per_flop=0, per_byte=1e-7)})
        keys = dict(max_seq_length=32, train_batch_size=4, memory="1GiB", allow="lora")
        done = self.ok("plan", model="bert-tiny", json=True, **keys)
        self.assertIn("has no trained weights", done.stderr)
        self.assertEqual(json.loads(done.stdout)["levers_taken"], {})
        folder = self.train("base", max_steps=1) / "last"
        out = self.folder / "adapters"
        self.ok("train", env=env, **self.base(**keys, model=folder, output_dir=out, max_steps=2))
        self.assertTrue((out / "last/adapter_model.safetensors").exists())

    def test_words_that_mean_nothing_are_refused(self):
        for allow, text in (("speed", "there is no 'speed'"), ("bf16,bf16", "given twice")):
            done = run("plan", *options(model="bert-tiny", allow=allow))
            self.assertEqual(done.returncode, 1)
            self.assertIn(text, done.stderr)


if __name__ == "__main__":
    main()

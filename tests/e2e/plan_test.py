"""Plans as files and as a page: replayed plans give the same run, foreign ones are refused, the page stands alone."""
import html.parser
import json
import re

import common
from common import Case, options, run


class Page(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.titles, self.links = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.links += [value for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data):
        self.titles.append(data)


class Explanations(Case):
    """`snug explain`: every stage in order, and what stands after it."""

    def stages(self, *words, **changes):
        done = run("explain", "--json", *words, *options(**self.base(max_steps=2, **changes)))
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["stages"]

    def test_stages_stand_in_order_and_agree_with_the_plan(self):
        pieces = self.stages(train_batch_size=8, micro_batch_size=2)
        told = ("machine", "model and data", "trace", "forward", "backward", "remove_dead", "fuse_accumulate", "pack_weights", "split_prologue",
                "kernels", "plan", "memory")  # other rewrites may stand between
        names = [stage["name"] for stage in pieces if stage["name"] in told]
        packs = ["pack_weights"] if self.plan(**self.base(max_steps=2, train_batch_size=8, micro_batch_size=2))["packed_weights"] else []
        self.assertEqual(names, ["machine", "model and data", "trace", "forward", "backward", "remove_dead", "fuse_accumulate", *packs,
                                 "split_prologue", "kernels", "plan", "memory"])
        whole = self.stages(train_batch_size=8, micro_batch_size=8)
        self.assertEqual([s["name"] for s in whole if s["name"] in told], [name for name in names if name not in ("pack_weights", "split_prologue")])
        for stage in pieces + whole:
            self.assertGreaterEqual(stage["seconds"], 0)
            self.assertNotIn("text", stage)
        ops = {stage["name"]: int(stage["result"].split()[0]) for stage in pieces if stage["result"].endswith("verified")}
        self.assertGreater(ops["backward"], 2 * ops["forward"])
        self.assertLess(ops["fuse_accumulate"], ops["remove_dead"])
        self.assertIn("4 micro-batches of 2 rows", next(s["result"] for s in pieces if s["name"] == "plan"))

    def test_texts_are_those_of_each_stage(self):
        texts = {stage["name"]: stage.get("text", "") for stage in self.stages("--stages", train_batch_size=4, micro_batch_size=2)}
        self.assertNotIn("backward\n", texts["forward"])
        self.assertIn(" = accumulate(", texts["backward"])
        self.assertIn(" = matmul_accumulate(", texts["fuse_accumulate"])
        self.assertNotIn(" = matmul_accumulate(", texts["remove_dead"])
        if "pack_weights" in texts:
            self.assertIn(" = cached \"pack_weight(", texts["split_prologue"])
        else:
            self.assertEqual(texts["fuse_accumulate"], texts["split_prologue"])
        self.assertGreater(len(json.loads(texts["kernels"])["ops"]), 50)
        self.assertGreater(len(json.loads(texts["plan"])["steps"]), 50)
        done = run("explain", "--stages", *options(**self.base(train_batch_size=4)))
        self.assertIn("\n== fuse_accumulate\ngraph \"train\" {", done.stdout)

    def test_the_time_of_an_update_op_by_op_and_what_is_merged(self):
        # Products take five times as long to compute as to move, all others at least as long to move.
        rates = common.set_rates(self.folder, {"": dict(per_call=1e-6, per_flop=0, per_byte=1e-10, saved_share=0.3), "matmul": dict(per_call=1e-6, per_flop=2e-11, per_byte=0)})
        keys = self.base(max_steps=2, model="bert-mini", train_batch_size=8, micro_batch_size=4)
        told, plan = json.loads(self.ok("explain", env=rates, json=True, **keys).stdout), self.plan(env=rates, **keys)
        ops = told["step"]["ops"]
        self.assertAlmostEqual(sum(op["seconds"] for op in ops) / plan["step_seconds"], 1, places=6)
        self.assertAlmostEqual(told["step"]["seconds"] / plan["step_seconds"], 1, places=6)
        self.assertEqual(ops, sorted(ops, key=lambda op: -op["seconds"]))
        self.assertRegex(ops[0]["op"], "^(packed_)?matmul")  # which of them, the instruction set decides
        self.assertEqual((ops[0]["limit"], next(op["limit"] for op in ops if op["op"] == "adamw")), ("arithmetic", "memory"))
        fusion = told["fusion"]
        self.assertEqual(sum(each["runs"] for each in fusion["merged"] if len(each["ops"]) > 1), 2 * plan["row_program_ops"])
        self.assertGreater(fusion["saved_bytes"], 0)
        self.assertTrue(all(each["reason"] and each["runs"] > 0 for each in fusion["apart"]))
        done = self.ok("explain", env=rates, **keys, fusion_overrides='[{"match": "*dropout", "level": "off"}]')
        for text in ("time, op by op: ", "memory", "arithmetic", "merged: ", " of memory traffic", "'*dropout' is off"):
            self.assertIn(text, done.stdout)

    def test_what_is_told_is_the_plan_that_was_chosen(self):
        # In 16 bits shorter rows may need more scratch, which the plan of the longest counts.
        stages = {stage["name"]: stage for stage in self.stages(bf16=True)}
        self.assertIn("mixed_precision", stages)
        self.assertTrue(stages["plan"]["result"].endswith("checked"))

    def test_what_does_not_fit_is_refused_as_by_plan(self):
        done = run("explain", *options(**self.base(memory="50MiB")))
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("smallest", done.stderr)


class Plans(Case):
    def test_a_replayed_plan_gives_the_same_plan_and_the_same_weights(self):
        # A finished tokenizer: learning one would need more memory than this small model.
        tokenizer = self.train("tokenizer", max_steps=1) / "last"
        base = self.base(max_steps=3, train_batch_size=32, model="bert-mini", tokenizer=tokenizer, vocab_size=None)
        smallest = self.plan(**base)["smallest_budget_bytes"]
        tight = dict(base, memory=smallest)
        file = self.folder / "tight.plan"
        first = run("plan", "--json", "--save-plan", str(file), *options(**tight))
        self.assertEqual(first.returncode, 0, first.stderr)
        # With far more memory the planner would choose otherwise; the replayed plan does not.
        roomy = dict(base, memory="64GiB")
        again = run("plan", "--json", "--plan", str(file), *options(**roomy))
        self.assertEqual(again.returncode, 0, again.stderr)
        one, two = json.loads(first.stdout), json.loads(again.stdout)
        for key in ("arena_bytes", "micro_batch", "strategy", "load_bytes", "resident_bytes", "step_seconds"):
            self.assertEqual(one[key], two[key], key)
        self.assertEqual(one["planned_peak_bytes"], two["planned_peak_bytes"] - two["held_rows_bytes"])  # which the roomy budget has left
        self.assertNotEqual(self.plan(**roomy)["arena_bytes"], two["arena_bytes"])
        planned = self.train("planned", **tight)
        out = self.folder / "replayed"
        done = run("train", "--plan", str(file), *options(**dict(roomy, output_dir=out)))
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.summary(out)["measured_arena_bytes"], two["arena_bytes"])
        self.assertEqual(self.summary(out)["weights_sha256"], self.summary(planned)["weights_sha256"])

    def test_a_plan_from_another_machine_has_the_seconds_of_this_one(self):
        base = dict(model="bert-tiny", train_batch_size=8, max_seq_length=32, memory="1GiB")
        file = self.folder / "elsewhere.plan"
        done = run("plan", "--json", "--save-plan", str(file), *options(**base))
        self.assertEqual(done.returncode, 0, done.stderr)
        slow = common.set_rates(self.folder, {"": dict(per_call=0.1, per_flop=0, per_byte=1e-8)})
        again = run("plan", "--json", "--plan", str(file), *options(**base, threads=2), env=slow)
        self.assertEqual(again.returncode, 0, again.stderr)
        one, two = json.loads(done.stdout), json.loads(again.stdout)
        self.assertEqual(one["arena_bytes"], two["arena_bytes"])
        self.assertGreater(two["step_seconds"], 2 * one["step_seconds"])

    def test_a_micro_batch_that_was_chosen_has_the_same_plan_when_it_is_given(self):
        # As a resumed run gives it: or it could be refused the budget in which it began.
        # At these speeds splitting is now cheaper than recomputing, now not, whatever the machine's are.
        rates = common.set_rates(self.folder, {"": dict(per_call=1e-6, per_flop=5e-12, per_byte=1e-10)})
        base = dict(model="bert-small", train_batch_size=24, max_seq_length=128, env=rates)
        whole = self.plan(memory="64GiB", **base)
        low, high = whole["smallest_budget_bytes"], whole["keep_all_peak_bytes"]
        splits = set()
        for i in range(6):
            budget = low + (high - low) * i // 5
            chosen = self.plan(memory=budget, **base)
            given = self.plan(memory=budget, micro_batch_size=chosen["micro_batch"], **base)
            splits.add(chosen["micro_batch"])
            for key in ("arena_bytes", "load_bytes", "step_seconds", "strategy", "planned_peak_bytes"):
                self.assertEqual(given[key], chosen[key], (key, budget))
        self.assertGreater(len(splits), 1)

    def test_a_plan_that_does_not_belong_to_the_run_is_refused(self):
        base = dict(model="bert-tiny", train_batch_size=8, max_seq_length=32, memory="1GiB")
        file = self.folder / "tiny.plan"
        done = run("plan", "--save-plan", str(file), *options(**base))
        self.assertEqual(done.returncode, 0, done.stderr)
        saved = json.loads(file.read_text())
        shifted = json.loads(file.read_text())
        step = next(s for s in shifted["programs"][0]["plan"]["steps"] if any(o >= 64 for o in s["outputs"]))
        step["outputs"] = [o + 64 if o >= 0 else o for o in step["outputs"]]
        cases = {
            "another batch": (dict(base, train_batch_size=16), json.dumps(dict(saved, micro_batch=16)), "not for this run"),
            "another length": (dict(base, max_seq_length=64), json.dumps(saved), "no (train|eval) program|not for this run"),
            "another optimizer": (dict(base, optim="sgd"), json.dumps(saved), "not for this run"),
            "a moved tensor": (base, json.dumps(shifted), "not for this run"),
            "not a plan": (base, "[1, 2", "not a saved plan"),
            "no programs": (base, '{"format": "snug plan 1", "micro_batch": 8}', "programs"),
            "another format": (base, json.dumps(dict(saved, format="x")), "format"),
        }
        for name, (config, text, message) in cases.items():
            file.write_text(text)
            done = run("plan", "--plan", str(file), *options(**config))
            self.assertEqual(done.returncode, 1, f"{name}: {done.stdout}{done.stderr}")
            self.assertRegex(done.stderr, message, name)
            self.assertIn(str(file), done.stderr, name)
        done = run("plan", "--plan", str(self.folder / "absent"), *options(**base))
        self.assertEqual(done.returncode, 1)
        file.write_text(json.dumps(saved))
        done = run("plan", "--plan", str(file), *options(**dict(base, memory="8MiB")))
        self.assertEqual(done.returncode, 2, done.stderr)

    def test_the_page_stands_alone_and_shows_the_plan(self):
        base = dict(model="bert-mini", train_batch_size=64, max_seq_length=128)
        smallest = self.plan(memory="64GiB", **base)["smallest_budget_bytes"]
        file = self.folder / "plan.html"
        done = run("plan", "--html", str(file), *options(**dict(base, memory=smallest)))
        self.assertEqual(done.returncode, 0, done.stderr)
        text = file.read_text()
        page = Page()
        page.feed(text)
        self.assertEqual(page.links, [])
        self.assertNotRegex(text, r"https?://(?!www\.w3\.org)|@import|url\(")
        self.assertEqual(page.tags.count("svg"), 3)
        self.assertGreater(page.tags.count("rect"), 100)
        self.assertTrue(any("made again" in title for title in page.titles))
        self.assertTrue(any("bert.encoder.layer.0" in title for title in page.titles))
        self.assertNotRegex(text, r"\bnan\b|\binf\b|-nan")
        self.assertGreater(len(re.findall(r"<circle", text)), 3)
        former = file.read_bytes()
        limited = ("sh", "-c", 'trap "" XFSZ; ulimit -f 8 && exec "$@"', "sh")  # as a full disk
        done = run("plan", "--html", str(file), *options(**dict(base, memory="8GiB")), prefix=limited)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(file.read_bytes(), former)
        done = run("plan", "--html", str(self.folder / "no" / "plan.html"), *options(**dict(base, memory="8GiB")))
        self.assertEqual(done.returncode, 1)
        for option in ("--html", "--save-plan", "--plan", "--save-problem", "-c"):
            done = run("plan", option, "", *options(**dict(base, memory="8GiB")))
            self.assertEqual(done.returncode, 1, option)
            self.assertIn("an empty word is no file", done.stderr)

    def test_keep_all_is_of_the_micro_batch_that_is_given(self):
        # Bytes cost nothing here, so that keeping everything is the fastest plan on every machine.
        rates = common.set_rates(self.folder, {"": dict(per_call=1e-6, per_flop=1e-11, per_byte=0)})
        base = dict(model="bert-tiny", train_batch_size=16, max_seq_length=32, memory="8GiB", env=rates)
        whole = self.plan(**base)
        split = self.plan(micro_batch_size=4, **base)
        self.assertEqual((whole["keep_all_micro_batch"], split["keep_all_micro_batch"]), (16, 4))
        self.assertEqual(split["keep_all_peak_bytes"], split["planned_peak_bytes"] - split["read_ahead_bytes"] - split["held_rows_bytes"])
        self.assertIn("(micro-batches of 4, nothing recomputed)", self.ok("plan", micro_batch_size=4, **base).stdout)

    def test_blocks_say_what_is_kept_and_what_is_run_again(self):
        # Bytes cost nothing here, so keeping has no price and what runs again is the whole overhead.
        rates = common.set_rates(self.folder, {"": dict(per_call=1e-6, per_flop=1e-11, per_byte=0)})
        base = dict(model="bert-base", train_batch_size=16, micro_batch_size=16, max_seq_length=128, two_pass_clip="false", env=rates)
        whole = self.plan(memory="64GiB", **base)
        self.assertTrue(all(block["recompute_seconds"] == 0 for block in whole["blocks"]))
        self.assertEqual(whole["strategy"], "keep-all")
        for block in whole["blocks"]:
            self.assertEqual(block["kept_bytes"], block["keep_all_bytes"], block)
            self.assertNotEqual(block["first"], "", block)
        self.assertEqual(whole["keep_all_micro_batch"], 16)
        tight = self.plan(memory=whole["smallest_budget_bytes"], **base)
        layers = [b for b in tight["blocks"] if b["first"].startswith("bert.encoder.layer.")]
        self.assertEqual(sum(b["count"] for b in layers), 12)
        self.assertTrue(any(b["recompute_seconds"] > 0 and b["recomputed"] for b in layers))
        again = sum(b["count"] * b["recompute_seconds"] for b in tight["blocks"])
        overhead = tight["step_seconds"] - whole["step_seconds"]
        self.assertLess(abs(again - overhead), 0.05 * overhead)


if __name__ == "__main__":
    common.main()

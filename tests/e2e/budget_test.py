"""The budget is a limit: planned = measured, refusal one page below the smallest, hard limits of the system."""
import json
import pathlib
import shutil
import struct
import time
import subprocess
import sys
import os
import tempfile
import unittest
from unittest import mock

import common
from common import PAGE, Case, MemoryLimit, options, run

KEYS = """budget_bytes process_bytes read_ahead_bytes held_rows_bytes resident_bytes arena_bytes planned_peak_bytes keep_all_arena_bytes load_bytes
working_set_bound_bytes smallest_budget_bytes micro_batch accumulation_steps step_seconds ops_run_again recompute_overhead
lower_bound_overhead strategy peak_op""".split()


class Budget(Case):
    def test_plan_without_data_has_every_key_and_is_one_object(self):
        plan = self.plan(model="bert-base", train_batch_size=32, max_seq_length=128, memory="4GiB")
        for key in KEYS:
            self.assertIn(key, plan)
        self.assertLessEqual(plan["planned_peak_bytes"], plan["budget_bytes"])
        self.assertEqual(plan["smallest_budget_bytes"] % PAGE, 0)
        self.assertGreaterEqual(plan["arena_bytes"], plan["load_bytes"])
        self.assertGreaterEqual(plan["micro_batch"] * plan["accumulation_steps"], 32)

    def test_plan_for_more_memory_than_the_machine_has(self):
        rates = common.set_rates(self.folder, {"": dict(per_call=1e-6, per_flop=5e-12, per_byte=1e-10)})
        plan = self.plan(model="bert-large", train_batch_size=64, max_seq_length=512, memory="4TiB", env=rates)
        self.assertLessEqual(plan["recompute_overhead"], 0)  # keeping has a price: a little less than everything may be faster
        self.assertEqual(plan["accumulation_steps"], 1)

    def test_five_budgets_run_as_planned(self):
        base = self.base(model="bert-mini", train_batch_size=64, max_steps=4, eval_steps=2, save_steps=2)
        whole = self.plan(**dict(base, memory="64GiB"))
        low, high = whole["smallest_budget_bytes"], whole["keep_all_peak_bytes"]
        for i in range(5):
            budget = (low + (high - low) * i // 4 + PAGE - 1) // PAGE * PAGE
            planned = self.plan(**dict(base, memory=budget))
            out = self.train(f"b{i}", **dict(base, memory=budget))
            summary = self.summary(out)
            self.assertEqual(summary["measured_arena_bytes"], planned["arena_bytes"])
            self.assert_resident_within(summary, budget)
            written = json.loads((out / "plan.json").read_text())
            for key in KEYS:
                self.assertEqual(written[key], planned[key], key)

    def test_rows_are_held_or_read_ahead_where_the_plan_leaves_bytes_for_it(self):
        rows = self.folder / "many.jsonl"  # more bytes than two batches and a thread
        rows.write_text("".join(json.dumps({"text": f"{i % 89} {i % 97}", "label": str(i % 2)}) + "\n" for i in range(8000)))
        base = self.base(model="bert-mini", train_file=rows, validation_file=rows, eval_steps=0, max_seq_length=8, train_batch_size=64, micro_batch_size=16, max_steps=5, logging_steps=1)
        whole = self.plan(**dict(base, memory="64GiB"))
        weights, ways = set(), []
        # Not a byte more, those of two batches, and those of all rows. The fastest plan need not be that of keep-all.
        for budget in (whole["smallest_budget_bytes"], whole["planned_peak_bytes"] - PAGE, "64GiB"):
            out = self.train(f"rows-{budget}", **dict(base, memory=budget))
            plan, summary = json.loads((out / "plan.json").read_text()), self.summary(out)
            held, ahead = plan["held_rows_bytes"], plan["read_ahead_bytes"]
            self.assertEqual((plan["components"].get("rows", 0), plan["components"].get("rows read ahead", 0)), (held, ahead))
            self.assertLessEqual(plan["planned_peak_bytes"], plan["budget_bytes"])
            self.assert_resident_within(summary, plan["planned_peak_bytes"])
            for line in map(json.loads, (out / "metrics.jsonl").read_text().splitlines()):
                self.assertTrue(0 < line["waiting_for_rows"] < 1, line)
            weights.add(summary["weights_sha256"])
            ways.append("held" if held else "ahead" if ahead else "direct")
        self.assertEqual(ways, ["direct", "ahead", "held"])
        self.assertEqual(len(weights), 1)

    def test_the_process_of_many_layers_is_within_its_plan(self):
        folder = self.folder / "deep"
        folder.mkdir()
        (folder / "config.json").write_text(json.dumps(dict(
            model_type="bert", vocab_size=2000, hidden_size=256, num_hidden_layers=16, num_attention_heads=4, intermediate_size=1024,
            max_position_embeddings=128, type_vocab_size=2, hidden_act="gelu")))
        for name, keys in (("plain", {}), ("codes", dict(optim_bits=8, two_pass_clip=True))):
            out = self.train(name, **self.base(model=folder, train_batch_size=4, micro_batch_size=4, max_steps=3, memory="2GiB", **keys))
            plan = json.loads((out / "plan.json").read_text())
            self.assert_resident_within(self.summary(out), plan["planned_peak_bytes"])

    def test_one_page_below_the_smallest_is_refused_with_proof_and_the_smallest_runs(self):
        base = self.base(max_steps=2)
        smallest = self.plan(**base)["smallest_budget_bytes"]
        refused = run("train", *options(**dict(base, memory=smallest - PAGE, output_dir=self.folder / "no")))
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertRegex(refused.stderr, "proof|no plan found")
        self.assertIn(str(smallest), refused.stderr)
        self.assertLessEqual(len(refused.stderr.splitlines()), 25)
        self.assertFalse((self.folder / "no/last").exists())
        self.train("yes", **dict(base, memory=smallest))

    def test_the_smallest_runs_under_a_hard_limit_with_evaluation_checkpoint_and_resume(self):
        base = self.base(max_steps=4, eval_steps=2, save_steps=2)
        smallest = self.plan(**base)["smallest_budget_bytes"]
        out = self.folder / "limited"
        with MemoryLimit(self, smallest) as limit:
            first = run("train", *options(**dict(base, memory=smallest, output_dir=out)), prefix=limit.prefix)
            self.assertEqual(first.returncode, 0, first.stderr)
            again = run("train", *options(**dict(base, memory=smallest, output_dir=out, resume=True)), prefix=limit.prefix)
            self.assertEqual(again.returncode, 0, again.stderr)
            automatic = run("eval", *options(**dict(base, memory="auto", output_dir=out)), prefix=limit.prefix)
            self.assertEqual(automatic.returncode, 0, automatic.stderr)

    def test_a_limit_that_cannot_be_set_is_said_and_fails_under_continuous_integration(self):
        if common.IS_SANITIZED:
            common.not_run(self, "under a sanitizer no limit is set")
        root, lines = self.folder / "groups", self.folder / "lines"
        root.mkdir()

        def enter(**more):
            with mock.patch.dict(os.environ, dict(SNUG_NOT_RUN=str(lines), **more)), MemoryLimit(self, 1 << 30, root):
                self.fail("a folder that is no control group limits nothing")

        with self.assertRaises(unittest.SkipTest):
            enter(CI="true")
        self.assertIn("no memory control group is mounted", lines.read_text())
        (root / "cgroup.controllers").write_text("memory")
        with self.assertRaises(unittest.SkipTest):
            enter(CI="")
        self.assertIn("can be made", lines.read_text())
        with self.assertRaisesRegex(AssertionError, "can be made"):
            enter(CI="true")

    def test_a_budget_above_the_groups_limit_is_refused_and_a_plan_warns(self):
        limit_bytes, budget = 300 << 20, 600 << 20
        out = self.train("run")
        with MemoryLimit(self, limit_bytes) as limit:
            for verb in ("train", "eval", "predict", "verify"):
                folder = self.folder / "other" if verb == "train" else out
                done = run(verb, *options(**self.base(output_dir=folder, memory=budget)), prefix=limit.prefix)
                self.assertEqual(done.returncode, 2, verb + done.stderr)
                self.assertIn(f"({budget} bytes)", done.stderr)
                self.assertIn(f"({limit_bytes} bytes)", done.stderr)
            self.assertFalse((self.folder / "other/metrics.jsonl").exists())
            planned = run("plan", *options(**self.base(memory=budget)), prefix=limit.prefix)
            self.assertEqual(planned.returncode, 0, planned.stderr)
            self.assertIn(f"({limit_bytes} bytes)", planned.stderr)
            self.assertIn("warning", planned.stderr)
            within = run("eval", *options(**self.base(output_dir=out, memory=limit_bytes)), prefix=limit.prefix)
            self.assertEqual(within.returncode, 0, within.stderr)
            self.assertNotIn("warning", within.stderr)

    def test_checkpoints_on_a_file_system_in_memory_count_in_the_groups_limit(self):
        place = pathlib.Path("/dev/shm")
        if not os.access(place, os.W_OK) or subprocess.run(["stat", "-f", "-c", "%T", place], capture_output=True, text=True).stdout.strip() != "tmpfs":
            common.not_run(self, "there is no file system in memory at /dev/shm")
        out = pathlib.Path(tempfile.mkdtemp(prefix="snug-", dir=place))
        self.addCleanup(shutil.rmtree, out, True)
        base = self.base(max_steps=2, save_steps=1, output_dir=out / "run")
        smallest = self.plan(**base)["smallest_budget_bytes"]
        with MemoryLimit(self, 300 << 20) as limit:
            done = run("train", *options(**dict(base, memory=smallest, save_total_limit=100)), prefix=limit.prefix)
            said = " ".join(done.stderr.split())
            self.assertEqual(done.returncode, 2, said)
            self.assertIn(f"[output_dir] {out / 'run'} lies in memory (tmpfs), where files count in the cgroup", said)
            self.assertIn("hint: give a folder on a disk", said)
            self.assertNotIn("or --memory", said)  # what the files leave is less than any budget that works
            self.assertFalse((out / "run/last").exists())
            fits = run("train", *options(**dict(base, memory=smallest)), prefix=limit.prefix)
            self.assertEqual(fits.returncode, 0, fits.stderr)

    def test_limits_of_the_process_are_what_auto_sees(self):
        if common.IS_SANITIZED:
            common.not_run(self, "a sanitizer's shadow passes any limit")
        limits = ("sh", "-c", 'ulimit -v 700000 && exec "$@"', "sh")
        planned = run("plan", *options(**self.base(memory="auto")), "--json", prefix=limits)
        self.assertEqual(planned.returncode, 0, planned.stderr)
        self.assertLess(json.loads(planned.stdout)["budget_bytes"], 700000 << 10)
        trained = run("train", *options(**self.base(memory="auto", output_dir=self.folder / "small")), prefix=limits)
        self.assertEqual(trained.returncode, 0, trained.stderr)
        refused = run("train", *options(**self.base(memory="2GiB", output_dir=self.folder / "large")), prefix=limits)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertIn("address space (ulimit -v)", " ".join(refused.stderr.split()))

    def test_an_allocator_that_is_not_the_c_librarys_is_said(self):
        if common.IS_SANITIZED:
            common.not_run(self, "a sanitizer has its own allocator")
        compiler = shutil.which("cc")
        if compiler is None:
            common.not_run(self, "there is no C compiler")
        source, shim = self.folder / "allocator.c", self.folder / "allocator.so"
        source.write_text("#include <stddef.h>\nextern void* __libc_malloc(size_t);\nvoid* malloc(size_t size) { return __libc_malloc(size); }\n")
        subprocess.run([compiler, "-shared", "-fPIC", "-o", shim, source], check=True)
        words = ["plan", *options(**self.base())]
        said = " ".join(run(*words, env={"LD_PRELOAD": str(shim)}).stderr.split())
        self.assertIn(f"warning: the memory allocator of this process is {shim}, not the C library's", said)
        self.assertNotIn("allocator", run(*words).stderr)

    def test_where_planning_would_be_killed_it_is_refused_before(self):
        limit_bytes = 200 << 20
        config = self.folder / "config.json"
        config.write_text(json.dumps(dict(model_type="bert", hidden_size=64, num_attention_heads=1, intermediate_size=64, vocab_size=100,
                                          num_hidden_layers=2000, max_position_embeddings=128, type_vocab_size=2)))
        with MemoryLimit(self, limit_bytes) as limit:
            done = run("plan", *options(model=config, max_seq_length=64, threads=1, memory=limit_bytes), prefix=limit.prefix)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("planning need", done.stderr)
        self.assertIn(f"({limit_bytes} bytes)", done.stderr)

    def deep(self, layers, **fields):
        config = self.folder / "config.json"
        config.write_text(json.dumps(dict(dict(model_type="bert", hidden_size=4, num_attention_heads=1, intermediate_size=4, vocab_size=100,
                                               num_hidden_layers=layers, max_position_embeddings=32, type_vocab_size=2), **fields)))
        return config

    def test_a_network_that_cannot_be_built_is_refused_before(self):
        keys = dict(self.base(model=self.deep(10000), max_seq_length=16, threads=1, memory="200MiB", vocab_size=None), output_dir=self.folder / "run")
        whole = {key: keys[key] for key in ("model", "max_seq_length", "threads", "memory")}
        trained = self.folder / "trained"
        self.ok("train", **self.base(model=self.deep(1), max_seq_length=16, output_dir=self.folder / "one", max_steps=1))
        shutil.copytree(self.folder / "one/last", trained)
        shutil.copy(self.deep(10000), trained / "config.json")
        with MemoryLimit(self, 300 << 20) as limit:
            for verb, words in (("inspect", options(model=keys["model"], max_seq_length=16)), ("plan", options(**whole)),
                                ("plan", options(**dict(whole, memory="20GiB"))), ("train", options(**keys)),
                                ("eval", options(**dict(keys, model=trained))), ("predict", options(**dict(keys, model=trained)))):
                with self.subTest(verb=verb, words=words):
                    done = run(verb, *words, prefix=limit.prefix)
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertIn("more than the cgroup", done.stderr)
                    self.assertIn(f"({300 << 20} bytes)", done.stderr)

    def test_what_planning_is_sure_to_need_is_asked_of_the_group_whatever_the_budget(self):
        with MemoryLimit(self, 300 << 20) as limit:
            keys = dict(model=self.deep(5000), max_seq_length=16, threads=1, memory="20GiB")
            for words in (options(**keys), ("--levers", *options(**keys))):
                done = run("plan", *words, prefix=limit.prefix)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn("planning alone needs more than", done.stderr)
            self.assertEqual(run("inspect", *options(model=keys["model"], max_seq_length=16), prefix=limit.prefix).returncode, 0)

    def test_more_layers_than_a_model_may_have_are_refused_by_name(self):
        bert, many = dict(model_type="bert", num_attention_heads=1, hidden_size=4), 1000000000
        for fields, name in ((dict(bert), "num_hidden_layers"), (dict(bert, model_type="roberta"), "num_hidden_layers"),
                             (dict(bert, model_type="electra"), "num_hidden_layers"), (dict(bert, model_type="albert"), "num_hidden_layers"),
                             (dict(bert, model_type="deberta-v2"), "num_hidden_layers"), (dict(bert, model_type="modernbert"), "num_hidden_layers"),
                             (dict(model_type="lstm"), "num_hidden_layers"), (dict(model_type="distilbert", n_layers=many), "n_layers"),
                             (dict(model_type="albert", num_hidden_layers=200, inner_group_num=100, num_attention_heads=1), "inner_group_num"),
                             (dict(model_type="mlp", hidden_sizes=[4] * 10001), "hidden_sizes"),
                             (dict(model_type="resnet", depths=[many, 1, 1, 1]), "depths"), (dict(model_type="vgg", depths=[1, 1, 1, 1, many]), "depths")):
            config = self.folder / "deep.json"
            is_text = name == "num_hidden_layers"
            config.write_text(json.dumps(dict({"num_hidden_layers": many} if is_text else {}, **fields)))
            for verb in ("inspect", "plan"):
                with self.subTest(fields["model_type"], verb=verb):
                    done = run(verb, "--model", config, timeout=10)
                    self.assertEqual(done.returncode, 1, done.stderr)
                    self.assertRegex(done.stderr, rf"^error: \[.*deep.json\] .*{name}.* 10000")
        done = run("plan", *options(model="resnet-20", stage_blocks="1048576,1,1"), timeout=10)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("depths asks for at least 1048576 layers or blocks, more than the 10000", done.stderr)

    def test_a_refusal_reads_the_weights_files_once(self):
        trained = self.train("run", max_steps=1) / "last"
        (trained / ".snug.complete").unlink()
        weights = trained / "model.safetensors"
        data = weights.read_bytes()
        (length,) = struct.unpack("<Q", data[:8])
        header, data = json.loads(data[8:8 + length]), data[8 + length:]
        for i in range(150000):
            header[f"extra.{i}"] = dict(dtype="F32", shape=[0], data_offsets=[len(data), len(data)])
        text = json.dumps(header).encode()
        weights.write_bytes(struct.pack("<Q", len(text)) + text + data)
        seconds = []
        for memory, code in (("800MiB", 0), ("80MiB", 2)):
            begin = time.monotonic()
            done = run("plan", *options(model=trained, max_seq_length=16, train_batch_size=2, threads=1, memory=memory))
            seconds.append(time.monotonic() - begin)
            self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn("cheapest ways to fit", done.stderr)
        self.assertLess(seconds[1], 3 * seconds[0] + 1)

    def test_a_warning_says_that_other_processes_leave_less_than_the_budget(self):
        limit_bytes, held = 400 << 20, 200 << 20
        with MemoryLimit(self, limit_bytes) as limit:
            hog = subprocess.Popen([*limit.prefix, sys.executable, "-c",
                                    f"b = bytearray({held}); b[::4096] = b[::4096].replace(b'\\0', b'x')\n"
                                    "print('held', flush=True); input()"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            try:
                self.assertEqual(hog.stdout.readline(), "held\n")
                done = run("plan", *options(**self.base(memory=limit_bytes)), prefix=limit.prefix)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("warning: other processes leave", done.stderr)
                done = run("plan", *options(**self.base(memory=limit_bytes - held - (64 << 20))), prefix=limit.prefix)
                self.assertNotIn("warning", done.stderr)
            finally:
                hog.communicate("\n")

    def test_evaluation_and_prediction_keep_the_budget(self):
        out = self.train("run")
        for verb in ("eval", "predict"):
            words = options(**self.base(output_dir=out, memory="1MiB"))
            self.assertEqual(run(verb, *words).returncode, 2)
            self.ok(verb, **self.base(output_dir=out, memory="256MiB"))

    def test_forms_of_memory(self):
        for text in ("900MiB", "60%", "-512MiB", "auto", "943718400"):
            plan = self.plan(**self.base(memory=text))
            self.assertEqual(plan["budget_bytes"] % PAGE, 0)
        self.assertEqual(self.plan(**self.base(memory="900MiB"))["budget_bytes"], 900 << 20)


if __name__ == "__main__":
    common.main()

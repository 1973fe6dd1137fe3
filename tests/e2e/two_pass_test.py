"""Clipping in two passes: taken where the budget asks for it, the bits of one pass for every family, planned is measured, resumed."""
import json

from common import Case, main, options, run, sha256, write_cifar

FAMILIES = {"bert": dict(model="bert-tiny", max_grad_norm=0.1), "distilbert": dict(model="distilbert-tiny", max_grad_norm=0.1),
            "lstm": dict(model="lstm", hidden_size=32, max_grad_norm=0.01), "mlp": dict(model="mlp", hidden_sizes=64, max_grad_norm=0.01),
            "8bit": dict(model="bert-mini", optim_bits=8, max_grad_norm=0.1), "scaled": dict(model="bert-tiny", loss_scale="dynamic", max_grad_norm=0)}
WHOLE = dict(train_batch_size=8, micro_batch_size=8, max_steps=3)


class TwoPass(Case):
    def assert_same(self, one, two):
        for file in ("model.safetensors", "optimizer.safetensors"):
            self.assertEqual(sha256(one / "last" / file), sha256(two / "last" / file), file)
        logs = [[json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()] for out in (one, two)]
        self.assertEqual(*([(line["loss"], line["grad_norm"]) for line in log] for log in logs))
        summary = self.summary(two)
        self.assertEqual(summary["measured_arena_bytes"], summary["planned_arena_bytes"])

    def test_every_family_has_the_bits_of_one_pass(self):
        for name, keys in FAMILIES.items():
            with self.subTest(name):
                one, two = (self.train(f"{name}-{form}", **WHOLE, **keys, two_pass_clip=form) for form in ("false", "true"))
                self.assert_same(one, two)
        folder = write_cifar(self.folder / "cifar", data_batch_1=32, test_batch=8)
        keys = dict(WHOLE, model="resnet-8", train_file=folder, validation_file=None, optim="sgd", vocab_size=None, max_seq_length=None,
                    max_grad_norm=0.1)
        one, two = (self.train(f"resnet-{form}", **keys, two_pass_clip=form) for form in ("false", "true"))
        self.assert_same(one, two)

    def test_a_budget_takes_it_and_a_kill_goes_on_in_the_other_form(self):
        keys = dict(model="bert-mini", train_batch_size=4, micro_batch_size=4, max_steps=4, save_steps=1)
        one, two, free = (self.plan(**self.base(**keys, two_pass_clip=form)) for form in ("false", "true", "auto"))
        self.assertFalse(free["two_pass_clip"])
        self.assertEqual(free["smallest_budget_bytes"], two["smallest_budget_bytes"])
        self.assertLess(two["smallest_budget_bytes"], one["smallest_budget_bytes"])
        self.assertTrue(any(row["two_pass_clip"] for row in free["prices"]))
        tight = two["smallest_budget_bytes"]
        self.assertIn("run twice, first for the norm", self.ok("plan", **self.base(**dict(keys, memory=tight))).stdout)
        whole = self.train("whole", **keys)
        cut = self.base(**dict(keys, output_dir=self.folder / "cut", memory=tight))
        self.kill_after_a_checkpoint(**cut)
        self.ok("train", **dict(cut, resume=True, memory="1GiB"))
        self.assertEqual(sha256(cut["output_dir"] / "last/model.safetensors"), sha256(whole / "last/model.safetensors"))
        out = self.train("tight", **dict(keys, memory=tight))
        self.assert_same(whole, out)
        self.assert_resident_within(self.summary(out), tight)
        done = run("plan", *options(**self.base(**dict(keys, memory=tight, two_pass_clip="false"))))
        self.assertEqual(done.returncode, 2, done.stdout)
        self.assertIn("--two_pass_clip true", done.stderr)

    def test_a_saved_plan_is_replayed_in_its_form(self):
        file = self.folder / "plan.json"
        one = self.train("one", **WHOLE, two_pass_clip="false")
        self.ok("plan", **self.base(**WHOLE, two_pass_clip="true"), **{"save-plan": file})
        two = self.train("two", **WHOLE, plan=file)
        self.assertTrue(json.loads((two / "plan.json").read_text())["two_pass_clip"])
        self.assert_same(one, two)


if __name__ == "__main__":
    main()

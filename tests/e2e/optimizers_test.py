"""Every optimizer of the program's own list: a run that is cut resumes to equal bits, two splits agree, checkpoints hold the states by
role, and a plan counts them; schedules with arguments."""
import json

from common import Case, main, options, read_safetensors, read_safetensors_header, run, sha256

UPDATES = 4


def optimizers():
    listed = json.loads(run("help", "--json").stdout)["options"]
    return next(option["allowed"] for option in listed if option["name"] == "optim")


class Optimizers(Case):
    def test_every_optimizer_plans_trains_resumes_and_is_verified(self):
        for name in optimizers():
            with self.subTest(name):
                keys = self.base(optim=name, model="mlp", hidden_sizes="16", train_batch_size=8, micro_batch_size=4, save_steps=2,
                                 validation_split=0, validation_file=None, weight_decay=0.01, lr_scheduler_type="constant")
                plan = self.plan(**keys)
                whole, cut = self.folder / f"{name}-whole", self.folder / f"{name}-cut"
                self.ok("train", **dict(keys, output_dir=whole, max_steps=UPDATES))
                self.ok("train", **dict(keys, output_dir=cut, max_steps=UPDATES // 2))
                self.ok("train", **dict(keys, output_dir=cut, max_steps=UPDATES, resume=True))
                for file in ("model.safetensors", "optimizer.safetensors"):
                    self.assertEqual(sha256(whole / "last" / file), sha256(cut / "last" / file), file)
                self.assertEqual(self.summary(whole)["measured_arena_bytes"], plan["arena_bytes"])
                states = read_safetensors_header(whole / "last/optimizer.safetensors")
                weights = set(read_safetensors_header(whole / "last/model.safetensors"))
                self.assertLessEqual({state.split(".", 1)[1] for state in states}, weights)
                self.ok("verify", **keys)

    def test_adafactor_keeps_rows_and_columns(self):
        out = self.folder / "run"
        self.ok("train", **self.base(optim="adafactor", model="mlp", hidden_sizes="16", output_dir=out, max_steps=1, validation_split=0))
        states = read_safetensors_header(out / "last/optimizer.safetensors")
        (rows, columns), = [shape for name, (_, shape) in read_safetensors_header(out / "last/model.safetensors").items()
                            if name == "classifier.weight"]
        self.assertEqual(states["row.classifier.weight"][1], [rows])
        self.assertEqual(states["col.classifier.weight"][1], [columns])

    def weights_after(self, name, **more):
        """After one update without clipping: each weight depends on its own rate and decay only."""
        out = self.train(name, **dict(dict(optim="adamw", validation_split=0, validation_file=None, max_steps=1, max_grad_norm=0,
                                           weight_decay=0.1, lr_scheduler_type="constant"), **more))
        return read_safetensors(out / "last/model.safetensors")

    def test_groups_have_their_own_rate_and_decay(self):
        groups = [dict(match="*.layer.0.*", learning_rate=0.01), dict(match="*.bias", weight_decay=0.5), dict(match="*", weight_decay=0)]
        found = self.weights_after("groups", param_groups=json.dumps(groups))
        plain, fast = self.weights_after("plain", weight_decay=0), self.weights_after("fast", learning_rate=0.01)
        for name, values in found.items():
            if ".layer.0." in name:
                self.assertEqual(values, fast[name], name)
            elif not name.endswith(".bias"):
                self.assertEqual(values, plain[name], name)
        moved = found["bert.encoder.layer.1.output.dense.bias"]
        self.assertEqual(moved, plain["bert.encoder.layer.1.output.dense.bias"])  # biases begin at 0: nothing to decay

    def test_the_rate_falls_from_layer_to_layer(self):
        found = self.weights_after("layers", layerwise_lr_decay=0.5)
        for layer, factor in (("bert.embeddings.", 0.125), ("bert.encoder.layer.0.", 0.25), ("bert.encoder.layer.1.", 0.5),
                              ("bert.pooler.", 1), ("classifier.", 1)):
            alone = self.weights_after(f"alone-{layer}", learning_rate=1e-3 * factor)
            names = [name for name in found if name.startswith(layer)]
            self.assertTrue(names)
            for name in names:
                self.assertEqual(found[name], alone[name], name)

    def test_groups_resume_split_and_change(self):
        keys = dict(optim="adamw", layerwise_lr_decay=0.5, micro_batch_size=2, save_steps=2, lr_scheduler_type="constant",
                    param_groups='[{"match": "classifier.*", "learning_rate": 0.01, "weight_decay": 0.1}]')
        whole = self.train("whole", max_steps=4, **keys)
        self.train("cut", max_steps=2, **keys)
        cut = self.train("cut", max_steps=4, resume=True, **keys)
        for file in ("model.safetensors", "optimizer.safetensors"):
            self.assertEqual(sha256(whole / "last" / file), sha256(cut / "last" / file), file)
        self.ok("verify", **self.base(**keys))
        done = self.ok("train", **self.base(output_dir=cut, resume=True, **dict(keys, max_steps=5, layerwise_lr_decay=0.9)))
        self.assertIn("changed: layerwise_lr_decay from '0.5' to '0.9'", done.stderr)

    def test_a_schedule_takes_its_arguments_and_may_change(self):
        keys = self.base(model="mlp", hidden_sizes="16", optim="sgd", validation_split=0, validation_file=None, learning_rate=0.01, logging_steps=1,
                         lr_scheduler_type="polynomial", lr_scheduler_kwargs='{"power": 2, "lr_end": 0.002}')
        whole, cut = self.folder / "schedule-whole", self.folder / "schedule-cut"
        rates = lambda folder: [line["learning_rate"] for line in map(json.loads, open(folder / "metrics.jsonl", encoding="utf-8"))
                                if "learning_rate" in line]
        self.ok("train", **dict(keys, output_dir=whole, max_steps=4))
        for found, left in zip(rates(whole), (1, 0.75, 0.5, 0.25), strict=True):
            self.assertAlmostEqual(found, 0.008 * left ** 2 + 0.002, places=12)
        self.ok("train", **dict(keys, output_dir=cut, max_steps=2))
        done = self.ok("train", **dict(keys, output_dir=cut, max_steps=4, resume=True, lr_scheduler_kwargs='{"lr_end": 0.002}'))
        self.assertIn("changed: lr_scheduler_kwargs from", done.stderr)
        self.assertAlmostEqual(rates(cut)[-1], 0.008 * 0.25 + 0.002, places=12)
        for arguments, text in (('{"timescale": 3}', "'timescale' is no argument of polynomial"), ('{"lr_end": 1}', "is not below learning_rate")):
            done = run("plan", *options(**dict(keys, lr_scheduler_kwargs=arguments)))
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(text, done.stderr)

    def test_verify_compares_weights_of_groups_without_a_rate(self):
        done = self.ok("verify", **self.base(model="mlp", hidden_sizes="16", optim="sgd", param_groups='[{"match": "*", "learning_rate": 0}]'))
        self.assertIn("differ by", done.stdout + done.stderr)
        self.assertNotIn("differ by 0;", done.stdout + done.stderr)

    def test_the_advice_after_an_overflow_names_the_groups(self):
        done = run("train", *options(**self.base(model="mlp", hidden_sizes="16", optim="adafactor", adam_epsilon=1e-30, max_steps=2,
                                                 output_dir=self.folder / "over", param_groups='[{"match": "*", "learning_rate": 1e300}]')))
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("lower param_groups", done.stderr)
        self.assertNotIn("adam_epsilon", done.stderr)

    def test_a_pattern_without_effect_is_refused_by_inspect_too(self):
        done = run("inspect", "--model", "bert-tiny", "--param_groups", '[{"match": "zz", "learning_rate": 1}]')
        self.assertEqual(done.returncode, 1, done.stdout)

    def test_what_does_not_fit_is_refused_whatever_the_optimizer(self):
        done = run("plan", *options(**self.base(model="bert-base", optim="lars", nesterov=True, memory="200MiB")))
        self.assertEqual(done.returncode, 2, done.stderr)

    def test_patterns_without_effect_are_refused(self):
        self.refused("param_groups", "matches no weight of the model", param_groups='[{"match": "no.*", "weight_decay": 0}]')
        self.refused("param_groups", "matches only weights that are frozen", freeze="layers.0.*",
                     param_groups='[{"match": "layers.0.*", "weight_decay": 0}]')
        self.refused("param_groups", "the first match wins", param_groups='[{"match": "*", "weight_decay": 0}, '
                     '{"match": "*.bias", "learning_rate": 1}]')

    def refused(self, key, text, **values):
        done = run("plan", *options(**self.base(model="mlp", **values)))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn(f"[{key}]", done.stderr)
        self.assertIn(text, done.stderr)

    def test_hyper_parameters_without_a_key(self):
        self.ok("plan", **self.base(model="mlp", optim="adagrad", optim_args="lr_decay=0.01"))
        self.refused("optim_args", "names no hyper-parameter of adagrad\nhint: there are lr_decay", optim="adagrad", optim_args="decay=0.1")
        self.refused("optim_args", "give adam_epsilon", optim="adagrad", optim_args="epsilon=0.5")
        self.refused("optim_args", "has no number after the =", optim="adagrad", optim_args="lr_decay=x")
        self.refused("optim_args", "omit optim_args", optim="adamw", optim_args="a=1")
        self.refused("optim", "lr_decay of adagrad is out of range", optim="adagrad", optim_args="lr_decay=-1")


if __name__ == "__main__":
    main()

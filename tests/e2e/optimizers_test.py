"""Every optimizer of the program's own list: a run that is cut resumes to equal bits, two splits agree, checkpoints hold the states by
role, and a plan counts them."""
import json

from common import Case, main, options, read_safetensors_header, run, sha256

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
        self.refused("optim_args", "leave optim_args away", optim="adamw", optim_args="a=1")
        self.refused("optim", "lr_decay of adagrad is out of range", optim="adagrad", optim_args="lr_decay=-1")


if __name__ == "__main__":
    main()

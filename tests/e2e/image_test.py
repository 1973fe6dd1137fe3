"""Residual networks on CIFAR's binary files: the five promises hold for images as for text."""
import json
import pathlib
import shutil

import common
from common import CIFAR_NAMES, PAGE, Case, options, run, sha256, write_cifar


class Images(Case):
    def setUp(self):
        super().setUp()
        self.images = write_cifar(self.folder / "cifar", data_batch_1=70, data_batch_2=35, test_batch=50)

    def base(self, **more):
        values = dict(model="resnet-8", train_file=self.images, validation_file=self.images / "test_batch.bin",
                      train_batch_size=20, max_steps=12, save_steps=4, optim="sgd", momentum=0.9, learning_rate=0.05,
                      memory="1GiB", threads=2, logging_steps=1, seed=3)
        values.update(more)
        return {key: value for key, value in values.items() if value is not None}

    def test_every_budget_trains_to_the_same_bits_and_keeps_it(self):
        plan = self.plan(**self.base())
        small = plan["smallest_budget_bytes"]
        self.assertLess(small, plan["planned_peak_bytes"])
        whole = self.train("whole")
        tight = self.train("tight", memory=small)
        self.assertEqual(sha256(tight / "last/model.safetensors"), sha256(whole / "last/model.safetensors"))
        summary = self.summary(tight)
        self.assertEqual(summary["measured_arena_bytes"], summary["planned_arena_bytes"])
        self.assert_resident_within(summary, small)
        refused = run("train", *options(**self.base(output_dir=self.folder / "less", memory=small - PAGE)))
        self.assertEqual(refused.returncode, 2)
        self.assertIn("allow_batch_norm_split", refused.stderr)

    def test_kill_9_and_resume_gives_the_uninterrupted_weights_and_statistics(self):
        base = self.base(max_steps=60, eval_steps=25)
        wanted = self.train("wanted", **base)
        out = self.folder / "killed"
        self.kill_after_a_checkpoint(**dict(base, output_dir=out))
        self.ok("train", **dict(base, output_dir=out, resume=True))
        for name in ("last/model.safetensors", "last/optimizer.safetensors", "best/model.safetensors"):
            self.assertEqual(sha256(out / name), sha256(wanted / name), name)
        statistics = [key for key in common.read_safetensors(out / "last/model.safetensors") if "running" in key]
        self.assertEqual(len(statistics), 2 * 7)

    def test_learns_evaluates_and_predicts_with_the_names_of_the_classes(self):
        out = self.train("run", max_steps=60)
        test = self.images / "test_batch.bin"
        metrics = json.loads(self.ok("eval", model=out / "best", test_file=test, memory="1GiB", threads=2).stdout)
        self.assertEqual(metrics["rows"], 50)
        self.assertGreater(metrics["accuracy"], 0.5)  # chance: 0.1
        lines = self.ok("predict", model=out / "best", test_file=test, memory="1GiB", threads=2).stdout.splitlines()
        self.assertEqual(len(lines), 50)
        self.assertIn(json.loads(lines[0])["label"], CIFAR_NAMES)
        data = json.loads(self.ok("inspect", json=True, model="resnet-8", train_file=self.images).stdout)["data"][0]
        self.assertEqual(data["rows"], 105)
        self.assertEqual(list(data["labels"]), CIFAR_NAMES)

    def vgg(self, **more):
        """A network of VGG's family that reads CIFAR's images; its batches may be split."""
        config = self.folder / "vgg.json"
        config.write_text(json.dumps(dict(model_type="vgg", depths=[1, 1, 2], widths=[8, 16, 24], hidden_size=48, image_size=32,
                                          num_labels=10, dropout=0.1)))
        return self.base(model=config, optim="adamw", momentum=None, learning_rate=0.005, **more)

    def test_vgg_learns_at_its_smallest_budget_and_resumes_to_the_same_bits(self):
        base = self.vgg(train_batch_size=128, max_steps=60, eval_steps=30, save_steps=8)
        micro_batch = self.plan(**base)["micro_batch"]
        wanted, tight = self.folder / "wanted", self.folder / "tight"
        self.ok("train", **dict(base, output_dir=wanted))
        self.assertGreater(json.loads(self.ok("eval", model=wanted / "best", test_file=self.images / "test_batch.bin", memory="1GiB",
                                              threads=2).stdout)["accuracy"], 0.4)  # of 50 rows; chance: 0.1
        base["micro_batch_size"] = micro_batch  # then planning takes less than training
        plan = self.plan(**base)
        smallest = plan["smallest_budget_bytes"]
        self.assertLess(smallest, plan["planned_peak_bytes"])
        self.kill_after_a_checkpoint(**dict(base, memory=smallest, output_dir=tight))
        self.ok("train", **dict(base, memory=smallest, output_dir=tight, resume=True))
        summary = self.summary(tight)
        self.assertEqual(summary["measured_arena_bytes"], summary["planned_arena_bytes"])
        self.assert_resident_within(summary, smallest)
        for name in ("last/model.safetensors", "last/optimizer.safetensors", "best/model.safetensors"):
            self.assertEqual(sha256(tight / name), sha256(wanted / name), name)
        self.assertNotIn("DIFFERENT", self.ok("verify", **self.vgg(train_batch_size=8)).stdout)

    def test_split_batches_only_where_allowed(self):
        refused = run("plan", *options(**self.base(micro_batch_size=10)))
        self.assertEqual(refused.returncode, 1, refused.stderr)
        self.assertIn("statistics of its batch", refused.stderr)
        plan = self.plan(**self.base(micro_batch_size=10, allow_batch_norm_split=True))
        self.assertEqual((plan["micro_batch"], plan["accumulation_steps"]), (10, 2))
        self.train("split", micro_batch_size=10, allow_batch_norm_split=True)

    def test_verify_finds_equal_bits(self):
        done = self.ok("verify", **self.base())
        self.assertNotIn("DIFFERENT", done.stdout)

    def test_wrong_input_is_one_clear_error(self):
        cases = [(dict(model="vgg-16"), "have 32 x 32 pixels of 3 channels"),
                 (dict(train_file=self.train_file), "neither a folder nor a .bin file"),
                 (dict(train_batch_size=200), "fewer than one whole batch"),
                 (dict(stage_blocks="1,1"), "widths needs"),
                 (dict(model="resnet-21"), "there is no residual network")]
        for values, text in cases:
            done = run("train", *options(**self.base(output_dir=self.folder / "no", **values)))
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(text, done.stderr)
        (self.images / "data_batch_1.bin").write_bytes(b"short")
        done = run("train", *options(**self.base(output_dir=self.folder / "no")))
        self.assertIn("no whole number of CIFAR records", done.stderr)


class Folders(Case):
    """Networks that transformers has are read and written as it does; all others have torchvision's names."""

    golden = pathlib.Path(__file__).resolve().parents[1] / "golden/resnet_folder"

    def test_a_network_of_transformers(self):
        images = self.golden / "images.bin"
        wanted = json.loads((self.golden / "probabilities.json").read_text())["probabilities"]
        base = dict(model=self.golden, image_size=32, memory="1GiB", threads=2)
        lines = self.ok("predict", test_file=images, **base).stdout.splitlines()
        for line, row in zip(lines, wanted, strict=True):
            for (label, score), expected in zip(json.loads(line)["scores"].items(), row, strict=True):
                self.assertAlmostEqual(score, expected, delta=1e-4, msg=label)
        out = self.folder / "run"
        self.ok("train", train_file=images, validation_file=images, output_dir=out, train_batch_size=4, max_steps=1, **base)
        theirs = common.read_safetensors_header(self.golden / "model.safetensors")
        config = json.loads((self.golden / "config.json").read_text())
        for folder in (out / "best", out / "last"):
            self.assertEqual(common.read_safetensors_header(folder / "model.safetensors"), theirs)
            written = json.loads((folder / "config.json").read_text())
            for key in ("architectures", "model_type", "depths", "hidden_sizes", "embedding_size", "layer_type", "hidden_act",
                        "downsample_in_first_stage", "downsample_in_bottleneck", "num_channels", "id2label", "label2id"):
                self.assertEqual(written[key], config[key], key)
            self.assertEqual(written["image_size"], 32)
            processor = json.loads((folder / "preprocessor_config.json").read_text())
            self.assertEqual(processor["size"], {"height": 32, "width": 32})
            self.assertEqual(processor["image_mean"], [0.4914, 0.4822, 0.4465])
        self.ok("predict", test_file=images, model=out / "best", memory="1GiB", threads=2)

    def test_images_are_normalised_as_the_folder_says(self):
        images = self.golden / "images.bin"
        base = dict(image_size=32, memory="1GiB", threads=2)
        ours = {"do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True, "image_mean": [0.4914, 0.4822, 0.4465],
                "image_std": [0.2470, 0.2435, 0.2616]}

        def folder(name, **fields):
            path = self.folder / name
            shutil.copytree(self.golden, path)
            (path / "preprocessor_config.json").write_text(json.dumps(fields))
            return path

        def scores(model):
            done = self.ok("predict", test_file=images, model=model, **base)
            return [list(json.loads(line)["scores"].values()) for line in done.stdout.splitlines()], done.stderr

        plain, said = scores(self.golden)
        self.assertNotIn("normalised", said)
        self.assertEqual(scores(folder("ours", **ours))[0], plain)
        other = folder("other", **dict(ours, image_mean=[0.485, 0.456, 0.406], image_std=[0.229, 0.224, 0.225]))
        theirs, said = scores(other)
        self.assertNotEqual(theirs, plain)
        self.assertIn("images are normalised as", said)
        self.assertIn("0.485, 0.456, 0.406", said)
        # Bytes as they are, and the same numbers written as a mean and a deviation of bytes.
        raw = scores(folder("raw", do_rescale=False, do_normalize=False))[0]
        self.assertEqual(scores(folder("same", do_rescale=False, image_mean=[0, 0, 0], image_std=[1, 1, 1]))[0], raw)
        self.assertNotEqual(raw, plain)
        # What is trained on is kept beside the weights, and outlives a change of the folder that the run began with.
        out = self.folder / "run"
        train = dict(base, model=other, train_file=images, validation_file=images, output_dir=out, train_batch_size=4, max_steps=1)
        self.ok("train", **train)
        written = json.loads((out / "last/preprocessor_config.json").read_text())
        self.assertEqual((written["image_mean"], written["image_std"]), ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))
        (other / "preprocessor_config.json").unlink()
        self.ok("train", **dict(train, max_steps=2, lr_scheduler_type="constant", resume=True))
        self.assertEqual(json.loads((out / "last/preprocessor_config.json").read_text()), written)
        for fields, word in ((dict(image_mean=[0.5]), "image_mean"), (dict(image_std=[1, 1, 0]), "image_std"),
                             (dict(rescale_factor=0), "rescale_factor")):
            bad = folder("bad " + word, **fields)
            done = run("predict", *options(test_file=images, model=bad, **base))
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(word, done.stderr)

    def test_what_is_not_done_of_a_preprocessor_is_refused(self):
        images = self.golden / "images.bin"
        base = dict(image_size=32, memory="1GiB", threads=2)
        square = {"height": 32, "width": 32}
        for number, (fields, words) in enumerate((
                (dict(do_flip_channel_order=True), "do_flip_channel_order\" is true"), (dict(do_pad=True), "do_pad"), (dict(rescale_offset=True), "offset"),
                (dict(size={"shortest_edge": 64}), 'size" is {"shortest_edge":64}'), (dict(size=224), "size\" is 224"), (dict(do_resize=True, size=dict(square, width=40)), "size"),
                (dict(crop_pct=0.875, size={"shortest_edge": 32}), 'crop_pct" is 0.875'), (dict(do_center_crop=True, crop_size=28), 'crop_size" is 28'),
                (dict(do_center_crop=True, crop_size=square), None), (dict(do_resize=True, size=square, do_center_crop=False, crop_size=28), None),
                (dict(do_resize=False, size=224, crop_pct=0.5), None), (dict(size={"shortest_edge": 32}, crop_pct=1.0), None),
                (dict(do_convert_rgb=True, do_flip_channel_order=False, crop_pct=None, do_pad=None), None))):
            model = shutil.copytree(self.golden, self.folder / str(number))
            (model / "preprocessor_config.json").write_text(json.dumps(fields))
            for verb, keys in (("predict", dict(test_file=images)), ("plan", dict(train_file=images, validation_split=0, train_batch_size=2)), ("plan", dict(train_batch_size=2))):
                done = run(verb, *options(model=model, **keys, **base))
                # The rows of a plan without data are the caller's; what is trained is trained on images as they are.
                is_frame = words is not None and any(key in words for key in ("size", "crop"))
                is_refused = words is not None and keys != dict(train_batch_size=2) and (verb == "predict" or not is_frame)
                if verb == "plan" and "train_file" in keys:
                    self.assertEqual("as they are" in done.stderr, is_frame, fields)
                self.assertEqual(done.returncode, 1 if is_refused else 0, f"{fields} {done.stderr}")
                if is_refused:
                    self.assertIn(words, done.stderr)
                    self.assertIn("preprocessor_config.json", done.stderr)

    def test_a_network_of_our_own(self):
        images = common.write_cifar(self.folder / "cifar", data_batch_1=20)
        out = self.folder / "run"
        self.ok("train", model="resnet-8", train_file=images, output_dir=out, train_batch_size=8, max_steps=1, memory="1GiB",
                threads=2)
        # transformers knows no such type, so it does not take the folder for a network that it has.
        self.assertEqual(json.loads((out / "last/config.json").read_text())["model_type"], "snug_resnet")
        names = common.read_safetensors_header(out / "last/model.safetensors")
        for name in ("conv1.weight", "bn1.running_var", "bn1.num_batches_tracked", "layer3.0.conv2.weight", "fc.bias"):
            self.assertIn(name, names)


if __name__ == "__main__":
    common.main()

"""Images in folders: PNG and JPEG files, decoded once, whatever their sizes."""
import json
import os
import pathlib
import random
import shutil
import struct
import zlib

import common
from common import Case, options, run, sha256

GOLDEN = pathlib.Path(__file__).resolve().parents[1] / "golden"
COLORS = dict(blue=(30, 40, 220), green=(20, 200, 60), red=(230, 30, 30))


def png(width, height, pixels):
    """Of 3 bytes a pixel."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + pixels[y * width * 3:(y + 1) * width * 3] for y in range(height))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def write_classes(folder, count, seed=1):
    """Noise around the color that the class is called by, in images of many sizes."""
    generator = random.Random(seed)
    for name, color in COLORS.items():
        (folder / name).mkdir(parents=True)
        for i in range(count):
            width, height = generator.randint(20, 60), generator.randint(20, 60)
            pixels = bytes(min(255, max(0, color[k % 3] + generator.randint(-25, 25))) for k in range(width * height * 3))
            (folder / name / f"{i}.png").write_bytes(png(width, height, pixels))
    return folder


class ImageFolders(Case):
    def setUp(self):
        super().setUp()
        self.images = write_classes(self.folder / "images", 12)
        self.test = write_classes(self.folder / "test", 3, seed=2)

    def base(self, **more):
        values = dict(model="resnet-8", train_file=self.images, validation_file=self.test, train_batch_size=12, max_steps=8,
                      save_steps=4, optim="sgd", momentum=0.9, learning_rate=0.05, memory="1GiB", threads=2, logging_steps=1, seed=3)
        values.update(more)
        return {key: value for key, value in values.items() if value is not None}

    def trained(self, **more):
        return dict(dict(memory="1GiB", threads=2), **more)

    def test_learns_evaluates_and_predicts_every_file_by_its_name(self):
        out = self.train("run", max_steps=40)
        metrics = json.loads(self.ok("eval", **self.trained(model=out / "best", test_file=self.test)).stdout)
        self.assertEqual(metrics["rows"], 9)
        self.assertGreater(metrics["accuracy"], 0.8)
        flat = self.folder / "flat"
        flat.mkdir()
        shutil.copy(self.test / "red/0.png", flat / "b.png")
        shutil.copy(self.test / "blue/0.png", flat / "a.png")
        (flat / "notes.txt").write_text("no image")
        lines = [json.loads(line) for line in self.ok("predict", **self.trained(model=out / "best", test_file=flat)).stdout.splitlines()]
        self.assertEqual([(line["row"], line["file"], line["label"]) for line in lines], [(0, "a.png", "blue"), (1, "b.png", "red")])
        below = self.ok("predict", **self.trained(model=out / "best", test_file=self.test)).stdout.splitlines()
        self.assertEqual([json.loads(line)["file"] for line in below][:4], ["blue/0.png", "blue/1.png", "blue/2.png", "green/0.png"])
        data = json.loads(self.ok("inspect", json=True, model="resnet-8", train_file=self.images).stdout)["data"][0]
        self.assertEqual((data["rows"], data["labels"]), (36, dict(blue=12, green=12, red=12)))
        self.assertEqual(data["frame"], "resized to 32 x 32 (bilinear)")

    def test_the_smallest_budget_and_a_killed_run_give_the_same_bits(self):
        wanted = self.train("wanted", max_steps=60)
        smallest = self.plan(**self.base())["smallest_budget_bytes"]
        out = self.folder / "killed"
        base = self.base(max_steps=60, memory=smallest, output_dir=out)
        self.kill_after_a_checkpoint(**base)
        self.ok("train", **dict(base, resume=True))
        self.assertEqual(sha256(out / "last/model.safetensors"), sha256(wanted / "last/model.safetensors"))
        self.assert_resident_within(self.summary(out), smallest)
        (self.images / "red/0.png").write_bytes((self.images / "red/1.png").read_bytes())
        done = run("train", *options(**dict(base, resume=True, max_steps=61)))
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("changed since the checkpoint was made", done.stderr)

    def test_a_folder_of_transformers_frames_its_images_as_it_says(self):
        """CIFAR's images as PNG have the values of the binary file; other sizes follow the processor that is written on."""
        records = (GOLDEN / "resnet_folder/images.bin").read_bytes()
        wanted = json.loads((GOLDEN / "resnet_folder/probabilities.json").read_text())["probabilities"]
        pictures = self.folder / "pictures"
        pictures.mkdir()
        for i in range(len(records) // 3073):
            planes = records[i * 3073 + 1:(i + 1) * 3073]
            (pictures / f"{i}.png").write_bytes(png(32, 32, bytes(planes[c * 1024 + p] for p in range(1024) for c in range(3))))
        base = self.trained(model=GOLDEN / "resnet_folder", image_size=32)
        lines = self.ok("predict", test_file=pictures, **base).stdout.splitlines()
        for line, row in zip(lines, wanted, strict=True):
            for (label, score), expected in zip(json.loads(line)["scores"].items(), row, strict=True):
                self.assertAlmostEqual(score, expected, delta=1e-4, msg=label)
        model = self.folder / "model"
        shutil.copytree(GOLDEN / "resnet_folder", model)
        shutil.copy(GOLDEN / "image_files/processed/convnext.json", model / "preprocessor_config.json")
        refused = run("predict", *options(**self.trained(model=model, image_size=32, test_file=pictures)))
        self.assertIn("makes images of 16 x 16 pixels", refused.stderr)
        self.assertIn("set image_size to 16", refused.stderr)
        out = self.train("run", model=model, image_size=16, fresh_head=True, learning_rate=0.001, max_steps=2)
        written = json.loads((out / "last/preprocessor_config.json").read_text())
        self.assertEqual((written["size"], written["crop_size"], written["resample"]),
                         ({"shortest_edge": 18}, {"height": 16, "width": 16}, 3))
        scores = [self.ok("predict", **self.trained(model=folder, test_file=self.test)).stdout for folder in (out / "last", out / "last")]
        self.assertEqual(scores[0], scores[1])
        for change, text in ((dict(do_pad=True), "do_pad"), (dict(resample=None), "resample"), (dict(crop_pct=2), "crop_pct"),
                             (dict(crop_pct=None, size={"shortest_edge": 16}), "do_center_crop"),
                             (dict(image_processor_type="PoolFormerImageProcessor"), "crop_pct")):
            config = json.loads((GOLDEN / "image_files/processed/convnext.json").read_text())
            config.update(change)
            (model / "preprocessor_config.json").write_text(json.dumps({k: v for k, v in config.items() if v is not None}))
            done = run("predict", *options(**self.trained(model=model, image_size=16, test_file=pictures)))
            self.assertEqual(done.returncode, 1, change)
            self.assertIn(text, done.stderr)

    def test_jpeg_files_of_every_kind_are_rows(self):
        for i, name in enumerate(("photo.jpg", "progressive.jpg", "cmyk.jpg", "grey.jpg", "palette.png", "grey_16_bits.png")):
            shutil.copy(GOLDEN / "image_files" / name, self.images / f"red/more{i}{name[-4:]}")
        out = self.train("run", max_steps=1)
        self.assertEqual(json.loads(self.ok("eval", **self.trained(model=out / "last", test_file=self.images)).stdout)["rows"], 42)

    def test_bad_images_are_named_and_can_be_skipped(self):
        whole = (self.test / "red/0.png").read_bytes()
        (self.test / "red/0.png").write_bytes(whole[:-40])
        (self.test / "red/a.jpg").write_bytes(b"no image")
        done = run("train", *options(**self.base(output_dir=self.folder / "no")))
        self.assertEqual(done.returncode, 1)
        self.assertIn("test/red/0.png] the PNG is damaged: it ends too early", done.stderr)
        out = self.train("run", bad_rows="skip", max_steps=1)
        done = self.ok("predict", **self.trained(model=out / "last", test_file=self.test, bad_rows="skip"))
        self.assertIn("warning: 2 of 10 images", done.stderr)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual([line["row"] for line in lines], list(range(10)))
        self.assertEqual([line["row"] for line in lines if line["label"] is None], [6, 9])
        self.assertIn("red/a.jpg: the file is neither PNG nor JPEG", lines[9]["reason"])
        self.assertEqual(lines[9]["file"], "red/a.jpg")
        self.assertEqual(len({line["file"] for line in lines}), 10)
        (self.images / "red/bomb.png").write_bytes(png(1, 1, b"abc").replace(struct.pack(">II", 1, 1), struct.pack(">II", 60000, 60000), 1))
        done = run("train", *options(**self.base(output_dir=self.folder / "no")))
        self.assertIn("bomb.png] the image has 60000 x 60000 pixels, more than 89478485", done.stderr)

    def test_decoding_stays_within_the_budget_or_is_refused_before_it_begins(self):
        side = 5000
        (self.images / "red/large.png").write_bytes(png(side, side, bytes(side * side * 3)))
        smallest = self.plan(**self.base())["smallest_budget_bytes"]
        done = run("train", *options(**self.base(memory=smallest, output_dir=self.folder / "no")))
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("large.png] 5000 x 5000 pixels take ", done.stderr)
        budget = 120 << 20
        out = self.train("run", memory=budget, max_steps=1)
        self.assert_resident_within(self.summary(out), budget)
        self.assertGreater(self.summary(out)["measured_peak_rss_bytes"], side * side * 3)

    def test_a_file_that_is_larger_than_its_pixels_stays_within_the_budget(self):
        whole = (self.images / "red/0.png").read_bytes()
        (self.images / "red/0.png").write_bytes(whole + bytes(40 << 20))  # behind the end of the image
        budget = 80 << 20
        self.assertLessEqual(self.plan(**self.base())["smallest_budget_bytes"], budget)
        out = self.train("run", memory=budget, max_steps=1)
        self.assert_resident_within(self.summary(out), budget)
        self.assertGreater(self.summary(out)["measured_peak_rss_bytes"], 40 << 20)

    def test_a_prediction_names_its_file_or_says_why_not(self):
        out = self.train("run", max_steps=1)
        shutil.copy(self.test / "red/0.png", os.fsencode(self.test) + b"/red/\xff.png")
        done = run("predict", *options(**self.trained(model=out / "last", test_file=self.test)))
        self.assertEqual(done.returncode, 1)
        self.assertIn("the name of the file is not UTF-8", done.stderr)

    def test_what_is_no_folder_of_classes_says_so(self):
        empty = self.folder / "empty"
        (empty / "class").mkdir(parents=True)
        cases = [(dict(train_file=self.images / "red"), "there is no folder in it, and no data_batch"),
                 (dict(train_file=empty), "there is no PNG or JPEG in it"),
                 (dict(train_file=self.train_file), "neither a folder nor a .bin file")]
        for values, text in cases:
            done = run("train", *options(**self.base(output_dir=self.folder / "no", **values)))
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertIn(text, done.stderr)
        (self.images / "red/x.gif").write_bytes(b"GIF89a")
        done = run("train", *options(**self.base(output_dir=self.folder / "no")))
        self.assertIn("red/x.gif] images of this format are not read; PNG and JPEG are", done.stderr)


if __name__ == "__main__":
    common.main()

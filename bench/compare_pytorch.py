#!/usr/bin/env python3
"""One training step, Snug beside PyTorch (eager and compiled): same model, batch, threads, optimizer, clipping and dropout. Or a batch of
evaluation or prediction.

usage: compare_pytorch.py [--model bert-base] [--batch 16 --length 128] [--what step|evaluate|predict] [--rounds 3] [--steps 5] [--threads 2]
                          [--isa avx2] [--bf16]
                          [--sides snug eager compiled eager-last compiled-last] [--json FILE] [--ratio 1.4 --share 0.85]

Sides: snug, PyTorch eager and compiled; '-last' for images whose channels lie last (PyTorch's other memory format). Without --sides all that
the model has, for the best of PyTorch's is what counts.
Models, and the batch and length each has without --batch and --length: step_models.py. Sides are processes of their own that take turns;
figures are medians of steps, the first step of every turn apart. Prints for each side seconds a step, GFLOP/s of its products, the side's own
product rate (the best of large f32 products, or bf16 with --bf16, in the same rounds) and the share of it that the step reaches; operations
are those of a direct convolution, of which Snug computes fewer: its share of images may be above 1.
--isa avx2 holds both sides to AVX2 (sides.py); where a product, or a step without images, is faster than AVX2 registers alone, nothing is
compared: exit 1.
--what evaluate and predict: what `snug eval` and `snug predict` take for a file of --steps batches more than for one of one batch, so with
reading it and writing what they find. PyTorch's side is the forward part with the loss, in inference mode, of a batch that is in memory.
With --json, the figures go into FILE (bench/results/steps.json) as records: bench/records.py.
With --ratio and --share, exit 1 where Snug is neither so many times as fast as the best of PyTorch's nor at this share of its own product rate.
Needs build/release with benchmarks; torch, transformers for the encoders (pip install torch transformers), a C++ compiler for 'compiled'.
"""
import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

from records import here, rounded, save, three_digits
from sides import PRODUCTS, Limit, Side, check_limit, cpu_name, environment_for
from step_models import MODELS, VOCAB, Encoder, Lstm, hugging_face_config

HERE = pathlib.Path(__file__).resolve().parent
BUILD = HERE.parent / "build/release"
LAST = ["--memory-format", "channels_last"]
PYTORCH = {"eager": [], "compiled": ["--compile"], "eager-last": LAST, "compiled-last": ["--compile", *LAST]}
WHAT = {"step": "a step", "evaluate": "a batch of evaluation", "predict": "a batch of prediction"}
PRODUCT = (2048, 3072, 768)  # large, in all layouts: the best is a side's product rate


class Snug:
    def __init__(self, args, environment):
        self.args = args
        self.environment = environment
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="snug-bench-"))
        self.environment["XDG_CACHE_HOME"] = str(self.folder)  # speeds measured here and now
        self.products = Side("snug", [PRODUCTS, "snug-bf16" if args.bf16 else "snug", "--threads", args.threads], environment)
        self.round = 0
        self.predicted = None
        model = MODELS[args.model]
        write = self.write_images if model.kind == "images" else self.write_text
        self.run_words = dict(memory=args.memory, threads=args.threads, bf16=str(args.bf16).lower())
        self.words = dict(self.run_words, train_file=write("train", args.steps + 1), train_batch_size=args.batch, micro_batch_size=args.batch,
                          recompute="none", max_steps=args.steps + 1, logging_steps=1, save_steps=0, optim=model.optimizer, validation_split=0)
        if args.what != "step":
            self.words.update(max_steps=1)
            self.run_words.update(eval_batch_size=args.batch)
            self.files = [write(f"test{batches}", batches) for batches in (1, args.steps + 1)]
        if model.kind == "images":
            self.words.update(model=args.model, image_size=model.side, momentum=0.9, weight_decay=0)
        else:
            self.words.update(model=self.model_words(model), vocab_size=VOCAB, max_seq_length=args.length, weight_decay=0.01)
        if isinstance(model, Lstm):
            self.words.update(hidden_size=model.width, num_hidden_layers=model.layers)

    def model_words(self, model):
        if not isinstance(model, Encoder) or model.preset:
            return self.args.model
        hugging_face_config(model).save_pretrained(self.folder)
        return self.folder / "config.json"

    def write_text(self, name, batches):
        generator = random.Random(1)
        words = ["".join(generator.choice("bcdfghklmnprst") + generator.choice("aeiou") for _ in range(3)) for _ in range(3000)]
        path = self.folder / f"{name}.jsonl"
        with open(path, "w") as file:
            for i in range(batches * self.args.batch):
                file.write(json.dumps({"text": " ".join(generator.choices(words, k=self.args.length)), "label": str(i % 2)}) + "\n")
        return path

    def write_images(self, name, batches):
        generator = random.Random(1)
        images = self.folder / name
        images.mkdir()
        (images / "data_batch_1.bin").write_bytes(b"".join(bytes([i % 10]) + generator.randbytes(3072) for i in range(batches * self.args.batch)))
        (images / "batches.meta.txt").write_text("".join(f"class{i}\n" for i in range(10)))
        return images

    def product_rate(self):
        m, n, k = PRODUCT
        return max(2 * m * n * k / self.products.ask(f"{layout} 1 {m} {n} {k} new 0.2")["seconds"] for layout in ("nn", "nt", "tn"))

    def run(self, verb, words):
        command = [BUILD / "snug", verb, *sum(([f"--{k}", str(v)] for k, v in words.items()), [])]
        ran = subprocess.run(command, capture_output=True, text=True, env=self.environment)
        if ran.returncode != 0:
            sys.exit(f"snug {verb}: exit status {ran.returncode}\n{ran.stderr}")

    def steps(self):
        """Seconds of each step, or the mean of a batch of evaluation or prediction."""
        self.round += 1
        out = self.folder / f"run{self.round}"
        if self.args.what == "step" or self.round == 1:
            self.run("train", dict(self.words, output_dir=out))
        if self.args.what != "step":
            return self.forward_seconds()
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        self.predicted = json.loads((out / "plan.json").read_text())["step_seconds"]
        return [self.args.batch * self.args.length / line["tokens_per_second"] for line in lines[1:]]

    def forward_seconds(self):
        verb, took = {"evaluate": "eval", "predict": "predict"}[self.args.what], []
        for file in self.files:
            begin = time.perf_counter()
            self.run(verb, dict(self.run_words, model=self.folder / "run1/last", test_file=file))
            took.append(time.perf_counter() - begin)
        return [(took[1] - took[0]) / self.args.steps]


class PyTorch:
    def __init__(self, args, environment, words):
        command = [sys.executable, HERE / "pytorch_step.py", args.model, args.batch, args.length, "--threads", args.threads, *words]
        if args.bf16:
            command.append("--bf16")
        if args.what != "step":
            command.append("--forward")
        self.side = Side("pytorch", command, environment)
        self.count = args.steps + 1

    def product_rate(self):
        return self.side.ask("product {}x{}x{}".format(*PRODUCT))

    def steps(self):
        return self.side.ask(f"step {self.count}")[1:]


def measure(sides, limit, isa, rounds):
    """Median seconds and product rates of each side, and the limit."""
    seconds, products, limits = {name: [] for name in sides}, {name: [] for name in sides}, []
    for side in sides.values():
        side.product_rate()  # until all have started: nobody is measured while another loads its libraries
    for _ in range(rounds):
        limits.append(limit.of(isa))
        for name, side in sides.items():
            products[name].append(side.product_rate())
            seconds[name] += side.steps()
    return ({name: statistics.median(found) for name, found in seconds.items()}, {name: statistics.median(found) for name, found in products.items()},
            max(limits) if limits[0] else None)


def report(args, isa, flops, seconds, products, limit, predicted):
    kind = "bf16" if args.bf16 else "f32"
    what = WHAT[args.what]
    print(f"{args.model}, batch {args.batch}, length {args.length}, {kind}, {cpu_name()}, {isa}, {args.threads} threads, {args.rounds} rounds of "
          f"{args.steps} times {what}; {flops / 1e9:.1f} GFLOP {what}" + (f"; registers alone {limit / 1e9:.0f} GFLOP/s" if limit else ""))
    print(f"\n| | s {what} | GFLOP/s | own product rate | share of it | snug is |\n|---|---|---|---|---|---|")
    for name, took in seconds.items():
        ratio = f"{took / seconds['snug']:.2f} x as fast" if "snug" in seconds and name != "snug" else ""
        rate = flops / took
        print(f"| {name} | {took:.3f} | {rate / 1e9:.1f} | {products[name] / 1e9:.1f} | {100 * rate / products[name]:.1f} % | {ratio} |")
    if predicted:
        print(f"\nsnug predicted {predicted:.3f} s a step: {predicted / seconds['snug']:.2f} of the measured")


def goal_of(args, flops, seconds, products):
    """Of the ratio, where the command line has one."""
    if not args.ratio:
        return {}
    share = f", or a share of {100 * args.share:.0f} %" if args.share else ""
    return dict(goal=f"{args.ratio} x{share}", reached=bool(holds(args, flops, seconds, products)))


def records_of(args, isa, flops, seconds, products, predicted):
    """For bench/results/steps.json: the best of PyTorch's sides is PyTorch."""
    goals = {"times-as-fast": goal_of(args, flops, seconds, products)}
    kind = "bf16" if args.bf16 else "f32"
    images = MODELS[args.model].kind == "images"
    size = f"{args.batch}" if images else f"{args.batch}x{args.length}"
    claim = f"`{args.model}`, {args.batch} images" if images else f"`{args.model}`, {args.batch} x {args.length}"
    others = {name: took for name, took in seconds.items() if name != "snug"}
    best = min(others, key=others.get, default=None)
    figures = [("snug", "Snug", three_digits(seconds["snug"]), "s")]
    if best:
        figures += [("pytorch", "PyTorch", three_digits(others[best]), "s"), ("times-as-fast", "times as fast", rounded(others[best] / seconds["snug"], 2), "x")]
    figures.append(("share", "share", rounded(100 * flops / seconds["snug"] / products["snug"], 1), "%"))
    if predicted:
        figures.append(("predicted-to-measured", "predicted / measured", rounded(predicted / seconds["snug"], 2), None))
    measured = here(BUILD / "snug", isa)
    command = " ".join(["python3 bench/compare_pytorch.py", *sys.argv[1:]])
    if args.what != "step":
        claim, size = f"{claim}, {WHAT[args.what]}", f"{size}.{args.what}"
    return [dict(name=f"{args.model}.{size}.{kind}.{isa}.{name}", claim=claim if kind == "f32" else f"{claim}, bf16", measure=measure, figure=figure,
                 **({"unit": unit} if unit else {}), **goals.get(name, {}), command=command, **measured) for name, measure, figure, unit in figures]


def holds(args, flops, seconds, products):
    others = [took for name, took in seconds.items() if name != "snug"]
    ratio = min(others) / seconds["snug"] if others else 0
    share = flops / seconds["snug"] / products["snug"]
    return (args.ratio is None and args.share is None) or (args.ratio and ratio >= args.ratio) or (args.share and share >= args.share)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="bert-base", choices=sorted(MODELS))
    parser.add_argument("--batch", type=int)
    parser.add_argument("--length", type=int)
    parser.add_argument("--what", default="step", choices=WHAT)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--isa", choices=["avx2", "avx512"])
    parser.add_argument("--memory", default="16GiB", help="Snug's")
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--sides", nargs="+", choices=["snug", *PYTORCH])
    parser.add_argument("--json", type=pathlib.Path)
    parser.add_argument("--ratio", type=float)
    parser.add_argument("--share", type=float)
    args = parser.parse_args()
    model = MODELS[args.model]
    args.batch = args.batch or model.batch
    args.length = args.length or model.length
    if args.json and args.sides and "snug" not in args.sides:
        parser.error("--json writes what Snug takes: name 'snug' among --sides, or omit --json")
    limit = Limit(args.threads)
    isa = args.isa or limit.best_isa()
    environment = environment_for(isa, args.threads)
    names = args.sides or ["snug", *(name for name in PYTORCH if model.kind == "images" or not name.endswith("-last"))]
    sides = {name: Snug(args, environment) if name == "snug" else PyTorch(args, environment, PYTORCH[name]) for name in names}
    flops = (model.flops if args.what == "step" else model.forward_flops)(args.batch, args.length)
    seconds, products, bound = measure(sides, limit, isa, args.rounds)
    if not args.bf16:  # registers of f32 are no limit of bf16's instructions
        check_limit(isa, "products", products, bound)
        if MODELS[args.model].kind != "images":  # of whose convolutions a side may compute less than is counted
            check_limit(isa, WHAT[args.what], {name: flops / took for name, took in seconds.items()}, bound)
    predicted = sides["snug"].predicted if "snug" in sides else None
    report(args, isa, flops, seconds, products, bound, predicted)
    if args.json:
        save(args.json, records_of(args, isa, flops, seconds, products, predicted))
    return 0 if "snug" not in sides or holds(args, flops, seconds, products) else 1


if __name__ == "__main__":
    sys.exit(main())

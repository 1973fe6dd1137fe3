#!/usr/bin/env python3
"""One training step of BERT or DeBERTa in fp32 or bf16, Snug beside PyTorch (eager and compiled): same model, batch, threads, optimizer.

usage: compare_pytorch.py [--model bert-base --batch 16 --length 128 --rounds 3] [--bf16] [--no-compile]
Needs torch and transformers (pip install torch transformers). Both sides take their turns in rounds; the figures are medians of steps.
Prints seconds a step, GFLOP/s of matrix products, the share of this machine's measured oneDNN rate, and the ratios.
"""
import argparse
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SIZES = {"bert-mini": (4, 256, 4), "bert-small": (4, 512, 8), "bert-base": (12, 768, 12), "bert-large": (24, 1024, 16),
         "deberta-v3-small": (6, 768, 12), "deberta-v3-base": (12, 768, 12)}
DISTANCES = 512  # rows of DeBERTa's table
VOCAB = 8192
STEPS = 6


def is_deberta(model):
    return model.startswith("deberta")


def step_flops(model, layers, width, batch, length):
    """Floating-point operations of all matrix products of a step, each once as transformers has them: forward, and twice that
    backward. DeBERTa also projects its table and multiplies it by queries and keys."""
    tokens = batch * length
    dense = 2 * tokens * layers * 12 * width * width
    attention = 2 * 2 * batch * layers * length * length * width
    if is_deberta(model):
        dense += 2 * DISTANCES * layers * 2 * width * width
        attention += 2 * 2 * batch * layers * length * DISTANCES * width
    return 3 * (dense + attention)


def config_of(model):
    import transformers
    layers, width, heads = SIZES[model]
    sizes = dict(hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=4 * width, num_labels=2)
    if not is_deberta(model):
        return transformers.BertConfig(vocab_size=VOCAB, **sizes), transformers.BertForSequenceClassification
    config = transformers.DebertaV2Config(
        vocab_size=128100, type_vocab_size=0, relative_attention=True, position_buckets=DISTANCES // 2, norm_rel_ebd="layer_norm",
        share_att_key=True, pos_att_type=["p2c", "c2p"], position_biased_input=False, layer_norm_eps=1e-7, **sizes)
    return config, transformers.DebertaV2ForSequenceClassification


def matmul_rate(dtype):
    """GFLOP/s of the best oneDNN product that the kernel benchmark finds here."""
    program = ROOT / "build/release/bench/snug_bench_kernels"
    out = subprocess.run([program, f"--benchmark_filter=matmul/forward/{dtype}/2048", "--benchmark_format=json", "--benchmark_min_time=0.3"],
                         capture_output=True, text=True, check=True).stdout
    rates = []
    for item in json.loads(out[out.index("{"):])["benchmarks"]:
        for key, value in item.items():
            if re.search("flop", key, re.I) and isinstance(value, (int, float)):
                rates.append(value if value < 1e6 else value / 1e9)
    return max(rates)


class Snug:
    def __init__(self, args):
        self.args = args
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="snug-bench-"))
        generator = random.Random(1)
        words = ["".join(generator.choice("bcdfghklmnprst") + generator.choice("aeiou") for _ in range(3)) for _ in range(3000)]
        with open(self.folder / "train.jsonl", "w") as file:
            for i in range(args.batch * (STEPS + 2)):
                text = " ".join(generator.choice(words) for _ in range(args.length))
                file.write(json.dumps({"text": text, "label": str(i % 2)}) + "\n")
        self.round = 0
        self.model = args.model
        if is_deberta(args.model):  # its own vocabulary, of which the texts use a part
            config_of(args.model)[0].save_pretrained(self.folder)
            self.model = self.folder / "config.json"

    def steps(self):
        self.round += 1
        out = self.folder / f"run{self.round}"
        words = dict(model=self.model, train_file=self.folder / "train.jsonl", validation_split=0, vocab_size=VOCAB,
                     max_seq_length=self.args.length, train_batch_size=self.args.batch, micro_batch_size=self.args.batch,
                     recompute="none", memory="16GiB", max_steps=STEPS, logging_steps=1, save_steps=0, output_dir=out,
                     threads=self.args.threads, weight_decay=0.01, bf16=str(self.args.bf16).lower())
        command = [ROOT / "build/release/snug", "train", *sum(([f"--{k}", str(v)] for k, v in words.items()), [])]
        subprocess.run(command, check=True, capture_output=True)
        lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
        plan = json.loads((out / "plan.json").read_text())
        self.predicted = plan["step_seconds"]
        return [self.args.batch * self.args.length / line["tokens_per_second"] for line in lines[2:]]


class PyTorch:
    def __init__(self, args, compiled):
        import torch
        torch.set_num_threads(args.threads)
        torch.manual_seed(1)
        config, kind = config_of(args.model)
        self.torch = torch
        self.is_bf16 = args.bf16
        self.model = kind(config).train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=5e-5, weight_decay=0.01, fused=True)
        self.forward = torch.compile(self.model) if compiled else self.model
        self.ids = torch.randint(5, VOCAB, (args.batch, args.length))
        self.mask = torch.ones_like(self.ids)
        self.labels = torch.randint(0, 2, (args.batch,))

    def step(self):
        with self.torch.autocast("cpu", dtype=self.torch.bfloat16, enabled=self.is_bf16):
            loss = self.forward(input_ids=self.ids, attention_mask=self.mask, labels=self.labels).loss
        loss.backward()
        self.torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def steps(self):
        times = []
        for _ in range(STEPS):
            begin = time.perf_counter()
            self.step()
            times.append(time.perf_counter() - begin)
        return times[2:]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", default="bert-base", choices=sorted(SIZES))
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--no-compile", action="store_true")
    args = parser.parse_args()
    layers, width, _ = SIZES[args.model]
    flops = step_flops(args.model, layers, width, args.batch, args.length)
    sides = {"snug": Snug(args), "pytorch eager": PyTorch(args, False)}
    if not args.no_compile:
        sides["pytorch compiled"] = PyTorch(args, True)
    times = {name: [] for name in sides}
    rates = []
    for _ in range(args.rounds):
        rates.append(matmul_rate("bf16" if args.bf16 else "f32"))
        for name, side in sides.items():
            times[name] += side.steps()
    rate = statistics.median(rates)
    print(f"{args.model}, batch {args.batch}, length {args.length}, {'bf16' if args.bf16 else 'fp32'}, {args.threads} threads, {args.rounds} rounds, "
          f"best oneDNN product {rate:.0f} GFLOP/s")
    base = statistics.median(times["snug"])
    for name, found in times.items():
        median = statistics.median(found)
        print(f"  {name:<18} {median:7.3f} s a step  {flops / median / 1e9:6.1f} GFLOP/s  {100 * flops / median / 1e9 / rate:5.1f} % of oneDNN"
              f"  snug is {median / base:.2f} x as fast")
    print(f"  snug predicted {sides['snug'].predicted:.3f} s a step")


if __name__ == "__main__":
    main()

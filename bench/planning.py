#!/usr/bin/env python3
"""What planning reaches on models of published size, without running them.

usage: planning.py PATH_TO_SNUG

Prints the tables of docs/results.md, "What planning reaches": BERT-large's arena as a share of what a usual framework keeps (Megatron's
count, L (66 + 9 a s / h) s b h bytes in fp32), batches far beyond the published ones, 100 layers in 16 GiB, residual
nets of 1000 layers, LSTMs of 1000 steps; and how far arenas lie above the load of their schedules.
"""
import json
import math
import sys
import tempfile

from snug_plan import least_at, plan


BERT_LARGE = dict(model="bert-large", train_batch_size=8, micro_batch_size=8, max_seq_length=512)
RESNET_1000 = dict(model="resnet-imagenet-1000", train_batch_size=32, micro_batch_size=32, optim="sgd", max_grad_norm=0)
HUNDRED_LAYERS = dict(model_type="bert", hidden_size=1024, num_hidden_layers=100, num_attention_heads=16, intermediate_size=4096,
                      vocab_size=30522, max_position_embeddings=512, type_vocab_size=2)


def shares(snug):
    layers, hidden, heads, length, batch = 24, 1024, 16, 512, 8
    usual = layers * (66 + 9 * heads * length / hidden) * length * batch * hidden
    print(f"BERT-large, batch {batch}, length {length}: a usual framework keeps {usual / 1e9:.1f} GB\n")
    print("| arena | share | overhead | no schedule has less than |\n|---|---|---|---|")
    for most in (0.01, 0.07, 0.17, 0.25, math.inf):
        at = least_at(snug, most, **BERT_LARGE)
        print(f"| {at['arena_bytes'] / 1e6:.0f} MB | {100 * at['arena_bytes'] / usual:.1f} % | {100 * at['recompute_overhead']:.1f} % "
              f"| {100 * at['lower_bound_overhead']:.1f} % |", flush=True)


def batches(snug):
    print("\n| model, length 128, 32 GiB | batch = micro-batch | overhead | planned peak | planned in |\n|---|---|---|---|---|")
    for model, sizes in (("bert-large", (562, 1200, 1500)), ("bert-base", (1390, 2700, 3400))):
        for size in sizes:
            at, seconds = plan(snug, "32GiB", model=model, train_batch_size=size, micro_batch_size=size, max_seq_length=128)
            what = "does not fit" if at is None else f"{100 * at['recompute_overhead']:.1f} %"
            peak = "" if at is None else f"{at['planned_peak_bytes'] / 2**30:.1f} GiB"
            print(f"| {model} | {size} | {what} | {peak} | {seconds:.1f} s |")


def deep(snug, keys):
    at, seconds = plan(snug, "16GiB", **keys)
    what = "does not fit 16 GiB" if at is None else f"fits 16 GiB at {100 * at['recompute_overhead']:.1f} % overhead, smallest " \
        f"{at['smallest_budget_bytes'] / 2**30:.2f} GiB"
    print(f"\n100 layers of 1024, 4096 tokens, no clip: {what}; planned in {seconds:.1f} s")


def images(snug):
    whole, seconds = plan(snug, "1TiB", **RESNET_1000)
    at = least_at(snug, 0.30, **RESNET_1000)
    print(f"\n1000-layer ResNet, batch 32: activations {whole['keep_all_arena_bytes'] / 1e9:.1f} GB, {at['arena_bytes'] / 1e9:.2f} GB "
          f"(1/{whole['keep_all_arena_bytes'] / at['arena_bytes']:.1f}) at {100 * at['recompute_overhead']:.1f} %; planned in {seconds:.1f} s")
    cifar = dict(model="resnet-20", train_batch_size=128, micro_batch_size=128, optim="sgd")
    short, _ = plan(snug, "1TiB", stage_blocks="19,19,19", **cifar)
    at, seconds = plan(snug, short["keep_all_peak_bytes"], stage_blocks="200,200,200", **cifar)
    what = "does not fit" if at is None else f"fits at {100 * at['recompute_overhead']:.1f} %"
    print(f"CIFAR ResNet, batch 128: 19 blocks a stage keep all in {short['keep_all_peak_bytes'] / 1e9:.2f} GB; 200 blocks a stage: "
          f"{what}; planned in {seconds:.1f} s")
    vgg = dict(model="vgg-16", train_batch_size=32, micro_batch_size=32)
    whole, _ = plan(snug, "1TiB", **vgg)
    at = least_at(snug, math.inf, **vgg)
    print(f"VGG-16, batch 32: activations {whole['keep_all_arena_bytes'] / 1e9:.2f} GB, at least {at['arena_bytes'] / 1e9:.2f} GB at "
          f"{100 * at['recompute_overhead']:.1f} %; one op alone needs {at['working_set_bound_bytes'] / 1e9:.2f} GB", flush=True)


def placements(snug, deepest):
    print("\n| arena above the load at | keep-all | 20 % of it | 5 % | 2 % | 1 % | smallest |\n|---|---|---|---|---|---|---|")
    for name, keys in (("BERT-large, 8 x 512", BERT_LARGE), ("100 layers", deepest), ("1000-layer ResNet", RESNET_1000),
                       ("LSTM, 1024 wide", lstm(1024, 1)), ("LSTM, 512 wide, 2 deep", lstm(512, 2))):
        whole, _ = plan(snug, "1TiB", **keys)
        row = [name]
        for share in (1, 0.2, 0.05, 0.02, 0.01, 0):
            budget = whole["process_bytes"] + whole["resident_bytes"] + int(share * whole["keep_all_arena_bytes"])
            at = whole if share == 1 else plan(snug, max(budget, whole["smallest_budget_bytes"]), **keys)[0]
            row.append(f"{100 * (at['arena_bytes'] / at['load_bytes'] - 1):.2f} %" if share in (0, 1) or at["planned_peak_bytes"] <= budget else "")
        print("| " + " | ".join(row) + " |", flush=True)


def lstm(hidden, layers):
    return dict(model="lstm", hidden_size=hidden, num_hidden_layers=layers, train_batch_size=32, micro_batch_size=32, max_seq_length=1000)


def unrolled(snug):
    print("\n| LSTM, 1000 steps, batch 32 | keep-all's activations | 95 % saved at | 99 % saved at | smallest | planned in |")
    print("|---|---|---|---|---|---|")
    for hidden, layers in ((512, 1), (512, 2), (1024, 1), (1024, 2)):
        keys = lstm(hidden, layers)
        whole, seconds = plan(snug, "512GiB", **keys)
        fixed = whole["process_bytes"] + whole["resident_bytes"]
        keep_all = whole["keep_all_arena_bytes"]
        row = [f"{hidden} wide, {layers} deep", f"{keep_all / 1e6:.0f} MB"]
        for share in (0.05, 0.01):
            at, _ = plan(snug, fixed + int(share * keep_all), **keys)
            row.append("not reached" if at is None else f"{100 * at['recompute_overhead']:.1f} %")
        row.append(f"{100 * (whole['smallest_budget_bytes'] - fixed) / keep_all:.2f} %")
        print("| " + " | ".join(row) + f" | {seconds:.1f} s |", flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        json.dump(HUNDRED_LAYERS, file)
        file.flush()
        deepest = dict(model=file.name, train_batch_size=32, micro_batch_size=32, max_seq_length=128, max_grad_norm=0)
        shares(sys.argv[1])
        batches(sys.argv[1])
        deep(sys.argv[1], deepest)
        images(sys.argv[1])
        unrolled(sys.argv[1])
        placements(sys.argv[1], deepest)

#!/usr/bin/env python3
"""Whether two versions train to the same bits and plan the same bytes.

usage: same_bits.py PROGRAM OTHER [--cases PATTERN ...] [--updates 20]

PROGRAM is held against OTHER, the version before. For each case (a family, optimizer, precision, adapter or split; --cases picks those with a
part in their names) both train so many updates on the same rows, and weights_sha256 of their summaries are compared. The arena that each plans
at its own smallest budget, and the smallest budget itself, may not be larger than the other's. Speeds are fixed, so that plans can be compared.
Exit 1 where anything differs in the wrong direction.
"""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "tests/e2e"))
import common  # noqa: E402

RATES = {"": dict(per_call=1e-6, per_flop=1e-11, per_byte=1e-10)}
TEXT = dict(train_batch_size=8, max_seq_length=16, vocab_size=300)
BERT = dict(TEXT, model="bert-tiny")
TRAINED = dict(train_batch_size=8, max_seq_length=16, model="TRAINED")  # a folder that OTHER has written
IMAGES = dict(train_batch_size=8, optim="sgd", momentum=0.9)
FAMILIES = ("bert-tiny", "distilbert-tiny", "roberta-tiny", "electra-tiny", "albert-tiny", "deberta-v3-tiny", "modernbert-tiny")
CASES = {
    **{f"family {name}": dict(TEXT, model=name) for name in FAMILIES},
    "family mlp": dict(TEXT, model="mlp", hidden_sizes="32,16"),
    "family lstm": dict(TEXT, model="lstm", hidden_size=16, num_hidden_layers=2),
    "family resnet": dict(IMAGES, model="resnet-20"),
    "family vgg": dict(IMAGES, model="vgg-16", image_size=32),
    **{f"optim {name}": dict(BERT, optim=name) for name in ("sgd", "adam", "rmsprop", "adagrad", "lamb", "lars", "adafactor", "lion")},
    "optim_bits 8": dict(BERT, optim_bits=8),
    "precision bf16": dict(BERT, bf16="true"),
    "precision fp16": dict(BERT, fp16="true"),
    "precision weight_dtype bfloat16": dict(BERT, weight_dtype="bfloat16"),
    "precision weight_dtype bf16x8": dict(BERT, weight_dtype="bf16x8"),
    "frozen int8": dict(TRAINED, freeze="bert.*", frozen_dtype="int8"),
    "lora": dict(TRAINED, lora=json.dumps(dict(match="*.query.weight", r=2))),
    "clip in two passes": dict(BERT, micro_batch_size=8, two_pass_clip="true"),
    "recompute all": dict(BERT, recompute="all"),
    "split 4": dict(BERT, micro_batch_size=2),
    "split 8": dict(BERT, micro_batch_size=1),
}


def ran(program, verb, keys, env):
    done = subprocess.run([program, verb, *common.options(**keys)], capture_output=True, text=True, env={**common.os.environ, **env})
    if done.returncode != 0:
        sys.exit(f"{program} {verb} {' '.join(map(str, common.options(**keys)))}: exit status {done.returncode}\n{done.stderr}")
    return done.stdout


def facts(program, keys, updates, out, env):
    """Hash of the weights, smallest budget, and its arena."""
    keys = dict(keys, threads=2, seed=1, save_steps=0, logging_steps=updates)
    if "micro_batch_size" not in keys:
        keys["micro_batch_size"] = keys["train_batch_size"]
    ran(program, "train", dict(keys, memory="4GiB", max_steps=updates, output_dir=out), env)
    # Planned without data: a vocabulary that is learned takes more than these small models, and would hide what they take.
    shape = {key: value for key, value in keys.items() if key not in ("train_file", "validation_split")}
    shape |= {} if pathlib.Path(shape["model"]).is_dir() else dict(num_labels=3)
    plan = json.loads(ran(program, "plan", dict(shape, memory="4GiB", json=True), env))
    least = json.loads(ran(program, "plan", dict(shape, memory=plan["smallest_budget_bytes"], json=True), env))
    return json.loads((out / "summary.json").read_text())["weights_sha256"], plan["smallest_budget_bytes"], least["arena_bytes"]


def environment(program, folder):
    common.SNUG = program
    return common.set_rates(folder, RATES)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("programs", nargs=2, metavar=("PROGRAM", "OTHER"))
    parser.add_argument("--cases", nargs="+", default=[""])
    parser.add_argument("--updates", type=int, default=20)
    args = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        common.write_jsonl(folder / "train.jsonl", common.make_rows(200))
        images = common.write_cifar(folder / "images", data_batch_1=100)
        envs = [environment(program, folder / f"cache{i}") for i, program in enumerate(args.programs)]
        ran(args.programs[1], "train", dict(BERT, train_file=folder / "train.jsonl", validation_split=0, max_steps=1, output_dir=folder / "trained", memory="4GiB"), envs[1])
        print("| case | weights | smallest budget | its arena |\n|---|---|---|---|")
        for case, keys in CASES.items():
            if not any(part in case for part in args.cases):
                continue
            if keys["model"] == "TRAINED":
                keys = dict(keys, model=folder / "trained/last")
            data = dict(keys, train_file=images if "momentum" in keys else folder / "train.jsonl", validation_split=0)
            new, old = (facts(program, data, args.updates, folder / f"{case} {i}", env) for i, (program, env) in enumerate(zip(args.programs, envs)))
            is_well = new[0] == old[0] and new[1] <= old[1] and new[2] <= old[2]
            wrong += not is_well
            print(f"| {case} | {'equal' if new[0] == old[0] else '**differ**'} | {new[1]} ({new[1] - old[1]:+d}) | {new[2]} ({new[2] - old[2]:+d}) |", flush=True)
    print(f"{wrong} cases differ" if wrong else "the same bits, and no more bytes")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

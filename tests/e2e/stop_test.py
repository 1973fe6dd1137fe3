"""Signals while a plan is made: the program ends at once, and a long plan shows its progress."""
import json
import signal
import subprocess
import time

import common
from common import Case, options

LAYERS = dict(model_type="bert", hidden_size=64, num_attention_heads=1, intermediate_size=64, vocab_size=1000,
              max_position_embeddings=128, type_vocab_size=2)


class Stop(Case):
    def deep(self, layers):
        file = self.folder / "config.json"
        file.write_text(json.dumps(dict(LAYERS, num_hidden_layers=layers)))
        return dict(model=file, train_batch_size=8, max_seq_length=64, memory="1TiB", threads=1)

    def interrupted(self, signal_number, after, **keys):
        process = subprocess.Popen([common.SNUG, "plan", *options(**keys)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        time.sleep(after)
        self.assertIsNone(process.poll(), "planned too soon for this test")
        begin = time.monotonic()
        process.send_signal(signal_number)
        code = process.wait(timeout=60)
        seconds = time.monotonic() - begin
        self.assertEqual(code, 130, process.stderr.read())
        # 0.2 s where the machine is free; a busy one needs a while to run anything.
        self.assertLess(seconds, 3)

    def test_a_signal_ends_planning(self):
        self.plan(**self.deep(1))  # measures the machine's speeds, which is no planning
        for after in (0.3, 1.0, 2.0):
            self.interrupted(signal.SIGINT, after, **self.deep(3000))
        self.interrupted(signal.SIGTERM, 1.0, model="lstm", train_batch_size=16, max_seq_length=4000, memory="1TiB", threads=1)


if __name__ == "__main__":
    common.main()

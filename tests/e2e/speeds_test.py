"""The machine's speeds as every other test finds them: measured by the first start for so many threads, read by the next."""
import os
import pathlib

import common
from common import Case, main

PLAN = dict(model="mlp", hidden_sizes=4, vocab_size=10, max_seq_length=4, train_batch_size=1)


class Speeds(Case):
    def test_they_are_measured_once(self):
        folder = pathlib.Path(os.environ["XDG_CACHE_HOME"], "snug")
        for threads in (1, 2):
            self.ok("plan", **PLAN, threads=threads)
            for profile in folder.glob(f"machine-{threads}-*.json"):
                common.keep_speeds(profile)
            self.assertNotIn("measuring", self.ok("plan", **PLAN, threads=threads).stderr)


if __name__ == "__main__":
    main()

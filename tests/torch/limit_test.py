"""A script that knows nothing of Snug is killed under a hard limit of the control group, and trains under it by one line.

    python tests/torch/limit_test.py     in an environment as for exact_test.py, where control groups can be made
"""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/e2e"))
import common  # noqa: E402

MIB = 1 << 20
LINE = 'model = torch.compile(model, backend=snug.torch.backend(memory="{memory}MiB", optimizer=optimizer, differentiate="loss"), dynamic=False)\n'
# As such scripts are: a small GPT over bytes, AdamW, and gradients of two micro-batches.
SCRIPT = """
import sys

import torch
import torch.nn as nn
from torch.nn import functional as F

torch.manual_seed(1337)
block_size, n_embd, n_head, n_layer, batch_size = 256, 128, 4, 8, 64


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)

    def forward(self, x):
        B, T, C = x.size()
        q, k, v = self.c_attn(x).split(n_embd, dim=2)
        q, k, v = (t.view(B, T, n_head, C // n_head).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(B, T, C))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.attn, self.ln_2 = nn.LayerNorm(n_embd), Attention(), nn.LayerNorm(n_embd)
        self.mlp = nn.Sequential(nn.Linear(n_embd, 4 * n_embd), nn.GELU(), nn.Linear(4 * n_embd, n_embd), nn.Dropout(0.1))

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(256, n_embd), nn.Embedding(block_size, n_embd)
        self.h = nn.ModuleList([Block() for _ in range(n_layer)])
        self.ln_f, self.lm_head = nn.LayerNorm(n_embd), nn.Linear(n_embd, 256, bias=False)

    def forward(self, idx, targets):
        x = self.wte(idx) + self.wpe(torch.arange(idx.size(1)))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        return logits, F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
{line}
data = torch.arange(100000) * 7919 % 251
for step in range(1):
    optimizer.zero_grad()
    for micro_step in range(2):
        starts = torch.randint(len(data) - block_size - 1, (batch_size,))
        x = torch.stack([data[i:i + block_size] for i in starts])
        y = torch.stack([data[i + 1:i + 1 + block_size] for i in starts])
        logits, loss = model(x, y)
        (loss / 2).backward()
    optimizer.step()
    print(f"step {step}: loss {loss.item():.5f}", flush=True)
with open("/proc/self/status") as file:
    status = {name: words.split()[0] for name, words in (line.split(":", 1) for line in file) if name in ("VmHWM", "RssFile")}
print(int(status["VmHWM"]) - int(status["RssFile"]))  # libraries' pages may be counted to who read them first
"""


class Limit(unittest.TestCase):
    def run_script(self, line, prefix=()):
        with tempfile.TemporaryDirectory() as folder:
            script = pathlib.Path(folder, "train.py")
            script.write_text(SCRIPT.replace("{line}", line))
            return subprocess.run([*prefix, sys.executable, script], capture_output=True, text=True, timeout=1200)

    def test_from_killed_to_training(self):
        line = "import snug.torch\n" + LINE.format(memory=300)
        free = self.run_script("")
        self.assertEqual(free.returncode, 0, free.stderr[-2000:])
        *losses, peak = free.stdout.splitlines()
        within = self.run_script(line)  # the plan's prices are measured here, and what it takes is known
        self.assertEqual(within.returncode, 0, within.stderr[-2000:])
        *same, less = within.stdout.splitlines()
        self.assertEqual([row.split(":")[0] for row in same], [row.split(":")[0] for row in losses])
        for a, b in zip(losses, same):
            self.assertAlmostEqual(float(a.split()[-1]), float(b.split()[-1]), places=3)
        print(f"peak, libraries aside: {int(peak) // 1024} MiB without, {int(less) // 1024} MiB with the line")
        limit = (int(peak) + int(less)) // 2 * 1024
        with common.MemoryLimit(self, limit) as group:
            killed = self.run_script("", group.prefix)
            self.assertEqual(killed.returncode, -9, killed.stdout + killed.stderr[-500:])
            trained = self.run_script(line, group.prefix)
            self.assertEqual(trained.returncode, 0, trained.stderr[-2000:])
            self.assertEqual(trained.stdout.splitlines()[:-1], same)


if __name__ == "__main__":
    unittest.main()

"""A small GPT in plain PyTorch, trained on the bytes of a text within a budget.

    python examples/python/torch_gpt.py README.md 120MiB        # without a budget: no plan, PyTorch alone
"""
import contextlib
import pathlib
import sys

import torch
from torch import nn
from torch.nn import functional as F

import snug
import snug.torch

WIDTH, HEADS, LAYERS, LENGTH, ROWS, UPDATES = 192, 6, 6, 128, 16, 8


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down, self.drop = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH), nn.Dropout(0.1)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in self.qkv(self.norm1(x)).chunk(3, -1))
        attended = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
        x = x + self.drop(self.out(attended))
        return x + self.drop(self.down(F.gelu(self.up(self.norm2(x)))))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(256, WIDTH), nn.Embedding(LENGTH, WIDTH)
        self.blocks, self.norm, self.head = nn.Sequential(*(Block() for _ in range(LAYERS))), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 256)

    def forward(self, ids, next_ids):
        x = self.blocks(self.tokens(ids) + self.places.weight)
        return F.cross_entropy(self.head(self.norm(x)).flatten(0, 1), next_ids.flatten())


def main(file, memory=None):
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(0)
    text = torch.frombuffer(bytearray(pathlib.Path(file).read_bytes()), dtype=torch.uint8).long()
    model = Gpt().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    run, keys = model, {"optimizer": optimizer, "resident_bytes": text.nbytes + 2 * ROWS * (LENGTH + 1) * text.element_size()}  # the text, and a batch being made
    if memory is not None:
        run = torch.compile(model, backend=snug.torch.backend(memory, **keys), dynamic=False)
    for update in range(UPDATES):
        starts = torch.randint(len(text) - LENGTH - 1, (ROWS,))
        rows = torch.stack([text[start : start + LENGTH + 1] for start in starts]).to(device)
        ids, next_ids = rows[:, :-1].contiguous(), rows[:, 1:].contiguous()
        if update == 0 and memory is not None:
            try:
                print(snug.torch.plan(model, (ids, next_ids), memory=memory, **keys))
            except snug.DoesNotFit as error:
                sys.exit(f"{error}\n" + "\n".join(f"  {way.text}: {way.least_bytes / 2**20:.1f} MiB" for way in error.ways))
        with snug.torch.measure(device) if update == 2 else contextlib.nullcontext() as measured:
            optimizer.zero_grad(set_to_none=False)  # gradients stay, as the plan has it
            loss = run(ids, next_ids)
            loss.backward()
            optimizer.step()
        print(f"update {update + 1}: loss {loss.item():.4f}" + (f", peak {measured.peak_bytes / 2**20:.2f} MiB" if measured else ""), flush=True)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(*sys.argv[1:])

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/nn_ops.txt: results of PyTorch in float64 for attention, layer norm, losses
and gradient clipping, and of transformers for DeBERTa's attention. One tensor a line: name, shape ("2x3", "-" for a scalar), values in row-major order.

    python3 tools/golden/ops.py tests/golden/nn_ops.txt
"""
import sys

import torch
import torch.nn.functional as F
from transformers import DebertaV2Config
from transformers.models.deberta_v2.modeling_deberta_v2 import DisentangledSelfAttention

SEED = 7
LINES = []


def put(name, tensor):
    tensor = torch.as_tensor(tensor).detach().to(torch.float64)
    shape = "x".join(str(dim) for dim in tensor.shape) or "-"
    LINES.append(" ".join([name, shape] + [repr(x) for x in tensor.reshape(-1).tolist()]))


def normal(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def attention(name, samples, length, width, heads, mask=None):
    """Samples without a visible key are left out of the computation: their results are zeros."""
    q, k, v = (normal(samples, length, width).requires_grad_() for _ in range(3))
    do = normal(samples, length, width)
    mask = torch.ones(samples, length, dtype=torch.bool) if mask is None else torch.tensor(mask, dtype=torch.bool)
    visible = mask.any(dim=1)

    def split(x):
        return x[visible].reshape(-1, length, heads, width // heads).transpose(1, 2)

    keys = mask[visible][:, None, None, :]
    part = F.scaled_dot_product_attention(split(q), split(k), split(v), attn_mask=keys)
    scores = split(q) @ split(k).transpose(2, 3) / (width // heads) ** 0.5
    o = torch.zeros(samples, length, width, dtype=torch.float64)
    o[visible] = part.transpose(1, 2).reshape(-1, length, width)
    lse = torch.zeros(samples, heads, length, dtype=torch.float64)
    lse[visible] = scores.masked_fill(~keys, -torch.inf).logsumexp(-1)
    o.backward(do)
    for key, tensor in dict(q=q, k=k, v=v, mask=mask, do=do, o=o, lse=lse, dq=q.grad, dk=k.grad, dv=v.grad).items():
        put(f"attention.{name}.{key}", tensor)


class Known(torch.nn.Module):
    """A projection whose result is known."""

    def __init__(self, result):
        super().__init__()
        self.result = result

    def forward(self, _):
        return self.result


def disentangled_attention(name, samples, length, heads, columns, terms, buckets, max_distance, mask=None):
    """Heads so wide that the divisor of scores, a square root in float32, is a whole number. What is
    masked is left out of o and do: transformers gives it the mean of all values."""
    width, span = heads * columns, buckets if buckets > 0 else max_distance
    config = DebertaV2Config(hidden_size=width, num_attention_heads=heads, relative_attention=True, pos_att_type=terms,
                             position_buckets=buckets, max_relative_positions=max_distance,
                             attention_probs_dropout_prob=0.0, hidden_dropout_prob=0.0)
    module = DisentangledSelfAttention(config)
    given = {key: normal(samples, length, width).requires_grad_() for key in "qkv"}
    module.query_proj, module.key_proj, module.value_proj = (Known(given[key]) for key in "qkv")
    if "c2p" in terms:
        given["pos_key"] = normal(2 * span, width).requires_grad_()
        module.pos_key_proj = Known(given["pos_key"][None])
    if "p2c" in terms:
        given["pos_query"] = normal(2 * span, width).requires_grad_()
        module.pos_query_proj = Known(given["pos_query"][None])
    mask = torch.ones(samples, length, dtype=torch.bool) if mask is None else torch.tensor(mask, dtype=torch.bool)
    do = normal(samples, length, width) * mask[:, :, None]
    pairs = mask[:, None, None, :] * mask[:, None, :, None]
    o, _ = module(given["q"], pairs, rel_embeddings=torch.zeros(2 * span, width, dtype=torch.float64))
    o.backward(do)
    put(f"disentangled_attention.{name}.o", o * mask[:, :, None])
    for key, tensor in dict(mask=mask, do=do, buckets=max(buckets, 0), max_distance=max_distance, **given,
                            **{"d" + key: tensor.grad for key, tensor in given.items()}).items():
        put(f"disentangled_attention.{name}.{key}", tensor)


def layer_norm(name, rows, width, eps):
    x = (normal(rows, width) * 3 + 50).requires_grad_()
    gamma, beta = normal(width).requires_grad_(), normal(width).requires_grad_()
    dy = normal(rows, width)
    y = F.layer_norm(x, (width,), gamma, beta, eps)
    y.backward(dy)
    for key, tensor in dict(x=x, gamma=gamma, beta=beta, dy=dy, eps=eps, y=y, dx=x.grad, dgamma=gamma.grad,
                            dbeta=beta.grad).items():
        put(f"layer_norm.{name}.{key}", tensor)


def cross_entropy(name, logits, labels, weights, smoothing):
    logits = logits.requires_grad_()
    labels, weights = torch.tensor(labels), torch.tensor(weights, dtype=torch.float64)
    inv_total = 1 / weights[labels != -100].sum()
    rows = F.cross_entropy(logits, labels, reduction="none", label_smoothing=smoothing, ignore_index=-100)
    loss = (rows * weights).sum() * inv_total
    loss.backward()
    for key, tensor in dict(logits=logits, labels=labels, weights=weights, inv_total=inv_total, smoothing=smoothing,
                            loss=loss, dlogits=logits.grad).items():
        put(f"cross_entropy.{name}.{key}", tensor)


def clip(name, scale, max_norm):
    parameters = [torch.nn.Parameter(normal(n)) for n in (5, 3)]
    for i, p in enumerate(parameters):
        p.grad = normal(p.numel()) * scale
        put(f"clip.{name}.gradient{i}", p.grad)
    put(f"clip.{name}.norm", torch.nn.utils.clip_grad_norm_(parameters, max_norm))
    put(f"clip.{name}.max_norm", max_norm)
    for i, p in enumerate(parameters):
        put(f"clip.{name}.clipped{i}", p.grad)


def main():
    torch.manual_seed(SEED)
    attention("plain", 2, 5, 6, 3)
    attention("masked", 2, 5, 6, 2, [[1, 1, 1, 0, 0], [0, 1, 0, 1, 1]])
    attention("one_sample_masked", 2, 4, 4, 2, [[1, 1, 0, 1], [0, 0, 0, 0]])
    attention("one_visible_key", 1, 4, 4, 1, [[0, 0, 1, 0]])
    attention("one_token", 2, 1, 6, 2)
    layer_norm("bert", 5, 7, 1e-12)
    layer_norm("gpt", 2, 33, 1e-5)
    cross_entropy("plain", normal(4, 5), [0, 4, 2, 2], [1, 1, 1, 1], 0.0)
    cross_entropy("smoothed", normal(4, 5) * 3, [1, -100, 0, 3], [0.5, 1, 2, 0], 0.125)  # PyTorch rounds 0.1 to float32
    clip("above", 3.0, 1.0)
    clip("below", 0.01, 1.0)
    disentangled_attention("buckets", 2, 9, 2, 3, ["c2p", "p2c"], 6, 9, [[1] * 9, [0, 1, 1, 1, 0, 1, 1, 0, 0]])
    disentangled_attention("every_distance", 1, 7, 1, 12, ["p2c", "c2p"], -1, 5)
    disentangled_attention("c2p", 2, 6, 1, 2, ["c2p"], 4, 16)
    disentangled_attention("p2c", 2, 6, 1, 2, ["p2c"], -1, 4, [[1, 1, 1, 1, 1, 0], [1] * 6])
    disentangled_attention("no_terms", 1, 4, 2, 4, [], 4, 8)
    header = f"# tools/golden/ops.py, torch {torch.__version__}, float64, seed {SEED}"
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        file.write("\n".join([header] + LINES) + "\n")


main()

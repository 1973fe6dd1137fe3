#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/modernbert.safetensors: tiny random ModernBertForSequenceClassification of the transformers package in
float64, of two configurations. For each: a padded batch of odd length, weights, logits, loss, every gradient, and ten updates with
AdamW. The package forms rotated queries and softmax in float32 whatever the model's type; here the same formulas run in float64,
but for angles, which are float32 numbers by definition.

    python3 tools/golden/modernbert.py tests/golden/modernbert.safetensors
"""
import sys

import torch
import transformers
from safetensors.torch import save_file
from transformers.models.modernbert import modeling_modernbert as package

from updates import groups, loss_of, run_updates

SEED = 23
SIZES = dict(vocab_size=23, max_position_embeddings=9, num_labels=4, pad_token_id=0, bos_token_id=1, cls_token_id=1, eos_token_id=2,
             sep_token_id=2, attn_implementation="eager")
CONFIGS = {
    "plain": dict(hidden_size=12, intermediate_size=7, num_hidden_layers=4, num_attention_heads=3, local_attention=4),
    "biased": dict(hidden_size=10, intermediate_size=9, num_hidden_layers=2, num_attention_heads=5, local_attention=2,
                   layer_types=["sliding_attention", "full_attention"], norm_bias=True, attention_bias=True, mlp_bias=True,
                   classifier_bias=True, classifier_pooling="mean", hidden_activation="gelu_pytorch_tanh",
                   classifier_activation="tanh", norm_eps=1e-3,
                   rope_parameters={"full_attention": {"rope_type": "default", "rope_theta": 50.0},
                                    "sliding_attention": {"rope_type": "default", "rope_theta": 7.0}}),
}
RATE, BETAS, EPS, DECAY = 0.01, (0.9, 0.98), 1e-7, 0.1
MASK = [[1, 1, 1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0, 0, 0, 0]]


def rotate(q, k, cos, sin, unsqueeze_dim=1):
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    return q * cos + package.rotate_half(q) * sin, k * cos + package.rotate_half(k) * sin


def angles(self, x, position_ids, layer_type):
    turns = position_ids[..., None].float() * getattr(self, f"{layer_type}_inv_freq").float()
    both = torch.cat((turns, turns), dim=-1).to(x.dtype)
    return both.cos(), both.sin()


def attend(module, query, key, value, attention_mask, scaling, dropout=0.0, **kwargs):
    weights = (query @ key.transpose(2, 3) * scaling + attention_mask).softmax(dim=-1)
    return (weights @ value).transpose(1, 2).contiguous(), weights


def make_model(own):
    model = transformers.ModernBertForSequenceClassification(transformers.ModernBertConfig(**SIZES, **own))
    model = model.to(torch.float64).train()
    with torch.no_grad():
        for name, parameter in model.named_parameters():  # biases and norms too, so that each has its own gradient
            is_scale = parameter.dim() == 1 and name.endswith("weight")
            parameter.copy_(torch.randn_like(parameter) * 0.3 + (1.0 if is_scale else 0.0))
    return model


def main():
    package.apply_rotary_pos_emb, package.eager_attention_forward = rotate, attend
    package.ModernBertRotaryEmbedding.forward = angles
    torch.manual_seed(SEED)
    row_weights, labels = torch.tensor([1.0, 0.5, 2.0], dtype=torch.float64), torch.tensor([3, 0, 1])
    out = {}
    for key, own in CONFIGS.items():
        model, mask = make_model(own), torch.tensor(MASK)
        ids = torch.randint(1, SIZES["vocab_size"], mask.shape) * mask
        out |= {f"{key}/{name}": x.to(torch.float64).clone() for name, x in
                dict(input_ids=ids, attention_mask=mask, labels=labels, row_weights=row_weights).items()}
        out |= {f"{key}/before/{name}": p.detach().clone() for name, p in model.named_parameters()}

        def logits_of():
            return model(input_ids=ids, attention_mask=mask).logits

        logits = logits_of()
        loss = loss_of(logits, labels, row_weights)
        loss.backward()
        out[f"{key}/logits"], out[f"{key}/loss"] = logits.detach(), loss.detach()
        out |= {f"{key}/grad/{name}": p.grad.clone() for name, p in model.named_parameters()}
        optimizer = torch.optim.AdamW(groups(model, DECAY), lr=RATE, betas=BETAS, eps=EPS)
        run_updates(key, model, optimizer, lambda: loss_of(logits_of(), labels, row_weights),
                    lambda m: {name: p.detach().clone() for name, p in m.named_parameters()}, out)
    note = f"torch {torch.__version__}, transformers {transformers.__version__}, float64, seed {SEED}"
    save_file({name: tensor.contiguous() for name, tensor in out.items()}, sys.argv[1], {"tools/golden/modernbert.py": note})


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/deberta.safetensors: tiny random DebertaV2ForSequenceClassification of the transformers package in float64.
For each configuration: a padded batch of odd length, weights, logits, loss, every gradient, and ten updates with AdamW.

    python3 tools/golden/deberta.py tests/golden/deberta.safetensors
"""
import sys

import torch
import transformers
from safetensors.torch import save_file
from transformers.models.deberta_v2 import modeling_deberta_v2

from updates import groups, loss_of, run_updates

SEED = 23
COMMON = dict(vocab_size=23, intermediate_size=13, max_position_embeddings=16, num_labels=4, hidden_dropout_prob=0.0,
              attention_probs_dropout_prob=0.0, relative_attention=True)
CASES = {
    # As v3: the farther half of the distances is in logarithmic buckets.
    "v3": dict(hidden_size=12, num_hidden_layers=2, num_attention_heads=3, position_buckets=6, norm_rel_ebd="layer_norm",
               share_att_key=True, pos_att_type="p2c|c2p", position_biased_input=False, type_vocab_size=0),
    # As v2-xlarge, with heads of odd width, groups and a narrower embedding.
    "v2": dict(hidden_size=10, num_hidden_layers=2, num_attention_heads=2, position_buckets=4, norm_rel_ebd="layer_norm",
               share_att_key=True, pos_att_type="p2c|c2p", position_biased_input=False, type_vocab_size=0,
               conv_kernel_size=3, conv_groups=2, conv_act="gelu", embedding_size=7),
    # Everything that the published ones omit; distances are cut at 4.
    "keys": dict(hidden_size=9, num_hidden_layers=1, num_attention_heads=3, max_relative_positions=4, pos_att_type=["c2p"],
                 type_vocab_size=2, conv_kernel_size=5, pooler_hidden_act="tanh", hidden_act="relu"),
    "queries": dict(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, position_buckets=4, pos_att_type="p2c",
                    position_biased_input=False),
    # The divisor of the scores counts distances that there are none of.
    "absolute": dict(hidden_size=8, num_hidden_layers=1, num_attention_heads=2, relative_attention=False, pos_att_type="p2c|c2p"),
}
RATE, BETAS, EPS, DECAY = 0.01, (0.9, 0.98), 1e-7, 0.1
LENGTHS = (11, 4, 1)

# The original takes this root in float32, whatever the model's type: 1e-8 off in float64.
modeling_deberta_v2.scaled_size_sqrt = lambda layer, factor: torch.tensor(layer.size(-1) * factor, dtype=torch.float64).sqrt()


def make_model(case):
    config = transformers.DebertaV2Config(**COMMON | case)
    model = transformers.DebertaV2ForSequenceClassification(config).to(torch.float64).train()
    with torch.no_grad():
        for name, parameter in model.named_parameters():  # biases and norms too, so that each has its own gradient
            is_scale = parameter.dim() == 1 and name.endswith("weight")
            parameter.copy_(torch.randn_like(parameter) * 0.3 + (1.0 if is_scale else 0.0))
    return model


def main():
    torch.manual_seed(SEED)
    row_weights, labels = torch.tensor([1.0, 0.5, 2.0], dtype=torch.float64), torch.tensor([3, 0, 1])
    mask = torch.tensor([[int(t < length) for t in range(max(LENGTHS))] for length in LENGTHS])
    out = {}
    for name, case in CASES.items():
        model = make_model(case)
        inputs = dict(input_ids=torch.randint(1, COMMON["vocab_size"], mask.shape) * mask, attention_mask=mask,
                      token_type_ids=torch.randint(0, 2, mask.shape) * mask)
        out |= {f"{name}/{key}": x.to(torch.float64).clone() for key, x in
                dict(inputs, labels=labels, row_weights=row_weights).items()}
        out |= {f"{name}/before/{key}": p.detach().clone() for key, p in model.named_parameters()}

        def logits_of():
            return model(**inputs).logits

        logits = logits_of()
        loss = loss_of(logits, labels, row_weights)
        loss.backward()
        out[f"{name}/logits"], out[f"{name}/loss"] = logits.detach(), loss.detach()
        out |= {f"{name}/grad/{key}": p.grad.clone() for key, p in model.named_parameters()}
        optimizer = torch.optim.AdamW(groups(model, DECAY), lr=RATE, betas=BETAS, eps=EPS)
        run_updates(name, model, optimizer, lambda: loss_of(logits_of(), labels, row_weights),
                    lambda m: {key: p.detach().clone() for key, p in m.named_parameters()}, out)
    note = f"torch {torch.__version__}, transformers {transformers.__version__}, float64, seed {SEED}"
    save_file({name: tensor.contiguous() for name, tensor in out.items()}, sys.argv[1], {"tools/golden/deberta.py": note})


main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/encoders.safetensors: tiny random RoBERTa, ELECTRA and ALBERT classifiers of the transformers package in
float64. For each: a batch padded on the right and within, weights, logits, loss, every gradient, and ten updates with AdamW.

    python3 tools/golden/encoders.py tests/golden/encoders.safetensors
"""
import sys

import torch
import transformers
from safetensors.torch import save_file

from updates import groups, loss_of, run_updates

SEED = 29
COMMON = dict(vocab_size=23, intermediate_size=13, num_labels=4, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
              attn_implementation="eager")
CASES = {
    "roberta": (transformers.RobertaForSequenceClassification, transformers.RobertaConfig(
        **COMMON, hidden_size=12, num_hidden_layers=2, num_attention_heads=3, max_position_embeddings=9, type_vocab_size=1,
        layer_norm_eps=1e-5)),
    "xlm-roberta": (transformers.XLMRobertaForSequenceClassification, transformers.XLMRobertaConfig(
        **COMMON, hidden_size=10, num_hidden_layers=1, num_attention_heads=5, max_position_embeddings=12, type_vocab_size=2,
        pad_token_id=3, hidden_act="relu")),
    "electra": (transformers.ElectraForSequenceClassification, transformers.ElectraConfig(
        **COMMON, embedding_size=7, hidden_size=9, num_hidden_layers=2, num_attention_heads=3, max_position_embeddings=8)),
    "albert": (transformers.AlbertForSequenceClassification, transformers.AlbertConfig(
        **COMMON, embedding_size=6, hidden_size=15, num_hidden_layers=4, num_attention_heads=5, num_hidden_groups=2,
        inner_group_num=2, max_position_embeddings=8, classifier_dropout_prob=0.0)),
    "albert-shared": (transformers.AlbertForSequenceClassification, transformers.AlbertConfig(
        **COMMON, embedding_size=8, hidden_size=8, num_hidden_layers=3, num_attention_heads=2, max_position_embeddings=8,
        classifier_dropout_prob=0.0)),
}
RATE, BETAS, EPS, DECAY = 0.01, (0.9, 0.98), 1e-7, 0.1
MASK = [[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0], [1, 0, 0, 1, 1, 1, 1]]


def make_model(kind, config):
    model = kind(config).to(torch.float64).train()
    with torch.no_grad():
        for name, parameter in model.named_parameters():  # biases and norms too, so that each has its own gradient
            is_scale = parameter.dim() == 1 and name.endswith("weight")
            parameter.copy_(torch.randn_like(parameter) * 0.3 + (1.0 if is_scale else 0.0))
    return model


def main():
    torch.manual_seed(SEED)
    row_weights, labels = torch.tensor([1.0, 0.5, 2.0], dtype=torch.float64), torch.tensor([3, 0, 1])
    out = {}
    for key, (kind, config) in CASES.items():
        model, mask = make_model(kind, config), torch.tensor(MASK)
        words = torch.randint(4, COMMON["vocab_size"], mask.shape)
        inputs = dict(input_ids=torch.where(mask == 1, words, config.pad_token_id), attention_mask=mask,
                      token_type_ids=torch.randint(0, config.type_vocab_size, mask.shape))
        out |= {f"{key}/{name}": x.to(torch.float64).clone() for name, x in
                dict(inputs, labels=labels, row_weights=row_weights).items()}
        out |= {f"{key}/before/{name}": p.detach().clone() for name, p in model.named_parameters()}

        def logits_of():
            return model(**inputs).logits

        logits = logits_of()
        loss = loss_of(logits, labels, row_weights)
        loss.backward()
        out[f"{key}/logits"], out[f"{key}/loss"] = logits.detach(), loss.detach()
        out |= {f"{key}/grad/{name}": p.grad.clone() for name, p in model.named_parameters()}
        optimizer = torch.optim.AdamW(groups(model, DECAY), lr=RATE, betas=BETAS, eps=EPS)
        run_updates(key, model, optimizer, lambda: loss_of(logits_of(), labels, row_weights),
                    lambda m: {name: p.detach().clone() for name, p in m.named_parameters()}, out)
    note = f"torch {torch.__version__}, transformers {transformers.__version__}, float64, seed {SEED}"
    save_file({name: tensor.contiguous() for name, tensor in out.items()}, sys.argv[1], {"tools/golden/encoders.py": note})


main()

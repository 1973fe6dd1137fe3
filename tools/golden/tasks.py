#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/tasks.safetensors: tiny random BERT and DistilBERT of the transformers package in float64 with the head of each
task. For each: a padded batch, its labels, weights, logits, loss and every gradient. Labels of tokens are ragged, and a row has none.

    python3 tools/golden/tasks.py tests/golden/tasks.safetensors
"""
import sys

import torch
import transformers
from safetensors.torch import save_file

SEED = 23
MASK = torch.tensor([[1, 1, 1, 1, 1, 1, 1], [1, 1, 1, 1, 0, 0, 0], [1, 1, 0, 0, 0, 0, 0]])
TOKEN_LABELS = [[-100, 2, -100, 0, 3, -100, -100], [-100, 1, 1, -100, -100, -100, -100], [-100] * 7]
LABELS = 4


def models(num_labels, **more):
    bert = transformers.BertConfig(vocab_size=23, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=10,
                                   max_position_embeddings=9, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
                                   num_labels=num_labels, attn_implementation="eager", **more)
    distilbert = transformers.DistilBertConfig(vocab_size=23, dim=8, n_layers=1, n_heads=2, hidden_dim=10, max_position_embeddings=9,
                                               dropout=0.0, attention_dropout=0.0, seq_classif_dropout=0.0, num_labels=num_labels,
                                               attn_implementation="eager", **more)
    return {"bert": bert, "distilbert": distilbert}


def classes(family, head):
    return getattr(transformers, {"bert": "Bert", "distilbert": "DistilBert"}[family] + "For" + head)


def cases():
    """Name, head, config.json's fields, labels, and the loss where it is not the class's own."""
    one, three = torch.randn(3, 1, dtype=torch.float64), torch.randn(3, 3, dtype=torch.float64) * 2
    several = torch.tensor([[1, 0, 1, 1], [0, 0, 0, 0], [0, 1, 0, 0]], dtype=torch.float64)
    regression, multi = dict(problem_type="regression"), dict(problem_type="multi_label_classification")
    smooth = torch.nn.functional.smooth_l1_loss
    return [("regression_one", "SequenceClassification", dict(num_labels=1, **regression), one, None),
            ("regression_three", "SequenceClassification", dict(num_labels=3, **regression), three, None),
            ("regression_smooth_l1", "SequenceClassification", dict(num_labels=3, **regression), three, smooth),
            ("multi_label", "SequenceClassification", dict(num_labels=LABELS, **multi), several, None),
            ("token_classification", "TokenClassification", dict(num_labels=LABELS), torch.tensor(TOKEN_LABELS), None)]


def main():
    torch.manual_seed(SEED)
    out = {}
    for name, head, fields, labels, loss_of in cases():
        for family, config in models(**fields).items():
            model = classes(family, head)(config).to(torch.float64).train()
            with torch.no_grad():
                for weight, parameter in model.named_parameters():  # biases and norms too, so that each has its own gradient
                    is_scale = parameter.dim() == 1 and weight.endswith("weight")
                    parameter.copy_(torch.randn_like(parameter) * 0.3 + (1.0 if is_scale else 0.0))
            ids = torch.randint(1, 23, MASK.shape) * MASK
            found = model(input_ids=ids, attention_mask=MASK, labels=labels)
            loss = loss_of(found.logits, labels) if loss_of else found.loss
            loss.backward()
            prefix = f"{family}_{name}/"
            out |= {prefix + key: x.detach().to(torch.float64).clone() for key, x in
                    dict(input_ids=ids, attention_mask=MASK, labels=labels, logits=found.logits, loss=loss).items()}
            out |= {f"{prefix}before/{weight}": p.detach().clone() for weight, p in model.named_parameters()}
            out |= {f"{prefix}grad/{weight}": p.grad.clone() for weight, p in model.named_parameters()}
    note = f"torch {torch.__version__}, transformers {transformers.__version__}, float64, seed {SEED}"
    save_file({name: tensor.contiguous() for name, tensor in out.items()}, sys.argv[1], {"tools/golden/tasks.py": note})


main()

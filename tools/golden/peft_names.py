#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes tests/golden/peft.json: what PEFT's LoraConfig makes of a BERT of two layers: which linear maps have adapters, of which rank and scale, and what is
trained beside them and the head.

    python3 tools/golden/peft_names.py tests/golden/peft.json
"""
import json
import sys

import peft
import transformers

ALL = r".*layer\.(0|1)\..*(query|dense)"
CASES = [
    {"target_modules": ["query", "value"]},
    {"target_modules": ["query", "value"], "r": 4, "lora_alpha": 6},
    {"target_modules": ["bert.encoder.layer.1.output.dense"], "r": 2},
    {"target_modules": ["output.dense", "key"], "r": 2, "bias": "lora_only"},
    {"target_modules": "all-linear", "r": 2},
    {"target_modules": "all-linear", "r": 2, "modules_to_save": ["pooler"]},
    {"target_modules": ["dense"], "r": 2, "modules_to_save": ["pooler", "layer.1.output"]},
    {"target_modules": ["query"], "r": 2, "modules_to_save": ["word_embeddings"]},
    {"target_modules": ["query"], "bias": "all"},
    {"target_modules": ["query"], "bias": "lora_only"},
    {"target_modules": r".*\.attention\.self\.(query|key)", "r": 3, "lora_alpha": 5, "use_rslora": True},
    {"target_modules": ALL, "r": 4, "lora_alpha": 6, "rank_pattern": {"dense": 3, "layer.0.attention.self.query": 2},
     "alpha_pattern": {r".*output\.dense": 5}},
    {"target_modules": ALL, "r": 4, "lora_alpha": 6, "rank_pattern": {"dense": 3, r"encoder\.layer\.0\..*": 2}, "use_rslora": True},
    {"target_modules": ["query", "value"], "r": 8, "rank_pattern": {"^bert.encoder.layer.0.*query": 1, "value": 16},
     "alpha_pattern": {"self.value": 2.5}},
]


def result(case):
    config = transformers.BertConfig(vocab_size=20, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=48,
                                     max_position_embeddings=16, num_labels=3)
    model = peft.get_peft_model(transformers.BertForSequenceClassification(config), peft.LoraConfig(task_type="SEQ_CLS", **case))
    maps = {name.removeprefix("base_model.model."): [module.r["default"], module.scaling["default"]]
            for name, module in model.named_modules() if isinstance(module, peft.tuners.lora.LoraLayer)}
    trained = sorted(name.removeprefix("base_model.model.").replace(".modules_to_save.default", "").replace(".base_layer", "")
                     for name, value in model.named_parameters() if value.requires_grad and "lora_" not in name)
    return {"lora": case, "maps": maps, "trained": [name for name in trained if not name.startswith("classifier.")]}


def main():
    page = {"generator": "tools/golden/peft_names.py", "peft": peft.__version__, "cases": [result(case) for case in CASES]}
    with open(sys.argv[1], "w", encoding="utf-8") as file:
        json.dump(page, file, indent=1)
        file.write("\n")


main()

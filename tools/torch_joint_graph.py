#!/usr/bin/env python3
"""Writes the joint forward and backward graph of a PyTorch model as a problem file of `snug solve remat`.

    pip install torch transformers
    python3 tools/torch_joint_graph.py gpt2 --output gpt2.json
    python3 tools/torch_joint_graph.py llama --layers 32 --output llama.json

The models have random weights. One op of the file is one ATen op that makes a storage; a view is no op, and who reads it reads the storage that it
looks at. Bytes are those of storages. Costs are milliseconds of a device with 10 Tflop/s and 500 GB/s. Parameters and inputs are resident, what the
graph returns (the loss and the gradients) is kept, ops of the backward part and ops that draw random numbers run once.
"""
import argparse
import json
import sys

import torch
from torch.utils._pytree import tree_flatten
from torch.utils.flop_counter import flop_registry

FLOPS_PER_MS = 10e9
BYTES_PER_MS = 500e6
MS_PER_CALL = 0.002


def causal(model, batch, length):
    model.loss_type = "ForCausalLM"
    tokens = torch.zeros(batch, length, dtype=torch.long)
    return model, dict(input_ids=tokens, labels=tokens)


def bert(layers):
    from transformers import BertConfig, BertForSequenceClassification
    model = BertForSequenceClassification(BertConfig(num_hidden_layers=layers or 12, attn_implementation="eager"))
    return model, dict(input_ids=torch.zeros(16, 128, dtype=torch.long), attention_mask=torch.ones(16, 128, dtype=torch.long),
                       labels=torch.zeros(16, dtype=torch.long))


def gpt2(layers):
    from transformers import GPT2Config, GPT2LMHeadModel
    return causal(GPT2LMHeadModel(GPT2Config(n_layer=layers or 12, use_cache=False, attn_implementation="eager")), 8, 256)


def llama(layers):
    from transformers import LlamaConfig, LlamaForCausalLM
    config = LlamaConfig(hidden_size=512, intermediate_size=1376, num_hidden_layers=layers or 32, num_attention_heads=8,
                         num_key_value_heads=8, vocab_size=8000, use_cache=False, attn_implementation="eager")
    return causal(LlamaForCausalLM(config), 4, 256)


def resnet(_):
    from transformers import ResNetConfig, ResNetForImageClassification
    return ResNetForImageClassification(ResNetConfig(num_labels=1000)), dict(pixel_values=torch.zeros(8, 3, 224, 224),
                                                                          labels=torch.zeros(8, dtype=torch.long))


MODELS = dict(bert=bert, gpt2=gpt2, llama=llama, resnet=resnet)


class Found(Exception):
    """The joint graph is there; nothing of it is to be compiled."""


def joint_graph(model, inputs):
    """The graph as torch.compile hands it to a partitioner."""
    from torch._dynamo.backends.common import aot_autograd
    graphs = []

    def partition(module, _, **__):
        graphs.append(module.graph)
        raise Found
    model.train()
    backend = aot_autograd(fw_compiler=lambda module, _: module, partition_fn=partition)
    try:
        torch.compile(model, backend=backend, fullgraph=True, dynamic=False)(**inputs)
    except Exception:
        if not graphs:
            raise
    return graphs[0]


def tensors(value):
    return [each for each in tree_flatten(value)[0] if isinstance(each, torch.Tensor)]


def flops_of(node):
    count = flop_registry.get(getattr(node.target, "overloadpacket", None))
    if count is None:
        return 0
    args, kwargs = (torch.fx.node.map_arg(each, lambda arg: arg.meta["val"]) for each in (node.args, node.kwargs))
    return count(*args, **kwargs, out_val=node.meta["val"])


class Problem:
    def __init__(self, graph):
        self.name_of, self.bytes, self.resident, self.ops = {}, {}, [], []
        self.is_backward = False
        for node in graph.nodes:
            if node.op in ("placeholder", "get_attr"):
                self.add_resident(node)
            elif node.op != "output":
                self.add_op(node)
        returned = [name for node in next(n for n in graph.nodes if n.op == "output").all_input_nodes for name in self.names(node)]
        self.keep = [name for name in dict.fromkeys(returned) if name in self.bytes]

    def names(self, node):
        return [self.name_of[each.untyped_storage()._cdata] for each in tensors(node.meta.get("val"))]

    def add_resident(self, node):
        for each in tensors(node.meta.get("val")):
            if each.untyped_storage()._cdata not in self.name_of:
                self.name_of[each.untyped_storage()._cdata] = node.name
                self.resident.append(node.name)

    def add_op(self, node):
        inputs = list(dict.fromkeys(name for each in node.all_input_nodes for name in self.names(each)))
        outputs = []
        for number, each in enumerate(tensors(node.meta.get("val"))):
            storage = each.untyped_storage()
            if storage._cdata in self.name_of:
                continue  # a view
            name = node.name if number == 0 else f"{node.name}.{number}"
            self.name_of[storage._cdata] = name
            self.bytes[name] = storage.nbytes()
            outputs.append(name)
        self.is_backward = self.is_backward or "backward" in node.meta.get("partitioner_tag", "")
        if not outputs:
            return
        touched = [each for part in [node, *node.all_input_nodes] for each in tensors(part.meta.get("val"))]
        moved = sum(each.numel() * each.element_size() for each in touched)
        cost = flops_of(node) / FLOPS_PER_MS + moved / BYTES_PER_MS + MS_PER_CALL
        draws = torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
        self.ops.append(dict(id=node.name, phase="backward" if self.is_backward else "forward", cost=round(cost, 6), inputs=inputs,
                             outputs=outputs, **(dict(recompute=False) if draws else {})))

    def to_json(self):
        storages = [dict(id=name, bytes=size) for name, size in self.bytes.items()]
        return json.dumps(dict(storages=storages, resident=self.resident, keep=self.keep, ops=self.ops))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", choices=MODELS)
    parser.add_argument("--layers", type=int, default=0)
    parser.add_argument("--output", required=True)
    words = parser.parse_args()
    problem = Problem(joint_graph(*MODELS[words.model](words.layers)))
    with open(words.output, "w", encoding="utf-8") as file:
        file.write(problem.to_json() + "\n")
    print(f"{len(problem.ops)} ops, {sum(op['phase'] == 'forward' for op in problem.ops)} of the forward part", file=sys.stderr)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes the joint forward and backward graph of a PyTorch model as a problem file of `snug solve remat`.

    pip install torch transformers
    python3 tools/torch_joint_graph.py gpt2 --output gpt2.json
    python3 tools/torch_joint_graph.py llama layers=32 --output llama.json
    python3 tools/torch_joint_graph.py my_models.py:two_towers width=64 --output towers.json

A model is a function that returns an nn.Module and the keyword arguments of its forward; NAME=NUMBER are arguments of the function. Models of this file
have random weights: bert, gpt2, llama, resnet. What the file says of the graph, and why, is in docs/frameworks.md. With --plain there are no views, no
boundary and no order of random draws: readers of a view read its storage, and what draws random numbers runs once. --decompose NAME... takes ATen ops apart
as PyTorch does: of native_dropout only the mask is drawn then, and its product can be made again.
What is not understood is refused: ops that write a tensor in place (parameters and inputs aside), that have effects, or whose value is no tensor of known size.
"""
import argparse
import importlib.util
import json
import pathlib
import sys

import torch
from torch.utils.flop_counter import flop_registry

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
from snug import Error  # noqa: E402
from snug.torch._joint import Joint, Price, size_of, tensors  # noqa: E402

FLOPS_PER_MS = 10e9
BYTES_PER_MS = 500e6
MS_PER_CALL = 0.002


def causal(model, batch, length):
    model.loss_type = "ForCausalLM"
    tokens = torch.zeros(batch, length, dtype=torch.long)
    return model, dict(input_ids=tokens, labels=tokens)


def bert(layers=12):
    from transformers import BertConfig, BertForSequenceClassification
    model = BertForSequenceClassification(BertConfig(num_hidden_layers=layers, attn_implementation="eager"))
    return model, dict(input_ids=torch.zeros(16, 128, dtype=torch.long), attention_mask=torch.ones(16, 128, dtype=torch.long),
                       labels=torch.zeros(16, dtype=torch.long))


def gpt2(layers=12):
    from transformers import GPT2Config, GPT2LMHeadModel
    return causal(GPT2LMHeadModel(GPT2Config(n_layer=layers, use_cache=False, attn_implementation="eager")), 8, 256)


def llama(layers=32):
    from transformers import LlamaConfig, LlamaForCausalLM
    config = LlamaConfig(hidden_size=512, intermediate_size=1376, num_hidden_layers=layers, num_attention_heads=8,
                         num_key_value_heads=8, vocab_size=8000, use_cache=False, attn_implementation="eager")
    return causal(LlamaForCausalLM(config), 4, 256)


def resnet():
    from transformers import ResNetConfig, ResNetForImageClassification
    return ResNetForImageClassification(ResNetConfig(num_labels=1000)), dict(pixel_values=torch.zeros(8, 3, 224, 224),
                                                                          labels=torch.zeros(8, dtype=torch.long))


MODELS = dict(bert=bert, gpt2=gpt2, llama=llama, resnet=resnet)


class Found(Exception):
    """The joint graph is there; nothing of it is to be compiled."""


def joint_graph(model, inputs, decomposed):
    """The graph as torch.compile hands it to a partitioner, and how many of its outputs the forward part makes."""
    from torch._decomp import get_decompositions
    from torch._dynamo.backends.common import aot_autograd
    found = []

    def partition(module, _, *, num_fwd_outputs, **__):
        found.append((module.graph, num_fwd_outputs))
        raise Found
    for name in decomposed:
        if not hasattr(torch.ops.aten, name):
            sys.exit(f"--decompose: no ATen op {name}")
    parts = get_decompositions([getattr(torch.ops.aten, name) for name in decomposed])
    model.train()
    backend = aot_autograd(fw_compiler=lambda module, _: module, partition_fn=partition, decompositions=parts)
    try:
        torch.compile(model, backend=backend, fullgraph=True, dynamic=False)(**inputs)
    except Exception:
        if not found:
            raise
    return found[0]


def flops_of(node):
    count = flop_registry.get(getattr(node.target, "overloadpacket", None))
    if count is None:
        return 0
    args, kwargs = (torch.fx.node.map_arg(each, lambda arg: arg.meta["val"]) for each in (node.args, node.kwargs))
    return count(*args, **kwargs, out_val=node.meta["val"])


def price_of(node):
    moved = sum(size_of(each) for part in [node, *node.all_input_nodes] for each in tensors(part) if each is not None)
    return Price(round(flops_of(node) / FLOPS_PER_MS + moved / BYTES_PER_MS + MS_PER_CALL, 6))


def model_of(text):
    """The function that a word of the command names."""
    if text in MODELS:
        return MODELS[text]
    file, _, function = text.partition(":")
    if not function or not pathlib.Path(file).is_file():
        sys.exit(f"no model {text}: {', '.join(MODELS)}, or FILE.py:FUNCTION")
    spec = importlib.util.spec_from_file_location(pathlib.Path(file).stem, file)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not hasattr(module, function):
        sys.exit(f"no {function} in {file}")
    return getattr(module, function)


def number(text):
    name, is_given, value = text.partition("=")
    if not is_given:
        sys.exit(f"{text} is no NAME=NUMBER")
    return name, float(value) if "." in value else int(value)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a name, or FILE.py:FUNCTION")
    parser.add_argument("arguments", nargs="*", metavar="NAME=NUMBER")
    parser.add_argument("--plain", action="store_true")
    parser.add_argument("--decompose", nargs="+", default=[], metavar="NAME")
    parser.add_argument("--output", required=True)
    words = parser.parse_args()
    model, inputs = model_of(words.model)(**dict(map(number, words.arguments)))
    graph, num_forward_outputs = joint_graph(model, inputs, words.decompose)
    graph.eliminate_dead_code()
    try:
        problem = Joint(graph, num_forward_outputs, price_of, is_plain=words.plain).problem()
    except Error as error:
        sys.exit(str(error))
    with open(words.output, "w", encoding="utf-8") as file:
        json.dump(problem, file)
        file.write("\n")
    first = next((i for i, op in enumerate(problem["ops"]) if op["phase"] == "backward"), len(problem["ops"]))
    print(f"{len(problem['ops'])} ops, {first} of them in the forward part", file=sys.stderr)


if __name__ == "__main__":
    main()

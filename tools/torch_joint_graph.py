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
import operator
import pathlib
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


def refuse(node, why):
    sys.exit(f"{node.name} ({node.target}): {why}")


def tensors(node):
    """The tensors that a node makes, None where one of several is not made."""
    if "val" not in node.meta:
        refuse(node, "is no tensor" if node.op == "call_function" else "is a graph of its own, such as a branch of torch.cond")
    value = node.meta["val"]
    parts = list(value) if isinstance(value, (tuple, list)) else [value]
    for each in parts:
        if isinstance(each, (torch.SymInt, torch.SymFloat, torch.SymBool, int, float, bool)):
            refuse(node, "is a number of the host; compile with dynamic=False, without .item()")
        if each is not None and (not isinstance(each, torch.Tensor) or each.layout != torch.strided):
            refuse(node, f"makes a {type(each).__name__} that is no dense tensor")
    return parts


def size_of(tensor):
    return tensor.numel() * tensor.element_size()


def flops_of(node):
    count = flop_registry.get(getattr(node.target, "overloadpacket", None))
    if count is None:
        return 0
    args, kwargs = (torch.fx.node.map_arg(each, lambda arg: arg.meta["val"]) for each in (node.args, node.kwargs))
    return count(*args, **kwargs, out_val=node.meta["val"])


def cost_of(node):
    moved = sum(size_of(each) for part in [node, *node.all_input_nodes] for each in tensors(part) if each is not None)
    return round(flops_of(node) / FLOPS_PER_MS + moved / BYTES_PER_MS + MS_PER_CALL, 6)


def written(node):
    """The arguments that an op writes in place."""
    names = [each.name for each in node.target._schema.arguments if each.alias_info is not None and each.alias_info.is_write]
    places = {each.name: i for i, each in enumerate(node.target._schema.arguments)}
    return [node.args[places[name]] if places[name] < len(node.args) else node.kwargs[name] for name in names]


class Problem:
    def __init__(self, graph, num_forward_outputs, is_plain):
        self.is_plain = is_plain
        self.names = {}  # of a node's tensors: what a reader of the node names
        self.root = {}  # by storage: its id
        self.storages, self.resident, self.ops = {}, [], []
        self.of_tangents = set()  # nodes that depend on one
        self.tangents = []  # not listed yet
        for node in graph.nodes:
            if node.op == "placeholder" and node.name.startswith("tangents"):
                self.tangents.append(node)
                self.of_tangents.add(node)
            elif node.op in ("placeholder", "get_attr"):
                self.add_resident(node)
            elif node.op != "output":
                self.add_op(node)
        returned = tree_flatten(next(node for node in graph.nodes if node.op == "output").args[0])[0]
        self.keep = self.of_arena(returned)
        self.forward_outputs = self.of_arena(returned[:num_forward_outputs])

    def of_arena(self, nodes):
        ids = dict.fromkeys(name for node in nodes if isinstance(node, torch.fx.Node) for name in self.names[node])
        return [name for name in ids if name in self.storages]

    def add_resident(self, node):
        self.names[node] = []
        for each in tensors(node):
            key = each.untyped_storage()._cdata
            if key not in self.root:
                self.root[key] = node.name
                self.resident.append(node.name)
            self.names[node].append(self.root[key])

    def make(self, node, number):
        """The id of a tensor that a node makes, and what its storage entry says: none where the tensor lies in one that is there."""
        tensor = tensors(node)[number]
        storage, name = tensor.untyped_storage(), node.name if number == 0 else f"{node.name}.{number}"
        if storage._cdata not in self.root:
            self.root[storage._cdata] = name
            return name, dict(bytes=storage.nbytes())
        root = self.root[storage._cdata]
        return (root, None) if self.is_plain else (name, dict(view_of=root))

    def add_op(self, node):
        if any(each in self.of_tangents for each in node.all_input_nodes):
            self.of_tangents.add(node)
        if node.target is operator.getitem:
            numbers = [i for i, each in enumerate(tensors(node.args[0])) if each is not None]
            self.names[node] = [self.names[node.args[0]][numbers.index(node.args[1])]]
            return
        if not isinstance(node.target, torch._ops.OpOverload):
            refuse(node, "is no ATen op")
        if node.target.namespace in ("_c10d_functional", "c10d"):
            refuse(node, "is a collective, whose partners on other ranks are not known here")
        if "backward" in node.meta.get("partitioner_tag", "") or node in self.of_tangents:
            self.add_tangents()
        inputs = list(dict.fromkeys(name for each in node.all_input_nodes for name in self.names[each]))
        makes = [self.make(node, i) for i, each in enumerate(tensors(node)) if each is not None]
        self.names[node] = [name for name, _ in makes]
        overwritten = self.overwritten(node)
        if overwritten:
            self.list_op(node, inputs, overwritten, cost_of(node))
            return
        if not makes:
            refuse(node, "returns nothing, so it is there for an effect")
        made = dict(makes)
        views = [name for name, entry in makes if entry and entry.get("view_of", name) not in made]
        if 0 < len(views) < len(makes) or (None in made.values() and any(made.values())):
            refuse(node, "makes views and tensors at once")
        if None in made.values():
            return  # readers of the view read its storage
        self.storages.update(made)
        if views:
            self.ops.append(dict(id=node.name, phase=self.phase(node), cost=0, inputs=inputs, outputs=views))
        else:
            self.list_op(node, inputs, self.names[node], cost_of(node))

    def overwritten(self, node):
        names = []
        for each in written(node):
            for name in self.names[each]:
                if name not in self.resident:
                    refuse(node, f"writes {name} in place, which is no parameter and no input")
                names.append(name)
        if names:
            self.names[node] = names  # what it returns is what it wrote
        return names

    def list_op(self, node, inputs, outputs, cost):
        draws = torch.Tag.nondeterministic_seeded in node.target.tags
        more = {}
        if draws and not self.is_plain:
            more["ordered"] = True
        elif draws:
            more["recompute"] = False
        tag = node.meta.get("partitioner_tag", "")
        if tag.startswith("must_be_in_") and not self.is_plain:
            more["part"] = tag.removeprefix("must_be_in_")
        self.ops.append(dict(id=node.name, phase=self.phase(node), cost=cost, inputs=inputs, outputs=outputs, **more))

    def phase(self, node):
        return "backward" if node in self.of_tangents else "forward"

    def add_tangents(self):
        """Behind the last op of the forward part: who calls hands them over then."""
        for node in self.tangents:
            self.names[node] = []
            for i in range(len(tensors(node))):
                name, entry = self.make(node, i)
                self.storages[name] = entry
                self.names[node].append(name)
            self.ops.append(dict(id=node.name, phase="backward", cost=0, inputs=[], outputs=self.names[node], recompute=False))
        self.tangents = []

    def to_json(self):
        storages = [dict(id=name, **entry) for name, entry in self.storages.items()]
        boundary = {} if self.is_plain else dict(boundary=dict(forward_outputs=self.forward_outputs))
        return json.dumps(dict(storages=storages, resident=self.resident, keep=self.keep, **boundary, ops=self.ops))


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
    problem = Problem(graph, num_forward_outputs, words.plain)
    with open(words.output, "w", encoding="utf-8") as file:
        file.write(problem.to_json() + "\n")
    first = next((i for i, op in enumerate(problem.ops) if op["phase"] == "backward"), len(problem.ops))
    print(f"{len(problem.ops)} ops, {first} of them in the forward part", file=sys.stderr)


if __name__ == "__main__":
    main()

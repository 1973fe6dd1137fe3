"""Models for `tools/torch_joint_graph.py bench/joint_models.py:NAME`, whose graphs the planner was not made with; weights are random.

    python3 bench/joint_models.py FOLDER [NAME ...]    writes the graphs of CASES, those named if any, as plain problem files

Needs torch and transformers.
"""
import pathlib
import subprocess
import sys

import torch
from torch import nn

CASES = {
    "encoder-6": "encoder layers=6",
    "encoder-12-dropout": "encoder layers=12 dropout=0.1",
    "encoder-24": "encoder layers=24",
    "encoder-24-mask": "encoder layers=24 dropout=0.1 --decompose native_dropout",
    "encoder-48-dropout": "encoder layers=48 dropout=0.1",
    "decoder-6-dropout": "decoder layers=6 dropout=0.1",
    "decoder-12": "decoder layers=12",
    "decoder-24-dropout": "decoder layers=24 dropout=0.1",
    "decoder-24-mask": "decoder layers=24 dropout=0.1 --decompose native_dropout",
    "decoder-48": "decoder layers=48",
    "llama-64": "llama layers=64",
    "t5": "t5 layers=6",
    "t5-12-dropout": "t5 layers=12 dropout=0.1",
    "whisper": "whisper layers=4",
    "vit": "vit layers=12",
    "vit-24-dropout": "vit layers=24 dropout=0.1",
    "swin": "swin",
    "clip": "clip layers=8",
    "convnext": "convnext",
    "mobilenet": "mobilenet",
    "regnet": "regnet",
    "unet": "unet depth=4",
    "unet-deep": "unet depth=6",
    "densenet-121": "densenet",
    "lstm": "lstm steps=30",
    "lstm-deep": "lstm steps=60 layers=3",
    "gru": "gru steps=40",
    "mixture": "mixture layers=6",
}


def tokens(rows, length):
    return torch.zeros(rows, length, dtype=torch.long)


def labelled(model, inputs, **more):
    """A model of pictures or rows that returns logits, with the mean loss of classes."""

    class Loss(nn.Module):
        def __init__(self):
            super().__init__()
            self.model = model

        def forward(self, labels, **fed):
            return nn.functional.cross_entropy(self.model(**fed), labels)

    return Loss(), dict(inputs, labels=torch.zeros(len(next(iter(inputs.values()))), dtype=torch.long), **more)


def pictures(model, rows=8, side=128):
    return model, dict(pixel_values=torch.zeros(rows, 3, side, side), labels=torch.zeros(rows, dtype=torch.long))


def encoder(layers, dropout=0):
    from transformers import RobertaConfig, RobertaForSequenceClassification
    config = RobertaConfig(num_hidden_layers=layers, hidden_size=256, num_attention_heads=4, intermediate_size=1024, vocab_size=8000,
                           hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout, attn_implementation="eager")
    return RobertaForSequenceClassification(config), dict(input_ids=tokens(16, 128), attention_mask=torch.ones(16, 128, dtype=torch.long),
                                                          labels=torch.zeros(16, dtype=torch.long))


def decoder(layers, dropout=0):
    from transformers import GPTNeoXConfig, GPTNeoXForCausalLM
    config = GPTNeoXConfig(num_hidden_layers=layers, hidden_size=256, num_attention_heads=4, intermediate_size=1024, vocab_size=4000, use_cache=False,
                           hidden_dropout=dropout, attention_dropout=dropout, attn_implementation="eager")
    model = GPTNeoXForCausalLM(config)
    model.loss_type = "ForCausalLM"
    return model, dict(input_ids=tokens(8, 256), labels=tokens(8, 256))


def llama(layers):
    from transformers import LlamaConfig, LlamaForCausalLM
    config = LlamaConfig(hidden_size=256, intermediate_size=688, num_hidden_layers=layers, num_attention_heads=8, num_key_value_heads=2,
                         vocab_size=4000, use_cache=False, attn_implementation="eager")
    model = LlamaForCausalLM(config)
    model.loss_type = "ForCausalLM"
    return model, dict(input_ids=tokens(4, 256), labels=tokens(4, 256))


def t5(layers, dropout=0):
    from transformers import T5Config, T5ForConditionalGeneration
    config = T5Config(num_layers=layers, num_decoder_layers=layers, d_model=256, d_kv=64, num_heads=4, d_ff=1024, vocab_size=4000, dropout_rate=dropout,
                      use_cache=False, decoder_start_token_id=0)
    return T5ForConditionalGeneration(config), dict(input_ids=tokens(8, 192), labels=tokens(8, 96))


def whisper(layers):
    from transformers import WhisperConfig, WhisperForConditionalGeneration
    config = WhisperConfig(encoder_layers=layers, decoder_layers=layers, d_model=256, encoder_attention_heads=4, decoder_attention_heads=4,
                           encoder_ffn_dim=1024, decoder_ffn_dim=1024, vocab_size=4000, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                           decoder_start_token_id=1, max_source_positions=400, use_cache=False, attn_implementation="eager", suppress_tokens=None,
                           begin_suppress_tokens=None)
    return WhisperForConditionalGeneration(config), dict(input_features=torch.zeros(4, 80, 800), labels=tokens(4, 100))


def vit(layers, dropout=0):
    from transformers import ViTConfig, ViTForImageClassification
    config = ViTConfig(num_hidden_layers=layers, hidden_size=256, num_attention_heads=4, intermediate_size=1024, image_size=128, patch_size=8,
                       hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout, num_labels=100, attn_implementation="eager")
    return pictures(ViTForImageClassification(config))


def swin():
    from transformers import SwinConfig, SwinForImageClassification
    return pictures(SwinForImageClassification(SwinConfig(image_size=224, embed_dim=48, depths=[2, 2, 6, 2], drop_path_rate=0.0, num_labels=100,
                                                          attn_implementation="eager")), side=224)


def clip(layers):
    from transformers import CLIPConfig, CLIPModel
    text = dict(num_hidden_layers=layers, hidden_size=256, intermediate_size=1024, num_attention_heads=4, vocab_size=4000, max_position_embeddings=64,
                bos_token_id=0, eos_token_id=2)
    vision = dict(num_hidden_layers=layers, hidden_size=256, intermediate_size=1024, num_attention_heads=4, image_size=112, patch_size=8)
    model = CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=128, attn_implementation="eager"))
    return model, dict(input_ids=tokens(16, 64), pixel_values=torch.zeros(16, 3, 112, 112), return_loss=True)


def convnext():
    from transformers import ConvNextConfig, ConvNextForImageClassification
    return pictures(ConvNextForImageClassification(ConvNextConfig(num_labels=100)))


def mobilenet():
    from transformers import MobileNetV2Config, MobileNetV2ForImageClassification
    return pictures(MobileNetV2ForImageClassification(MobileNetV2Config(num_labels=100)), side=224)


def regnet():
    from transformers import RegNetConfig, RegNetForImageClassification
    return pictures(RegNetForImageClassification(RegNetConfig(embedding_size=32, hidden_sizes=[64, 160, 384, 512], depths=[2, 4, 10, 1], groups_width=16,
                                                              num_labels=100)), side=224)


def two_convolutions(inside, outside):
    parts = [[nn.Conv2d(a, outside, 3, padding=1, bias=False), nn.BatchNorm2d(outside), nn.ReLU()] for a in (inside, outside)]
    return nn.Sequential(*parts[0], *parts[1])


class UNet(nn.Module):
    def __init__(self, depth, width):
        super().__init__()
        sizes = [width << i for i in range(depth)]
        self.down = nn.ModuleList(two_convolutions(a, b) for a, b in zip([3] + sizes, sizes))
        self.bottom = two_convolutions(sizes[-1], 2 * sizes[-1])
        self.widen = nn.ModuleList(nn.ConvTranspose2d(2 * size, size, 2, stride=2) for size in reversed(sizes))
        self.up = nn.ModuleList(two_convolutions(2 * size, size) for size in reversed(sizes))
        self.classes = nn.Conv2d(width, 2, 1)

    def forward(self, x, labels):
        skips = []
        for block in self.down:
            x = block(x)
            skips.append(x)
            x = nn.functional.max_pool2d(x, 2)
        x = self.bottom(x)
        for widen, block, skip in zip(self.widen, self.up, reversed(skips)):
            x = block(torch.cat([widen(x), skip], 1))
        return nn.functional.cross_entropy(self.classes(x), labels)


def unet(depth):
    return UNet(depth, 16), dict(x=torch.zeros(4, 3, 256, 256), labels=torch.zeros(4, 256, 256, dtype=torch.long))


class DenseNet(nn.Module):
    def __init__(self, blocks=(6, 12, 24, 16), growth=32):
        super().__init__()
        channels = 2 * growth
        self.stem = nn.Sequential(nn.Conv2d(3, channels, 7, 2, 3, bias=False), nn.BatchNorm2d(channels), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        self.blocks, self.shrink = nn.ModuleList(), nn.ModuleList()
        for layers in blocks:
            block = nn.ModuleList()
            for _ in range(layers):
                block.append(nn.Sequential(nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, 4 * growth, 1, bias=False),
                                           nn.BatchNorm2d(4 * growth), nn.ReLU(), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False)))
                channels += growth
            self.blocks.append(block)
            self.shrink.append(nn.Sequential(nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, channels // 2, 1, bias=False), nn.AvgPool2d(2)))
            channels //= 2
        self.head = nn.Linear(channels, 100)

    def forward(self, x):
        x = self.stem(x)
        for block, shrink in zip(self.blocks, self.shrink):
            for layer in block:
                x = torch.cat([x, layer(x)], 1)
            x = shrink(x)
        return self.head(x.mean((2, 3)))


def densenet():
    return labelled(DenseNet(), dict(x=torch.zeros(8, 3, 224, 224)))


class Unrolled(nn.Module):
    """Cells step by step, each ATen op by itself."""

    def __init__(self, cell, width, layers):
        super().__init__()
        self.words, self.width = nn.Embedding(1000, width), width
        self.cells = nn.ModuleList(cell(width, width) for _ in range(layers))
        self.head = nn.Linear(width, 1000)

    def forward(self, ids):
        states = [None] * len(self.cells)
        x = self.words(ids)
        outputs = []
        for step in range(ids.shape[1]):
            y = x[:, step]
            for i, cell in enumerate(self.cells):
                states[i] = cell(y, states[i])
                y = states[i][0] if isinstance(states[i], tuple) else states[i]
            outputs.append(y)
        return self.head(torch.stack(outputs, 1)).mean(1)


class LongMemory(nn.Module):
    def __init__(self, inside, width):
        super().__init__()
        self.of_input, self.of_state = nn.Linear(inside, 4 * width), nn.Linear(width, 4 * width, bias=False)

    def forward(self, x, state):
        gates = self.of_input(x) if state is None else self.of_input(x) + self.of_state(state[0])
        i, f, g, o = gates.chunk(4, -1)
        kept = 0 if state is None else torch.sigmoid(f) * state[1]
        c = kept + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(c), c


class Gated(nn.Module):
    def __init__(self, inside, width):
        super().__init__()
        self.of_input, self.of_state = nn.Linear(inside, 3 * width), nn.Linear(width, 3 * width)

    def forward(self, x, state):
        if state is None:
            state = torch.zeros_like(x)
        a, b = self.of_input(x).chunk(3, -1), self.of_state(state).chunk(3, -1)
        r, z = torch.sigmoid(a[0] + b[0]), torch.sigmoid(a[1] + b[1])
        return (1 - z) * torch.tanh(a[2] + r * b[2]) + z * state


def lstm(steps, layers=1):
    return labelled(Unrolled(LongMemory, 256, layers), dict(ids=tokens(32, steps)))


def gru(steps, layers=2):
    return labelled(Unrolled(Gated, 256, layers), dict(ids=tokens(32, steps)))


class Mixture(nn.Module):
    """Every expert sees every row; a gate weighs what they say."""

    def __init__(self, layers, width=256, experts=4):
        super().__init__()
        self.words = nn.Embedding(1000, width)
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(layers))
        self.gates = nn.ModuleList(nn.Linear(width, experts) for _ in range(layers))
        self.experts = nn.ModuleList(nn.ModuleList(nn.Sequential(nn.Linear(width, (i + 1) * width), nn.GELU(), nn.Linear((i + 1) * width, width))
                                                   for i in range(experts)) for _ in range(layers))
        self.head = nn.Linear(width, 100)

    def forward(self, ids):
        x = self.words(ids)
        for norm, gate, experts in zip(self.norms, self.gates, self.experts):
            y = norm(x)
            weights = torch.softmax(gate(y), -1)
            x = x + sum(weights[..., i:i + 1] * expert(y) for i, expert in enumerate(experts))
        return self.head(x.mean(1))


def mixture(layers):
    return labelled(Mixture(layers), dict(ids=tokens(16, 128)))


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    here = pathlib.Path(__file__).resolve()
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name in sys.argv[2:] or CASES:
        function, *words = CASES[name].split()
        print(name, end=": ", flush=True)
        subprocess.run([sys.executable, here.parents[1] / "tools/torch_joint_graph.py", f"{here}:{function}", *words, "--plain",
                        "--output", folder / f"{name}.json"], check=True)


if __name__ == "__main__":
    sys.exit(main())

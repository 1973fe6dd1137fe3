"""The models whose training steps compare_pytorch.py times: sizes, the floating-point operations of a step, and Snug's own keys for them.

Operations are those of all matrix products and convolutions of a step, each once: forward (`forward_flops`) and twice that backward, but for
what nothing needs (the gradient of an image).
"""
import dataclasses

VOCAB = 8192
POSITIONS = 512  # rows of DeBERTa's table


@dataclasses.dataclass(frozen=True)
class Encoder:
    layers: int
    width: int
    heads: int
    batch: int
    length: int
    preset: str | None = None  # Snug's own name; else it is given a config.json
    is_deberta: bool = False
    optimizer = "adamw"
    kind = "text"

    def flops(self, batch, length):
        return 3 * self.forward_flops(batch, length)

    def forward_flops(self, batch, length):
        tokens = batch * length
        dense = 2 * tokens * self.layers * 12 * self.width * self.width
        attention = 2 * 2 * batch * self.layers * length * length * self.width
        if self.is_deberta:  # the table is projected, too, and multiplied by queries and keys
            dense += 2 * POSITIONS * self.layers * 2 * self.width * self.width
            attention += 2 * 2 * batch * self.layers * length * POSITIONS * self.width
        return dense + attention


@dataclasses.dataclass(frozen=True)
class Lstm:
    layers: int
    width: int
    batch: int
    length: int
    optimizer = "adamw"
    kind = "text"

    def flops(self, batch, length):
        return 3 * self.forward_flops(batch, length)

    def forward_flops(self, batch, length):
        return length * self.layers * 2 * batch * 4 * self.width * 2 * self.width


@dataclasses.dataclass(frozen=True)
class Resnet:
    """He et al. (2016) for CIFAR: three stages, shortcuts padded with zeros."""
    blocks: int  # a stage
    batch: int
    widths: tuple = (16, 32, 64)
    side: int = 32
    length: int = 1
    optimizer = "sgd"
    kind = "images"

    def flops(self, batch, _):
        return 3 * self.forward_flops(batch, _) - batch * first_convolution(self)

    def forward_flops(self, batch, _):
        rest, before = first_convolution(self), self.widths[0]
        for stage, width in enumerate(self.widths):
            pixels = (self.side >> stage) ** 2
            rest += 2 * pixels * 9 * width * (before + (2 * self.blocks - 1) * width)
            before = width
        return batch * (rest + 2 * self.widths[-1] * 10)


@dataclasses.dataclass(frozen=True)
class Vgg:
    batch: int
    depths: tuple = (2, 2, 3, 3, 3)
    widths: tuple = (64, 128, 256, 512, 512)
    hidden: int = 4096
    side: int = 32
    length: int = 1
    optimizer = "sgd"
    kind = "images"

    def flops(self, batch, _):
        return 3 * self.forward_flops(batch, _) - batch * first_convolution(self)

    def forward_flops(self, batch, _):
        rest, before = 0, 3
        for stage, (depth, width) in enumerate(zip(self.depths, self.widths)):
            rest += 2 * (self.side >> stage) ** 2 * 9 * width * (before + (depth - 1) * width)
            before = width
        features = before * (self.side >> len(self.depths)) ** 2
        rest += 2 * (features * self.hidden + self.hidden**2 + self.hidden * 10)
        return batch * rest


def first_convolution(model):
    """Operations of one image."""
    return 2 * model.side**2 * 3 * model.widths[0] * 9


MODELS = {
    "bert-mini": Encoder(4, 256, 4, 16, 128, "bert-mini"),
    "bert-small": Encoder(4, 512, 8, 16, 128, "bert-small"),
    "bert-base": Encoder(12, 768, 12, 16, 128, "bert-base"),
    "bert-large": Encoder(24, 1024, 16, 4, 512, "bert-large"),
    "minilm": Encoder(6, 384, 12, 256, 32),
    "deberta-v3-small": Encoder(6, 768, 12, 8, 256, is_deberta=True),
    "deberta-v3-base": Encoder(12, 768, 12, 8, 256, is_deberta=True),
    "lstm": Lstm(2, 512, 32, 200),
    "resnet-56": Resnet(9, 64),
    "vgg-16": Vgg(32),
}


def hugging_face_config(model):
    """Its configuration as transformers has it."""
    import transformers
    sizes = dict(hidden_size=model.width, num_hidden_layers=model.layers, num_attention_heads=model.heads, intermediate_size=4 * model.width,
                 num_labels=2)
    if not model.is_deberta:
        return transformers.BertConfig(vocab_size=VOCAB, **sizes)
    return transformers.DebertaV2Config(
        vocab_size=128100, type_vocab_size=0, relative_attention=True, position_buckets=POSITIONS // 2, norm_rel_ebd="layer_norm",
        share_att_key=True, pos_att_type=["p2c", "c2p"], position_biased_input=False, layer_norm_eps=1e-7, **sizes)

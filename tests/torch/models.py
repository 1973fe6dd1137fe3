"""Models with random weights, two layers each: a function gives (module, keyword arguments of its forward). The first result is a loss."""
import torch
from torch import nn
from torch.nn import functional as F


def tokens(batch, length, vocabulary=512):
    return torch.arange(batch * length).reshape(batch, length) * 7919 % vocabulary


def causal(model, batch=4, length=64):
    model.loss_type = "ForCausalLM"
    ids = tokens(batch, length)
    return model, dict(input_ids=ids, labels=ids)


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel
    return causal(GPT2LMHeadModel(GPT2Config(n_layer=2, n_embd=128, n_head=4, vocab_size=512, use_cache=False)))


def llama():
    from transformers import LlamaConfig, LlamaForCausalLM
    return causal(LlamaForCausalLM(LlamaConfig(hidden_size=128, intermediate_size=352, num_hidden_layers=2, num_attention_heads=4,
                                               num_key_value_heads=4, vocab_size=512, use_cache=False)))


def qwen():
    from transformers import Qwen2Config, Qwen2ForCausalLM
    return causal(Qwen2ForCausalLM(Qwen2Config(hidden_size=128, intermediate_size=352, num_hidden_layers=2, num_attention_heads=4,
                                               num_key_value_heads=2, vocab_size=512, use_cache=False)))


def one_label(model):
    model.config.problem_type = "single_label_classification"  # set in the first call otherwise, and the second compiles everything anew
    return model


def classified(model, batch=4, length=64):
    return one_label(model), dict(input_ids=tokens(batch, length), attention_mask=torch.ones(batch, length, dtype=torch.long), labels=torch.arange(batch) % 2)


def bert():
    from transformers import BertConfig, BertForSequenceClassification
    return classified(BertForSequenceClassification(BertConfig(hidden_size=128, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4,
                                                               vocab_size=512)))


def deberta():
    from transformers import DebertaV2Config, DebertaV2ForSequenceClassification
    return classified(DebertaV2ForSequenceClassification(DebertaV2Config(
        hidden_size=128, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4, vocab_size=512, relative_attention=True,
        pos_att_type=["p2c", "c2p"], position_buckets=32, norm_rel_ebd="layer_norm", share_att_key=True)))


def t5():
    from transformers import T5Config, T5ForConditionalGeneration
    model = T5ForConditionalGeneration(T5Config(d_model=128, d_kv=32, d_ff=256, num_layers=2, num_heads=4, vocab_size=512, use_cache=False,
                                                decoder_start_token_id=0))
    return model, dict(input_ids=tokens(4, 48), labels=tokens(4, 32))


def vit():
    from transformers import ViTConfig, ViTForImageClassification
    model = ViTForImageClassification(ViTConfig(hidden_size=128, intermediate_size=512, num_hidden_layers=2, num_attention_heads=4, image_size=64,
                                                patch_size=16, num_labels=10))
    return one_label(model), dict(pixel_values=pictures(8, 3, 64), labels=torch.arange(8) % 10)


def pictures(batch, channels, size):
    return torch.linspace(-1, 1, batch * channels * size * size).reshape(batch, channels, size, size).sin()


def resnet():
    from transformers import ResNetConfig, ResNetForImageClassification
    model = ResNetForImageClassification(ResNetConfig(embedding_size=16, hidden_sizes=[32, 64], depths=[2, 2], num_labels=10))
    return one_label(model), dict(pixel_values=pictures(8, 3, 64), labels=torch.arange(8) % 10)


class Unet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        self.down = nn.ModuleList([self.block(3, width), self.block(width, 2 * width)])
        self.middle = self.block(2 * width, 4 * width)
        self.up = nn.ModuleList([self.block(6 * width, 2 * width), self.block(3 * width, width)])
        self.last = nn.Conv2d(width, 4, 1)

    @staticmethod
    def block(inputs, outputs):
        return nn.Sequential(nn.Conv2d(inputs, outputs, 3, padding=1), nn.GroupNorm(4, outputs), nn.SiLU(), nn.Conv2d(outputs, outputs, 3, padding=1), nn.SiLU())

    def forward(self, x, labels):
        skips = []
        for block in self.down:
            x = block(x)
            skips.append(x)
            x = F.max_pool2d(x, 2)
        x = self.middle(x)
        for block in self.up:
            x = block(torch.cat([F.interpolate(x, scale_factor=2), skips.pop()], 1))
        return F.cross_entropy(self.last(x), labels)


def unet():
    return Unet(), dict(x=pictures(4, 3, 32), labels=tokens(4, 32 * 32, 4).reshape(4, 32, 32))


class Lstm(nn.Module):
    """A loop of cells."""

    def __init__(self, width=64):
        super().__init__()
        self.embedding = nn.Embedding(512, width)
        self.cells = nn.ModuleList(nn.LSTMCell(width, width) for _ in range(2))
        self.head = nn.Linear(width, 2)

    def forward(self, ids, labels):
        x = self.embedding(ids)
        state = [(x.new_zeros(len(x), x.shape[-1]),) * 2 for _ in self.cells]
        for step in range(x.shape[1]):
            value = x[:, step]
            for i, cell in enumerate(self.cells):
                state[i] = cell(value, state[i])
                value = state[i][0]
        return F.cross_entropy(self.head(value), labels)


def lstm():
    return Lstm(), dict(ids=tokens(8, 12), labels=torch.arange(8) % 2)


class Tied(nn.Module):
    def __init__(self, width=96):
        super().__init__()
        self.embedding = nn.Embedding(512, width)
        self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(0.2), nn.Linear(4 * width, width))
                                    for _ in range(2))
        self.head = nn.Linear(width, 512, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, ids):
        x = self.embedding(ids)
        for block in self.blocks:
            x = x + block(x)
        return F.cross_entropy(self.head(x).flatten(0, 1), ids.flatten())


def tied():
    return Tied(), dict(ids=tokens(8, 48))


def lora():
    from peft import LoraConfig, get_peft_model
    model, batch = gpt2()
    return get_peft_model(model, LoraConfig(r=4, target_modules=["c_attn"], fan_in_fan_out=True, lora_dropout=0.1, init_lora_weights=False)), batch


class Autocast(nn.Module):
    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, **batch):
        device = next(self.parameters()).device.type
        with torch.autocast(device, torch.bfloat16):
            return self.module(**batch)


def autocast():
    model, batch = tied()
    return Autocast(model), batch


class Cubed(torch.autograd.Function):
    """With a gradient of its own, which is not that of the forward part."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * x * x


class Custom(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(4))

    def forward(self, x):
        for layer in self.layers:
            x = Cubed.apply(torch.tanh(layer(x)))
        return x.square().mean()


def custom():
    return Custom(), dict(x=pictures(1, 1, 128)[0, 0])


class Broken(nn.Module):
    """Three graphs to torch.compile."""

    def __init__(self, width=64):
        super().__init__()
        self.blocks = nn.ModuleList(nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Dropout(0.1), nn.Linear(4 * width, width)) for _ in range(3))

    def forward(self, x):
        x = x + self.blocks[0](x)
        torch._dynamo.graph_break()
        x = x + self.blocks[1](x)
        torch._dynamo.graph_break()
        return (x + self.blocks[2](x)).square().mean()


def broken():
    return Broken(), dict(x=pictures(1, 4, 64).reshape(256, 64))


MODELS = dict(gpt2=gpt2, llama=llama, qwen=qwen, bert=bert, deberta=deberta, t5=t5, vit=vit, resnet=resnet, unet=unet, lstm=lstm, tied=tied, lora=lora,
              autocast=autocast, custom=custom, broken=broken)

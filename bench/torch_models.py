"""Models at the sizes users have, for bench/torch_budgets.py: (module, keyword arguments of its forward)."""
import torch

import models


def gpt2(layers=12, batch=16, length=512, width=768, vocabulary=50257, dropout=1):
    """`dropout=0`: without, as PyTorch's partitions below 1 need it for right gradients."""
    from transformers import GPT2Config, GPT2LMHeadModel
    rates = {} if dropout else dict(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
    return models.causal(GPT2LMHeadModel(GPT2Config(n_layer=layers, n_embd=width, vocab_size=vocabulary, use_cache=False, **rates)), batch, length)


def llama(layers=32, batch=8, length=512, width=512, vocabulary=8000):
    """That of pytorch#197838. Narrower, it is activations that most bytes are for."""
    from transformers import LlamaConfig, LlamaForCausalLM
    return models.causal(LlamaForCausalLM(LlamaConfig(hidden_size=width, intermediate_size=width * 43 // 16, num_hidden_layers=layers, num_attention_heads=8,
                                                      num_key_value_heads=8, vocab_size=vocabulary, use_cache=False)), batch, length)


def bert(layers=24, batch=32, length=256):
    from transformers import BertConfig, BertForSequenceClassification
    return models.classified(BertForSequenceClassification(BertConfig(hidden_size=1024, intermediate_size=4096, num_hidden_layers=layers,
                                                                      num_attention_heads=16)), batch, length)


def resnet(batch=32):
    from transformers import ResNetConfig, ResNetForImageClassification
    model = ResNetForImageClassification(ResNetConfig(num_labels=1000))
    return model, dict(pixel_values=models.pictures(batch, 3, 224), labels=torch.arange(batch))


LARGE = dict(gpt2=gpt2, llama=llama, bert=bert, resnet=resnet)

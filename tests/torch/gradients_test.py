"""Networks as wide as those that are published: the weights behind one update by their gradient are PyTorch's, in float64.

    python tests/torch/gradients_test.py     in an environment as for exact_test.py

Kernels cut their work by its size, and the sizes of other tests are too small for most cuts.
"""
import pathlib
import tempfile
import unittest
import warnings

import datasets
import numpy as np
import snug
import torch
import transformers
from safetensors.torch import load_file
from snug.layers import conv2d, linear, mean_squared_error
from snug.ops import reshape

import huggingface_test as published
from cases import distance, length

LABELS = list(published.WORDS)
TOKENS = 96
NAMES = dict(id2label=dict(enumerate(LABELS)), label2id={label: i for i, label in enumerate(LABELS)})


def rows(count):
    """Every third is cut at TOKENS, the others are shorter."""
    draw = np.random.default_rng(1)
    every = " ".join(published.WORDS.values()).split()
    lengths = [TOKENS if i % 3 == 0 else int(draw.integers(TOKENS // 4, TOKENS)) for i in range(count)]
    return datasets.Dataset.from_list([{"text": " ".join(draw.choice(every, length)), "label": LABELS[i % 3]} for i, length in enumerate(lengths)])


def configs(size):
    """Two layers as wide as the published ones, without dropout."""
    base = dict(vocab_size=size, hidden_size=768, num_hidden_layers=2, num_attention_heads=12, intermediate_size=3072, max_position_embeddings=512,
                hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, pad_token_id=0, **NAMES)
    yield transformers.BertConfig(**base)
    yield transformers.ElectraConfig(embedding_size=128, **base | dict(hidden_size=256, num_attention_heads=4, intermediate_size=1024))
    yield transformers.AlbertConfig(embedding_size=128, classifier_dropout_prob=0.0, **base)
    yield transformers.RobertaConfig(bos_token_id=2, eos_token_id=3, **base | dict(hidden_size=1024, num_attention_heads=16, intermediate_size=4096, max_position_embeddings=514))
    yield transformers.DistilBertConfig(vocab_size=size, dim=768, n_layers=2, n_heads=12, hidden_dim=3072, dropout=0.0, attention_dropout=0.0, seq_classif_dropout=0.0, pad_token_id=0, **NAMES)
    yield transformers.DebertaV2Config(relative_attention=True, position_buckets=256, norm_rel_ebd="layer_norm", share_att_key=True, pos_att_type=["p2c", "c2p"], max_relative_positions=-1,
                                       position_biased_input=False, pooler_dropout=0.0, pooler_hidden_act="gelu", type_vocab_size=0, **base)
    yield transformers.ModernBertConfig(vocab_size=size, hidden_size=768, num_hidden_layers=4, num_attention_heads=12, intermediate_size=1152, local_attention=32, embedding_dropout=0.0,
                                        mlp_dropout=0.0, attention_dropout=0.0, classifier_dropout=0.0, pad_token_id=0, bos_token_id=2, eos_token_id=3, cls_token_id=2, sep_token_id=3,
                                        attn_implementation="sdpa", **NAMES)


class Gradients(unittest.TestCase):
    def test_of_encoders(self):
        warnings.simplefilter("ignore", snug.Warned)
        torch.manual_seed(3)
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            size = published.published_tokenizer(folder / "tokenizer")
            for config in configs(size):
                with self.subTest(config.model_type):
                    self.check(folder / config.model_type, config)

    def check(self, folder, config):
        model = transformers.AutoModelForSequenceClassification.from_config(config).float()
        model.save_pretrained(folder)
        published.published_tokenizer(folder)
        batch = rows(6)
        snug.train(model=folder, train_file=batch, validation_file=batch, output_dir=folder / "out", memory="8GiB", max_seq_length=TOKENS, train_batch_size=len(batch), max_steps=1,
                   optim="sgd", momentum=0, learning_rate=1.0, lr_scheduler_type="constant", warmup_ratio=0, max_grad_norm=0, weight_decay=0, threads=2)
        before, after = load_file(folder / "model.safetensors"), load_file(folder / "out/last/model.safetensors")
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        encoded = tokenizer(list(batch["text"]), padding=True, truncation=True, max_length=TOKENS, return_tensors="pt")
        if config.model_type in ("distilbert", "modernbert"):
            encoded.pop("token_type_ids", None)
        model.double()(**encoded, labels=torch.tensor([LABELS.index(each) for each in batch["label"]])).loss.backward()
        wanted = {name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None}
        found = [before[name].double() - after[name].double() for name in wanted]
        self.assertLess(distance(found, wanted.values()), 1e-4 * length(wanted.values()))

    def gradients(self, network, x, width):
        """Of a mean squared error, the weights in float64, and what is to be met."""
        session = snug.Session(network, batch_rows=len(x), memory="4GiB", only_gradients=True, threads=2)
        target = np.random.default_rng(2).standard_normal((len(x), width)).astype("f4")
        found = session.gradients({"x": x, "target": target}).of
        weights = {name: torch.tensor(np.array(session.read(name))).double().requires_grad_() for name in found}
        return {name: torch.tensor(np.array(each)).double() for name, each in found.items()}, weights, torch.tensor(target).double()

    def meets(self, found, weights, result, target):
        ((result - target) ** 2).mean().backward()
        for name, weight in weights.items():
            self.assertLess(distance([found[name]], [weight.grad]), 1e-5 * length([weight.grad]), name)

    def test_of_convolutions(self):
        for channels, filters, side, kernel, stride in ((3, 64, 112, 7, 2), (64, 256, 28, 1, 1), (128, 128, 28, 3, 2), (256, 256, 14, 3, 1), (256, 512, 7, 3, 1), (512, 512, 7, 3, 1),
                                                        (512, 512, 2, 3, 1), (512, 2048, 7, 1, 1), (1024, 512, 4, 3, 1), (96, 192, 14, 5, 1)):
            with self.subTest(f"{channels} to {filters} channels, {side} x {side}, kernel {kernel}, stride {stride}"):
                padding = kernel // 2
                places = (side + 2 * padding - kernel) // stride + 1

                @snug.network
                def network(b):
                    x = conv2d("before", b.input("x", [side, side, channels]), channels, kernel=1, padding=0)  # so that there is a gradient of x
                    x = conv2d("it", x, filters, kernel=kernel, stride=stride, padding=padding)
                    b.minimize(mean_squared_error(reshape(x, [b.rows, places * places * filters]), b.input("target", [places * places * filters])))

                x = np.random.default_rng(1).standard_normal((2, side, side, channels)).astype("f4")
                found, weights, target = self.gradients(network, x, places * places * filters)
                image = torch.tensor(x).double().permute(0, 3, 1, 2)
                image = torch.nn.functional.conv2d(image, weights["before.weight"], weights["before.bias"])
                image = torch.nn.functional.conv2d(image, weights["it.weight"], weights["it.bias"], stride=stride, padding=padding)
                self.meets(found, weights, image.permute(0, 2, 3, 1).reshape(len(x), -1), target)

    def test_of_linear_maps(self):
        for count, width, outputs in ((1, 3072, 768), (17, 768, 3072), (257, 1000, 7), (1024, 300, 1), (2000, 1024, 1024), (3, 5001, 64)):
            with self.subTest(f"{count} rows, {width} to {outputs}"):

                @snug.network
                def network(b):
                    b.minimize(mean_squared_error(linear("it", linear("before", b.input("x", [width]), width), outputs), b.input("target", [outputs])))

                x = np.random.default_rng(1).standard_normal((count, width)).astype("f4")
                found, weights, target = self.gradients(network, x, outputs)
                rows = torch.nn.functional.linear(torch.tensor(x).double(), weights["before.weight"], weights["before.bias"])
                self.meets(found, weights, torch.nn.functional.linear(rows, weights["it.weight"], weights["it.bias"]), target)


if __name__ == "__main__":
    unittest.main(verbosity=2)

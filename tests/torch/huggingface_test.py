"""One process with PyTorch, transformers, datasets and Snug, as a notebook has it: rows of a dataset and a tokenizer's folder as
published train without a file written by hand, and transformers loads what comes out: the same logits."""
import pathlib
import tempfile
import unittest
import warnings

import datasets
import numpy as np
import snug
import tokenizers
import torch
import transformers

WORDS = {"animal": "cat dog horse bird fish lion", "food": "bread cheese apple soup rice sugar", "tool": "hammer nail saw drill wrench screw"}


def rows(count, seed):
    draw = np.random.default_rng(seed)
    every = " ".join(WORDS.values()).split()
    found = []
    for _ in range(count):
        label = str(draw.choice(list(WORDS)))
        own = WORDS[label].split()
        words = [str(draw.choice(own if draw.random() < 0.6 else every)) for _ in range(draw.integers(4, 12))]
        found.append({"text": " ".join(words), "label": label})
    return datasets.Dataset.from_list(found)


def published_tokenizer(folder):
    """As transformers writes one."""
    vocabulary = {word: i for i, word in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *" ".join(WORDS.values()).split()])}
    fast = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]"))
    fast.normalizer = tokenizers.normalizers.BertNormalizer()
    fast.pre_tokenizer = tokenizers.pre_tokenizers.BertPreTokenizer()
    fast.post_processor = tokenizers.processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    names = dict(unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]", pad_token="[PAD]", mask_token="[MASK]")
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=fast, model_max_length=16, **names)
    tokenizer.save_pretrained(folder)
    return len(vocabulary)


class HuggingFace(unittest.TestCase):
    def test_a_dataset_and_a_tokenizer_train_and_transformers_has_the_same_logits(self):
        warnings.simplefilter("ignore", snug.Warned)
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            size = published_tokenizer(folder / "tokenizer")
            training, test = rows(240, 1), rows(40, 2)
            self.check(folder, training, test, dict(model="bert-tiny", tokenizer=folder / "tokenizer"))
            # A model's folder as published, with its tokenizer in it.
            config = transformers.BertConfig(vocab_size=size, hidden_size=48, num_hidden_layers=2, num_attention_heads=3, intermediate_size=96, max_position_embeddings=24,
                                             id2label=dict(enumerate(WORDS)), label2id={label: i for i, label in enumerate(WORDS)})
            transformers.BertForSequenceClassification(config).save_pretrained(folder / "model")
            published_tokenizer(folder / "model")
            self.check(folder, training, test, dict(model=folder / "model"))

    def check(self, folder, training, test, model):
        out = folder / f"of-{pathlib.Path(str(model['model'])).name}"
        summary = snug.train(model, train_file=training, validation_file=test, output_dir=out, memory="4GiB", max_seq_length=16, train_batch_size=16,
                             num_train_epochs=6, learning_rate=2e-3, threads=2, seed=1)
        self.assertGreater(summary["final_metrics"]["accuracy"], 0.6)
        predictions = snug.predict(model=out / "best", test_file=test, memory="4GiB", max_seq_length=16)
        loaded = transformers.AutoModelForSequenceClassification.from_pretrained(out / "best").eval()
        tokenizer = transformers.AutoTokenizer.from_pretrained(out / "best")
        with torch.no_grad():
            logits = loaded(**tokenizer(list(test["text"]), padding=True, truncation=True, max_length=16, return_tensors="pt")).logits.double()
        shares = torch.softmax(logits, 1).numpy()
        labels = [loaded.config.id2label[i] for i in range(len(WORDS))]
        ours = np.array([[row["scores"][label] for label in labels] for row in predictions])
        np.testing.assert_allclose(ours, shares, atol=1e-5)
        self.assertEqual([row["label"] for row in predictions], [labels[i] for i in shares.argmax(1)])


if __name__ == "__main__":
    unittest.main()

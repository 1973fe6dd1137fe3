#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes src/text/testdata/pipelines_golden.json: tokenizer.json files of every kind of normalizer, pre-tokenizer, model and
post-processor, and what the `tokenizers` package makes of hard and of random Unicode text with them.

    python3 tools/golden/pipelines.py     (needs the packages `tokenizers` and `sentencepiece`; 0.23.3 and 0.2.3 made the file)

Each holds a small vocabulary that the package learned, pairs cut to several lengths, and a hash of the ids of every 20 texts
of wordpiece_golden.json and of `HARD` below (in full they would take megabytes).
"""
import json
import pathlib
import random
import tempfile

import sentencepiece
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers as N, pre_tokenizers as P, processors as PP, trainers

from wordpiece import OUT, fnv

BLOCK = 20
SPECIAL = ["<s>", "<pad>", "</s>", "<unk>"]
MASK = AddedToken("<mask>", lstrip=True, special=True)
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
HARD = [
    "it's IT'S we'll WE'LL I'd I'D don'ſ don'T 'sa", "a  b   c\n\n d \t e\r\nf   ", "  leading", "trailing  ", "1234567 ١٢٣ ²³ ½ Ⅷ 12ab34",
    "<s>a</s> <mask>  <mask>b <unk> x<pad>", "▁a ▁▁b a▁b ▁", "²\u0301 B\u1ad0 a\u0301\u0323 \u0344 가각 각 क्ष क्\u200dष ㈱ ﬁ Ａ　Ｂ",
    "👩\u200d👩\u200d👧 🇩🇪🇫🇷🇺 👍🏽 ❤\ufe0f\u200d🔥 #\ufe0f\u20e3", "\x00\x01\x7f\x8f\u200b\u200f\ufeff\ufffd", "x" * 700, "ab" * 300, "é" * 300, "\u0301" * 40,
    "\u1c89 \ua7cb \U00010d50 \U000105c0 \U00016d70 \U0002ebf0 \u0897 \U00011de0", "naïve CAFÉ Ǆungla ŉ İi ẞ",
]


def roberta(tokenizer, prefix_space):
    ids = {name: tokenizer.token_to_id(name) for name in SPECIAL}
    tokenizer.post_processor = PP.RobertaProcessing(("</s>", ids["</s>"]), ("<s>", ids["<s>"]), add_prefix_space=prefix_space)


def template(tokenizer):
    ids = [(name, tokenizer.token_to_id(name)) for name in ("<s>", "</s>")]
    single = PP.TemplateProcessing(single="<s> $A </s>", pair="<s> $A </s> $B:1 </s>:1", special_tokens=ids)
    tokenizer.post_processor = PP.Sequence([PP.ByteLevel(trim_offsets=False), single])


def byte_level(texts, splitter, normalizer=None, **options):
    tokenizer = Tokenizer(models.BPE(**options))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = splitter
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=600, special_tokens=SPECIAL + [MASK], initial_alphabet=P.ByteLevel.alphabet(), show_progress=False))
    return tokenizer


def unigram(texts, splitter, normalizer=None, bytes_too=False):
    tokenizer = Tokenizer(models.Unigram())
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = splitter
    special = SPECIAL + ([f"<0x{i:02X}>" for i in range(256)] if bytes_too else [])
    tokenizer.train_from_iterator(texts, trainers.UnigramTrainer(
        vocab_size=1000, special_tokens=special, unk_token="<unk>", show_progress=False))
    if bytes_too:
        file = json.loads(tokenizer.to_str())
        file["model"]["byte_fallback"] = True
        tokenizer = Tokenizer.from_str(json.dumps(file))
    tokenizer.add_special_tokens([MASK])
    return tokenizer


def charsmap():
    """A small one, of sentencepiece's own making: folds, joins and drops."""
    rules = {"A": "a", "B": "b", "²": "2", "ﬁ": "fi", "\u3000": " ", "\t": " ", "\n": " ", "\u200b": "", "a\u0301": "á", "e\u0301": "é",
             "가": "g", "\u1112\u1161": "ha", "㈱": "(株)", "ab": "x"}
    with tempfile.TemporaryDirectory() as folder:
        tsv = pathlib.Path(folder) / "rules.tsv"
        tsv.write_text("".join(" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) + "\n" for a, b in rules.items()))
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(["a b c d e f g"] * 10), model_prefix=f"{folder}/m", vocab_size=12, normalization_rule_tsv=str(tsv),
            hard_vocab_limit=False, minloglevel=2)
        return normalizer_bytes((pathlib.Path(folder) / "m.model").read_bytes())


def normalizer_bytes(model):
    """The field precompiled_charsmap of the field normalizer_spec of a sentencepiece model."""
    def fields(data):
        at = 0

        def varint():
            nonlocal at
            value = shift = 0
            while True:
                byte = data[at]
                at += 1
                value |= (byte & 127) << shift
                shift += 7
                if byte < 128:
                    return value
        while at < len(data):
            key = varint()
            if key & 7 == 0:
                yield key >> 3, varint()
            else:
                size = {1: 8, 5: 4}.get(key & 7) or varint()
                yield key >> 3, data[at:at + size]
                at += size
    spec = next(value for field, value in fields(model) if field == 3)
    return next(value for field, value in fields(spec) if field == 2)


def build(texts):
    plain = [text for text in texts if all(ord(c) < 0x250 for c in text) and "<" not in text]
    yield "roberta", byte_level(texts, P.ByteLevel(add_prefix_space=False)), lambda t: roberta(t, False)
    yield "roberta_words", byte_level(texts, P.ByteLevel(add_prefix_space=True)), lambda t: roberta(t, True)
    modern = byte_level(texts, P.ByteLevel(add_prefix_space=False, use_regex=True), N.NFC())
    modern.add_tokens([AddedToken("  ", normalized=True), AddedToken("|||X|||", normalized=True, special=False)])
    yield "modernbert", modern, template
    for name, pattern, options in (("llama3", LLAMA3, dict(ignore_merges=True)), ("o200k", O200K, {}), ("gpt2", GPT2, {})):
        splitter = P.Sequence([P.Split(Regex(pattern), "isolated"), P.ByteLevel(add_prefix_space=False, use_regex=False)])
        yield name, byte_level(texts, splitter, **options), template
    words = byte_level(texts, P.Sequence([P.Split(Regex(r"\w+|[^\w\s]+"), "removed", invert=True), P.ByteLevel(False, use_regex=False)]))
    yield "word_pattern", words, template
    prefixed = Tokenizer(models.BPE(unk_token="<unk>", continuing_subword_prefix="##", end_of_word_suffix="</w>"))
    prefixed.normalizer = N.Sequence([N.NFKD(), N.StripAccents(), N.Lowercase(), N.Replace(Regex(" {2,}"), " "), N.Replace("a", "b"), N.Strip()])
    prefixed.pre_tokenizer = P.Sequence([P.Whitespace(), P.Digits(individual_digits=True)])
    prefixed.train_from_iterator(plain, trainers.BpeTrainer(
        vocab_size=400, special_tokens=SPECIAL, continuing_subword_prefix="##", end_of_word_suffix="</w>", show_progress=False))
    yield "prefixed", prefixed, template
    for fuses in (True, False):
        llama = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=fuses, fuse_unk=fuses))
        llama.normalizer = N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")])
        llama.train_from_iterator(plain, trainers.BpeTrainer(
            vocab_size=700, special_tokens=SPECIAL + ([f"<0x{i:02X}>" for i in range(256)] if fuses else []), show_progress=False))
        yield f"llama_{'bytes' if fuses else 'unknown'}", llama, template
    xlmr = N.Sequence([N.Precompiled(charsmap()), N.Replace(Regex(" {2,}"), " ")])
    yield "xlmr", unigram(plain, P.Sequence([P.WhitespaceSplit(), P.Metaspace()]), xlmr), lambda t: roberta(t, True)
    yield "metaspace_first", unigram(plain, P.Metaspace(prepend_scheme="first"), bytes_too=True), template
    yield "metaspace_never", unigram(plain, P.Metaspace(prepend_scheme="never", split=False), N.Sequence([N.Nmt(), N.NFKC()])), template
    for i, splitter in enumerate([
            P.Sequence([P.Punctuation(behavior="merged_with_previous"), P.Digits()]),
            P.Sequence([P.Digits(), P.Punctuation(behavior="contiguous"), P.Split("e", "merged_with_next")]),
            P.Sequence([P.Split("e", "merged_with_previous"), P.Split("ee", "contiguous", invert=True)]),
            P.Sequence([P.Punctuation("merged_with_next"), P.Split(" ", "removed"), P.BertPreTokenizer()])]):
        yield f"splits_{i}", unigram(plain, splitter, N.NFD()), template


def main():
    texts = json.loads((OUT / "wordpiece_golden.json").read_text())["texts"]
    inputs = HARD + texts
    cases = {}
    for name, tokenizer, finish in build([text for text in inputs if len(text) < 300]):
        finish(tokenizer)
        rows = [tokenizer.encode(text).ids for text in inputs]
        blocks = [rows[i:i + BLOCK] for i in range(0, len(rows), BLOCK)]
        pairs = []
        for a, b in [("a b a b", "a"), ("a", "b b b b"), ("a b b", "a a a a a"), ("", ""), ("a b", None)]:
            for length in (6, 7, 8, 64):
                tokenizer.enable_truncation(length)
                encoding = tokenizer.encode(a, b)
                pairs.append(dict(text=a, pair=b, length=length, ids=encoding.ids, type_ids=encoding.type_ids))
        tokenizer.no_truncation()
        cases[name] = dict(file=json.loads(tokenizer.to_str()), pairs=pairs,
                           hashes=[fnv(";".join(",".join(map(str, row)) for row in block).encode(), 32) for block in blocks])
    value = dict(block=BLOCK, hard=HARD, cases=cases)
    (OUT / "pipelines_golden.json").write_text(json.dumps(value, ensure_ascii=True, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes src/text/testdata: what the `tokenizers` package makes of hard and of random Unicode text.

    python3 tools/golden/wordpiece.py        (needs the package `tokenizers`; 0.23.3 made the files in the repository)

wordpiece_golden.json holds the vocabulary, the inputs and, for each variant of the normaliser, a hash of the ids of each
input (in full they would take a megabyte); and hashes of what becomes of every code point there is;
package_tokenizer.json is a tokenizer.json as the package writes it, with added tokens of every kind;
package_golden.json holds its ids, and pairs cut to several lengths.
"""
import json
import pathlib
import random

from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers, processors

OUT = pathlib.Path(__file__).resolve().parents[2] / "src/text/testdata"
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VARIANTS = {
    "uncased": dict(clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=True),
    "cased": dict(clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=False),
    "lower_with_accents": dict(clean_text=True, handle_chinese_chars=True, strip_accents=False, lowercase=True),
    "cased_without_accents": dict(clean_text=True, handle_chinese_chars=False, strip_accents=True, lowercase=False),
    "as_is": dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False),
}

HARD = [
    "", " ", "Hello, World!", "don't stop-me; it's 3.14% (of $5) a_b <x> ^y^ `z` | ~ + =",
    "unaffable UNAFFABLE un aff able", "中文字符 mixed中文text 𠀀𪜀𫝀𫠠", "\uf900\ufa11 \U0002f800 豈",
    "한국어 조선말 각각 가나다", "ひらがな カタカナ ガギグ ヷ", "é è ê ë e\u0301 e\u0300\u0323 E\u0301\u0323\u0301",
    "q\u0307\u0323 q\u0323\u0307 \u1e69 \u1e63\u0307 \u0344 a\u0345\u0301", "👩\u200d👩\u200d👧\u200d👦 👍🏽 🇩🇪 ☺\ufe0f",
    "שלום עולם שָׁלוֹם", "مرحبا بالعالم مُحَمَّد", "a\u0000b\u0001c\u007fd\u0080e\u0085f\u009fg", "tab\there\nnew\rline\x0bvt\x0cff",
    "soft\u00adhyphen zero\u200bwidth\u200cjoin\u200der word\u2060joiner \ufeffbom", "\ufffd replacement\ufffdchar",
    "x" * 100, "x" * 101, "ab " + "é" * 100 + " b", "e\u0301" * 120, "İstanbul ISPARTA ıspanak İİ I\u0307",
    "Straße STRASSE ẞ ﬁne ﬂow", "no\u00a0break\u202fnarrow\u3000ideographic\u2003em\u1680ogham\u2028line\u2029para",
    "\ud7ff\ue000 \uffff \ufffe \U0010ffff \U0001f600 \U000e0041", "ภาษาไทย น้ำ กำ", "हिन्दी नमस्ते क़ ज़ ड़", "தமிழ் ஸ்ரீ కొ ಕೊ",
    "[CLS] a [MASK] b [SEP]", "a[MASK]b [mask] [MASK [[MASK]] [UNK][PAD]", "ΑΣΑΣ Σ ὈΔΥΣΣΕΎΣ ᾳ ᾈ Ω Å K",
    "DŽ Dž dž ǅ ǈ Ǳ", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢 𝐀𝐛 \U0001d15e\U0001d165\U0001d16e", "Ⅷ ⓐ Ⓐ ½ ² ㎏ ﷺ", "“quotes” ‘single’ «guillemets» ‹a› – — … ‽ ¿¡ 。、「」！？",
    "\u166d \U000111c9 \u1734 \u1885 \u1886 \ua9bd \u08e2 \u0890 \U000110cd \U00011938 \u2e43 \u2e4f \u061d",
    "Ꮳ ꭰ Ა ა \ua7ae \ua7cb \ua7cc \ua7da \ua7dc \u1c89 \U00010d50 \U00016ea0 \U00010400 \U0001e900 \u2c2f",
    "mixed Ünïcödé 한글 中 🙂 e\u0301 [SEP] ##b #b a##b", "\u0301leading \u0301 \u0903\u0301 \u0300\u0000\u0323a", "a\u0315\u0300\u05ae\u0062 b\u0f71\u0f72\u0f74",
    "\u1715\u0345 \U0001d166\U0001d167 \u302e\u302f\u302a \ua8e0\u0345", "\u212b \u2126 \u2000 \u0374 \u037e \u0387 \u0958 \ufb1d \ufb4e",
]


def random_text(rng):
    """Characters of every kind, denser where the rules are."""
    ranges = [(0x20, 0x7E, 6), (0, 0x2FF, 3), (0x300, 0x36F, 3), (0x370, 0x58F, 2), (0x590, 0x8FF, 2), (0x900, 0xDFF, 2),
              (0xE00, 0x17FF, 2), (0x1800, 0x1DFF, 2), (0x1E00, 0x206F, 3), (0x2070, 0x2FFF, 2), (0x3000, 0x4DFF, 2),
              (0x4E00, 0xD7FF, 2), (0xA640, 0xABFF, 2), (0xE000, 0xFFFF, 2), (0x10000, 0x11FFF, 2), (0x12000, 0x1FFFF, 2),
              (0x20000, 0x323AF, 1), (0xE0000, 0xE01EF, 1), (0xF0000, 0x10FFFF, 1)]
    weights = [r[2] for r in ranges]
    text = ""
    for low, high, _ in rng.choices(ranges, weights, k=rng.randint(1, 14)):
        text += "".join(chr(rng.randint(low, high)) for _ in range(rng.randint(1, 3)))
        if rng.random() < 0.15:
            text += " "
    return "".join(c for c in text if not 0xD800 <= ord(c) <= 0xDFFF)


def build(vocabulary, options):
    tokenizer = Tokenizer(models.WordPiece({t: i for i, t in enumerate(vocabulary)}, unk_token="[UNK]",
                                           max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(**options)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS]:0 $A:0 [SEP]:0", pair="[CLS]:0 $A:0 [SEP]:0 $B:1 [SEP]:1",
        special_tokens=[("[CLS]", vocabulary.index("[CLS]")), ("[SEP]", vocabulary.index("[SEP]"))])
    tokenizer.add_special_tokens(SPECIAL)
    return tokenizer


def fnv(data, bits):
    prime, value = (0x01000193, 0x811C9DC5) if bits == 32 else (0x100000001B3, 0xCBF29CE484222325)
    for byte in data:
        value = ((value ^ byte) * prime) & ((1 << bits) - 1)
    return value


def words_of(text, options):
    """The words of a text, as the package normalises and splits it."""
    normalized = normalizers.BertNormalizer(**options).normalize_str(text)
    return [word for word, _ in pre_tokenizers.BertPreTokenizer().pre_tokenize_str(normalized)]


def learn_vocabulary(texts):
    """Every character that any variant leaves, at the start and inside of words, and some longer pieces."""
    rng = random.Random(7)
    short, long = {}, {}
    for options in VARIANTS.values():
        for text in texts:
            for word in words_of(text, options):
                for i in range(len(word)):
                    prefix = "##" if i else ""
                    short[prefix + word[i]] = long[prefix + word[i:i + 2]] = long[prefix + word[i:i + 3]] = True
    pieces = rng.sample(sorted(short), int(0.97 * len(short))) + rng.sample(sorted(long), 500)
    pieces += ["un", "##aff", "##able", "hello", "world", "##b", "#", "x" * 100]
    return SPECIAL + [piece for piece in dict.fromkeys(pieces) if piece not in SPECIAL]


def code_points(options):
    """For each 4096 code points: a hash of the words of 'x' + c + 'y' for all of them."""
    hashes = []
    for block in range(0, 0x110000, 4096):
        chars = [chr(c) for c in range(block, block + 4096) if not 0xD800 <= c <= 0xDFFF]
        words = words_of("".join("x" + c + "y " for c in chars), options)
        hashes.append("%016x" % fnv("|".join(words).encode(), 64))
    return hashes


def main():
    rng = random.Random(1)
    pool = sorted(set("".join(random_text(rng) for _ in range(60)) + "".join(HARD)))
    texts = list(HARD)
    for _ in range(1500):
        texts.append("".join(rng.choices(pool, k=rng.randint(1, 12))))
    vocabulary = learn_vocabulary(texts)
    hashes = {}
    for name, options in VARIANTS.items():
        tokenizer = build(vocabulary, options)
        ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
        hashes[name] = [fnv(",".join(map(str, row)).encode(), 32) for row in ids]
        if name == "uncased":
            hard_ids = ids[:len(HARD)]
    write("wordpiece_golden.json", dict(
        vocabulary=vocabulary, variants=VARIANTS, texts=texts, hard_ids=hard_ids, id_hashes=hashes,
        code_points={name: code_points(VARIANTS[name]) for name in ("uncased", "lower_with_accents", "as_is")}))

    small = SPECIAL + ["a", "b", "##b", "##a", "c", "hello", "##s", "qx", "é", "e", "[", "]", "mask", "z"]
    tokenizer = build(small, dict(clean_text=True, handle_chinese_chars=True, strip_accents=None, lowercase=True))
    tokenizer.add_tokens(["zz", AddedToken("Qx", single_word=True), AddedToken("<left>", lstrip=True, normalized=False),
                          AddedToken("<right>", rstrip=True, normalized=False), AddedToken("<r", normalized=False),
                          AddedToken("[NEW]", special=True, normalized=False)])
    tokenizer.save(str(OUT / "package_tokenizer.json"))
    plain = ["a b", "azzb AZZ zzz zzzz", "qx QX aqx qxb q.x qx.", "a  <left>  b", "a \u3000<left><left> <right> \t<right>c", "<r <ri<right>b",
             "[NEW][new][MASK]", "hello hellos éa e\u0301a", "", "ab" * 30, "Qx\u0301 \u0301qx \u0903qx qx_ qx7 qx-7", " <left>", "<right> "]
    pairs = []
    for a, b in [("a b a b", "a"), ("a", "b b b b"), ("a b b", "a a a a a"), ("a b b b b", "a a a"), ("", ""), ("a b", None), ("a b a b a b", None)]:
        for length in (3, 4, 5, 6, 7, 8, 64):
            tokenizer.enable_truncation(length)
            encoding = tokenizer.encode(a, b)
            pairs.append(dict(text=a, pair=b, length=length, ids=encoding.ids, type_ids=encoding.type_ids))
    tokenizer.no_truncation()
    write("package_golden.json", dict(texts=plain, ids=[tokenizer.encode(t, add_special_tokens=False).ids for t in plain], pairs=pairs))


def write(name, value):
    (OUT / name).write_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()

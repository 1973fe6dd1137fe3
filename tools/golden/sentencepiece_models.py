#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes src/text/testdata/{,bpe/}{spm.model,sentencepiece.bpe.model}, spiece.model and sentencepiece_golden.json: small Unigram and BPE models, and
hashes of the ids that the `sentencepiece` package makes of the texts of pipelines_golden.json and wordpiece_golden.json, 20 at a time; of
spiece.model those of transformers' AlbertTokenizer, where sentencepiece under ALBERT's own normalisation agrees.

    python3 tools/golden/sentencepiece_models.py        (needs the packages `sentencepiece` and `transformers`; 0.2.3 and 5.23 made the files in the repository)
"""
import json
import pathlib
import tempfile
import unicodedata

import sentencepiece
import transformers
from sentencepiece import sentencepiece_model_pb2
from transformers.convert_slow_tokenizer import check_number_comma

from wordpiece import OUT, fnv

BLOCK = 20
DEBERTA = dict(pad_id=0, bos_id=1, eos_id=2, unk_id=3, pad_piece="[PAD]", bos_piece="[CLS]", eos_piece="[SEP]", unk_piece="[UNK]",
               byte_fallback=True, user_defined_symbols=["<sep>", "ab"])
ALBERT = dict(pad_id=0, unk_id=1, bos_id=-1, eos_id=-1, pad_piece="<pad>", unk_piece="<unk>", control_symbols=["[CLS]", "[SEP]", "[MASK]"])
NUMBERS = ["10,000 and 3,500 in 1990, 2000, 1,2", "Of 1990, ``10,000'' were 3,5", "20,000, 3, 500", "1990,", " 0, (1,000) ", "Caf\u00e9 \u00b2, 2,"]
RULES = {"A": "a", "²": "2", "ﬁ": "fi", "\u3000": " ", "\t": " ", "\n": " ", "\u200b": "", "e\u0301": "é", "가": "g"}


def with_unused(model):
    """Pieces that only serve to make others."""
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    for piece in [piece for piece in proto.pieces if piece.type == piece.NORMAL and len(piece.piece) > 1][::7]:
        piece.type = piece.UNUSED
    return proto.SerializeToString()


def encode_albert(processor, text):
    """ALBERT's own tokenizer: its normalisation, and a number of a piece of its own before a comma."""
    text = " ".join(text.strip().split()).replace("``", '"').replace("''", '"')
    text = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c)).lower()
    ids = []
    for piece in processor.encode(text, out_type=str):
        if len(piece) > 1 and piece.endswith(",") and piece[-2].isdigit():
            parts = processor.encode(piece[:-1].replace("\u2581", ""), out_type=str)
            if piece[0] != "\u2581" and parts[0][0] == "\u2581":
                parts = parts[1:] if len(parts[0]) == 1 else [parts[0][1:], *parts[1:]]
            ids += [processor.piece_to_id(part) for part in [*parts, ","]]
        else:
            ids.append(processor.piece_to_id(piece))
    return ids


def albert_tokenizer(model):
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    return transformers.AlbertTokenizer(
        vocab=[(piece.piece, piece.score if check_number_comma(piece.piece) else piece.score - 100) for piece in proto.pieces],
        _spm_precompiled_charsmap=proto.normalizer_spec.precompiled_charsmap)


def main():
    hard = json.loads((OUT / "pipelines_golden.json").read_text())["hard"]
    texts = hard + json.loads((OUT / "wordpiece_golden.json").read_text())["texts"]
    plain = [text.replace("\n", " ") for text in texts if text.strip() and all(0 < ord(c) < 0x250 for c in text)] * 3
    golden = {}
    (OUT / "bpe").mkdir(exist_ok=True)
    bpe = dict(model_type="bpe")
    for name, options in {"spm.model": DEBERTA, "sentencepiece.bpe.model": {}, "bpe/spm.model": DEBERTA | bpe,
                          "bpe/sentencepiece.bpe.model": bpe, "spiece.model": ALBERT}.items():
        is_deberta = name.endswith("spm.model")
        is_albert = name == "spiece.model"
        with tempfile.TemporaryDirectory() as folder:
            tsv = pathlib.Path(folder) / "rules.tsv"
            tsv.write_text("".join(" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) + "\n" for a, b in RULES.items()))
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(plain + NUMBERS * 40 * is_albert), model_prefix=f"{folder}/m", vocab_size=700, normalization_rule_tsv=str(tsv),
                hard_vocab_limit=False, minloglevel=2, num_threads=1, **options)
            model = (pathlib.Path(folder) / "m.model").read_bytes()
        if "model_type" in options:
            model = with_unused(model)
        (OUT / name).write_bytes(model)
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        special = ["[CLS]", "[SEP]", "[PAD]", "[UNK]", "[MASK]"] if is_deberta else ["<s>", "</s>", "<unk>", "<pad>", "<mask>"]
        kept = [i for i, text in enumerate(texts) if not any(token in text for token in special)]
        if is_albert:  # sums in float or double cut a few texts elsewhere, and Unicode's versions differ
            tokenizer = albert_tokenizer(model)
            ids_of = {i: tokenizer.encode(texts[i], add_special_tokens=False) for i in range(len(texts))}
            kept = [i for i in ids_of if ids_of[i] == encode_albert(processor, texts[i])]
            assert len(kept) > 0.95 * len(texts)
        rows = [ids_of[i] if is_albert else processor.encode(texts[i]) for i in kept]
        if not is_deberta and not is_albert:  # XLM-R's ids, which are fairseq's
            rows = [[3 if i == 0 else i + 1 for i in row] for row in rows]
        blocks = [rows[i:i + BLOCK] for i in range(0, len(rows), BLOCK)]
        golden[name] = dict(texts=kept, hashes=[fnv(";".join(",".join(map(str, row)) for row in block).encode(), 32) for block in blocks])
        if is_albert:
            golden[name]["numbers"] = [[text, encode_albert(processor, text)] for text in NUMBERS]
            assert all(tokenizer.encode(text, add_special_tokens=False) == ids for text, ids in golden[name]["numbers"])
    (OUT / "sentencepiece_golden.json").write_text(json.dumps(dict(models=golden), separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()

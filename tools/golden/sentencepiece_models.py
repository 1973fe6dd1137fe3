#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes src/text/testdata/{,bpe/}{spm.model,sentencepiece.bpe.model} and sentencepiece_golden.json: small Unigram and BPE models, and hashes of the
ids that the `sentencepiece` package makes of the texts of pipelines_golden.json and wordpiece_golden.json, 20 at a time.

    python3 tools/golden/sentencepiece_models.py        (needs the package `sentencepiece`; 0.2.3 made the files in the repository)
"""
import json
import pathlib
import tempfile

import sentencepiece
from sentencepiece import sentencepiece_model_pb2

from wordpiece import OUT, fnv

BLOCK = 20
DEBERTA = dict(pad_id=0, bos_id=1, eos_id=2, unk_id=3, pad_piece="[PAD]", bos_piece="[CLS]", eos_piece="[SEP]", unk_piece="[UNK]",
               byte_fallback=True, user_defined_symbols=["<sep>", "ab"])
RULES = {"A": "a", "²": "2", "ﬁ": "fi", "\u3000": " ", "\t": " ", "\n": " ", "\u200b": "", "e\u0301": "é", "가": "g"}


def with_unused(model):
    """Pieces that only serve to make others."""
    proto = sentencepiece_model_pb2.ModelProto.FromString(model)
    for piece in [piece for piece in proto.pieces if piece.type == piece.NORMAL and len(piece.piece) > 1][::7]:
        piece.type = piece.UNUSED
    return proto.SerializeToString()


def main():
    hard = json.loads((OUT / "pipelines_golden.json").read_text())["hard"]
    texts = hard + json.loads((OUT / "wordpiece_golden.json").read_text())["texts"]
    plain = [text.replace("\n", " ") for text in texts if text.strip() and all(0 < ord(c) < 0x250 for c in text)] * 3
    golden = {}
    (OUT / "bpe").mkdir(exist_ok=True)
    bpe = dict(model_type="bpe")
    for name, options in {"spm.model": DEBERTA, "sentencepiece.bpe.model": {}, "bpe/spm.model": DEBERTA | bpe,
                          "bpe/sentencepiece.bpe.model": bpe}.items():
        is_deberta = name.endswith("spm.model")
        with tempfile.TemporaryDirectory() as folder:
            tsv = pathlib.Path(folder) / "rules.tsv"
            tsv.write_text("".join(" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) + "\n" for a, b in RULES.items()))
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(plain), model_prefix=f"{folder}/m", vocab_size=700, normalization_rule_tsv=str(tsv),
                hard_vocab_limit=False, minloglevel=2, num_threads=1, **options)
            model = (pathlib.Path(folder) / "m.model").read_bytes()
        if "model_type" in options:
            model = with_unused(model)
        (OUT / name).write_bytes(model)
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        special = ["[CLS]", "[SEP]", "[PAD]", "[UNK]", "[MASK]"] if is_deberta else ["<s>", "</s>", "<unk>", "<pad>", "<mask>"]
        kept = [i for i, text in enumerate(texts) if not any(token in text for token in special)]
        rows = [processor.encode(texts[i]) for i in kept]
        if not is_deberta:  # XLM-R's ids, which are fairseq's
            rows = [[3 if i == 0 else i + 1 for i in row] for row in rows]
        blocks = [rows[i:i + BLOCK] for i in range(0, len(rows), BLOCK)]
        golden[name] = dict(texts=kept, hashes=[fnv(";".join(",".join(map(str, row)) for row in block).encode(), 32) for block in blocks])
    (OUT / "sentencepiece_golden.json").write_text(json.dumps(dict(block=BLOCK, models=golden), separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()

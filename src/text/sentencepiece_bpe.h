// SPDX-License-Identifier: Apache-2.0
// BPE as the `sentencepiece` package does it: neighbours whose texts together are a piece become
// it, the greatest score first (of equal ones the leftmost), over a whole text at once.
#pragma once

#include <memory>
#include <span>

#include "text/unigram_model.h"
#include "text/word_model.h"

namespace snug::text {

/// `vocabulary` must outlive the model.
[[nodiscard]] std::unique_ptr<const WordModel> make_sentencepiece_bpe(
    const TokenTable& vocabulary, std::span<const float> scores, std::span<const PieceKind> kinds,
    UnigramOptions options);

}  // namespace snug::text

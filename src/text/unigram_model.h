// SPDX-License-Identifier: Apache-2.0
// Unigram: of all ways to cut a word into pieces the one with the greatest sum of scores.
#pragma once

#include <cstdint>
#include <span>

#include "text/word_model.h"

namespace snug::text {

enum class PieceKind : uint8_t { normal, unknown, control, user_defined, unused, byte };

struct UnigramOptions {
  int32_t unk = -1;
  bool byte_fallback = false;
};

/// As in `tokenizers`: every token of the vocabulary is a piece, scores are added in double.
/// `vocabulary` must outlive the model.
[[nodiscard]] std::unique_ptr<const WordModel> make_unigram(const TokenTable& vocabulary,
                                                            std::vector<double> scores,
                                                            UnigramOptions options);

/// As in `sentencepiece`: pieces have kinds, scores are added in float.
[[nodiscard]] std::unique_ptr<const WordModel> make_sentencepiece_unigram(
    const TokenTable& vocabulary, std::span<const float> scores, std::span<const PieceKind> kinds,
    UnigramOptions options);

}  // namespace snug::text

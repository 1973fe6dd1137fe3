// SPDX-License-Identifier: Apache-2.0
// WordPiece: the longest piece first, as in `tokenizers`.
#pragma once

#include <string>

#include "text/word_model.h"

namespace snug::text {

struct WordPieceOptions {
  std::string prefix = "##";  ///< of pieces that continue a word
  int64_t max_input_chars_per_word = 100;
  int32_t unk = -1;
};

/// `vocabulary` must outlive the model.
[[nodiscard]] std::unique_ptr<const WordModel> make_wordpiece(const TokenTable& vocabulary,
                                                              WordPieceOptions options);

}  // namespace snug::text

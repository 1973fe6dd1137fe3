// SPDX-License-Identifier: Apache-2.0
// What a sentencepiece model's file says: pieces and how texts are normalised before.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/unigram_model.h"

namespace snug::text {

/// Texts lie in the file's bytes.
struct SentencePieceModel {
  struct Piece {
    std::string_view text;
    float score = 0;
    PieceKind kind = PieceKind::normal;
  };
  std::vector<Piece> pieces;
  std::string_view charsmap;
  bool is_bpe = false;  ///< else Unigram
  bool byte_fallback = false;
  bool add_dummy_prefix = true, remove_extra_whitespaces = true, escape_whitespaces = true;
};

/// Throws Error{bad_data} for what is no such file, Error{unsupported} for a model that is neither
/// Unigram nor BPE or puts the sign of a space behind words. `where` names it.
[[nodiscard]] SentencePieceModel read_sentencepiece_model(std::string_view bytes,
                                                          const std::string& where);

/// Throws Error{unsupported}: `what` of a sentencepiece model is not read; tokenizer.json would be.
[[noreturn]] void refuse_sentencepiece(const std::string& where, const std::string& what);

}  // namespace snug::text

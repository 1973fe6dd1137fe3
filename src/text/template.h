// SPDX-License-Identifier: Apache-2.0
// The post-processor of a tokenizer.json: which tokens stand around a text or a pair, and the type
// ids.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/json_file.h"
#include "text/tokenizer_spec.h"

namespace snug::text {

struct Template {
  struct Piece {
    enum class Kind : uint8_t { token, first, second } kind;
    int32_t id = -1;  // of a token
    int32_t type_id = 0;
  };
  std::vector<Piece> single, pair;

  /// How many tokens stand around the texts.
  [[nodiscard]] static int64_t around(const std::vector<Piece>& pieces) {
    return static_cast<int64_t>(pieces.size()) - count_texts(pieces);
  }

 private:
  static int64_t count_texts(const std::vector<Piece>& pieces) {
    int64_t texts = 0;
    for (const Piece& piece : pieces) texts += piece.kind != Piece::Kind::token;
    return texts;
  }
};

/// Reads the value of "post_processor" against the tokens of the spec.
[[nodiscard]] Template read_template(const std::optional<io::JsonValue>& value,
                                     const TokenizerSpec& spec);

}  // namespace snug::text

// SPDX-License-Identifier: Apache-2.0
// The tokens <0x00> to <0xFF>, which stand for the bytes of what is unknown.
#pragma once

#include <algorithm>
#include <array>
#include <string_view>

#include "base/numbers.h"
#include "text/token_table.h"

namespace snug::text {

class BytePieces {
 public:
  explicit BytePieces(const TokenTable& vocabulary) {
    for (unsigned byte = 0; byte < 256; ++byte) {
      ids_[byte] = vocabulary.find("<0x" + hex_text(byte, 2, /*in_capitals=*/true) + ">");
    }
  }
  /// -1 where the vocabulary has none.
  [[nodiscard]] int32_t id(char byte) const { return ids_[static_cast<unsigned char>(byte)]; }
  [[nodiscard]] bool has_every_byte() const {
    return std::all_of(ids_.begin(), ids_.end(), [](int32_t id) { return id >= 0; });
  }
  [[nodiscard]] bool has_all(std::string_view text) const {
    return std::all_of(text.begin(), text.end(), [&](char byte) { return id(byte) >= 0; });
  }

 private:
  std::array<int32_t, 256> ids_{};
};

}  // namespace snug::text

// SPDX-License-Identifier: Apache-2.0
// GPT-2's alphabet: every byte as a visible character below U+0144.
#pragma once

#include <string>

namespace snug::text {

/// '!' to '~' and the visible half of Latin-1 are themselves; the others follow U+0100 in order.
[[nodiscard]] constexpr char32_t byte_character(unsigned char byte) {
  const auto is_visible = [](unsigned b) {
    return (b >= 0x21 && b <= 0x7E) || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
  };
  if (is_visible(byte)) return byte;
  char32_t place = 0x100;
  for (unsigned b = 0; b < byte; ++b) place += is_visible(b) ? 0 : 1;
  return place;
}

inline void append_byte_character(unsigned char byte, std::string& out) {
  static constexpr auto kCharacters = [] {
    struct {
      char32_t of[256];
    } table{};
    for (unsigned b = 0; b < 256; ++b) table.of[b] = byte_character(static_cast<unsigned char>(b));
    return table;
  }();
  const char32_t c = kCharacters.of[byte];
  if (c < 0x80) {
    out.push_back(static_cast<char>(c));
  } else {
    out.push_back(static_cast<char>(0xC0 | c >> 6));
    out.push_back(static_cast<char>(0x80 | (c & 0x3F)));
  }
}

}  // namespace snug::text

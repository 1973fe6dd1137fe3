// SPDX-License-Identifier: Apache-2.0
// UTF-8 validation, after the table of well-formed byte sequences (Unicode standard, table 3-7).
#include "base/utf8.h"

#include <cstdint>
#include <cstring>

namespace snug {
namespace {

bool is_continuation(unsigned char byte) { return (byte & 0xC0u) == 0x80u; }

// Length of the well-formed sequence at `text`, which has `left` bytes; 0 where there is none.
size_t sequence_length(const unsigned char* text, size_t left) {
  const unsigned char lead = text[0];
  if (lead < 0x80) return 1;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (left < length) return 0;
  // The second byte carries the limits that rule out overlong forms, surrogates and values that are
  // too large.
  const unsigned char low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned char high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  if (text[1] < low || text[1] > high) return 0;
  for (size_t i = 2; i < length; ++i) {
    if (!is_continuation(text[i])) return 0;
  }
  return length;
}

}  // namespace

std::optional<size_t> first_invalid_utf8(std::string_view text) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(text.data());
  size_t at = 0;
  while (at < text.size()) {
    uint64_t word = 0;
    if (text.size() - at >= sizeof(word)) {
      std::memcpy(&word, bytes + at, sizeof(word));
      if ((word & 0x8080808080808080u) == 0) {
        at += sizeof(word);
        continue;
      }
    }
    const size_t length = sequence_length(bytes + at, text.size() - at);
    if (length == 0) return at;
    at += length;
  }
  return std::nullopt;
}

std::string clip_text(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return std::string(text);
  size_t end = max_bytes;
  while (end > 0 && is_continuation(static_cast<unsigned char>(text[end]))) --end;
  return std::string(text.substr(0, end)) + "...";
}

}  // namespace snug

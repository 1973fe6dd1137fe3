// SPDX-License-Identifier: Apache-2.0
// A unit of the double array: bits 0..7 the byte that leads to it (bit 31 set: it is a value, in
// bits 0..30), bit 8 whether a rule ends here, bits 9..31 the offset of its children, times 256
// where bit 9 is set.
#include "text/charsmap.h"

#include <algorithm>

#include "snug/error.h"
#include "text/unicode_rules.h"

namespace snug::text {
namespace {

constexpr size_t kHeadBytes = 4;
constexpr size_t kUnitBytes = 4;

uint32_t read_u32(const char* bytes) {
  uint32_t value = 0;
  for (int i = 3; i >= 0; --i) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

size_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); }

}  // namespace

Charsmap::Charsmap(std::string blob, const std::string& where) : blob_(std::move(blob)) {
  if (blob_.empty()) return;
  const size_t trie_bytes = blob_.size() < kHeadBytes ? 0 : read_u32(blob_.data());
  if (trie_bytes < kUnitBytes || trie_bytes % kUnitBytes != 0 ||
      trie_bytes >= blob_.size() - kHeadBytes) {
    throw Error(ErrorCode::bad_data, where,
                "precompiled_charsmap is broken: a trie of " + std::to_string(trie_bytes) +
                    " bytes in " + std::to_string(blob_.size()),
                "get the file again");
  }
  units_ = trie_bytes / kUnitBytes;
  // What is not UTF-8 would go unchecked into tokens.
  check_utf8(std::string_view(blob_).substr(kHeadBytes + trie_bytes),
             where + " precompiled_charsmap");
}

uint32_t Charsmap::unit(size_t i) const {
  return read_u32(blob_.data() + kHeadBytes + i * kUnitBytes);
}

Charsmap::Match Charsmap::find(std::string_view text, bool is_longest) const {
  Match match;
  if (units_ == 0) return match;
  const std::string_view all = std::string_view(blob_).substr(kHeadBytes + units_ * kUnitBytes);
  size_t node = offset_of(unit(0));
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte == 0) break;
    node ^= byte;
    if (node >= units_) break;
    const uint32_t here = unit(node);
    if ((here & (1u << 31 | 0xFF)) != byte) break;
    node ^= offset_of(here);
    if ((here >> 8 & 1) == 0) continue;
    if (node >= units_) break;
    const size_t begin = unit(node) & ((1u << 31) - 1);
    const bool is_whole =
        begin < all.size() && (static_cast<unsigned char>(all[begin]) & 0xC0) != 0x80;
    if (!is_whole) break;
    match = {i + 1, all.substr(begin, std::min(all.find('\0', begin), all.size()) - begin)};
    if (!is_longest) break;
  }
  return match;
}

}  // namespace snug::text

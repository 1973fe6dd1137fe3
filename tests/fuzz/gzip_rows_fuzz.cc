// SPDX-License-Identifier: Apache-2.0
// Rows of a gzip archive. Random bytes are hardly ever one, so an input whose first byte is even is
// put into an archive of stored blocks, whose lengths and checksums are right.
#include <zlib.h>

#include <algorithm>
#include <string>

#include "fuzz/fuzz.h"
#include "fuzz/rows.h"

namespace snug::fuzz {
namespace {

std::string word(uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text.push_back(static_cast<char>(value >> (8 * i) & 255));
  return text;
}

std::string stored(std::string_view text) {
  constexpr size_t kMostOfBlock = 65535;
  std::string archive = std::string("\x1F\x8B\x08\0\0\0\0\0\0\xFF", 10);
  size_t at = 0;
  do {
    const size_t bytes = std::min(text.size() - at, kMostOfBlock);
    archive += at + bytes == text.size() ? '\1' : '\0';
    archive += word(bytes, 2) + word(~bytes, 2);
    archive += text.substr(at, bytes);
    at += bytes;
  } while (at < text.size());
  const auto sum =
      crc32(0, reinterpret_cast<const Bytef*>(text.data()), static_cast<uInt>(text.size()));
  return archive + word(sum, 4) + word(text.size(), 4);
}

}  // namespace

void read_gzip_rows(std::string_view input) {
  const bool is_stored = take_byte(input) % 2 == 0;
  const unsigned char columns = take_byte(input);
  read_rows("rows.jsonl.gz", std::string(1, static_cast<char>(columns)) +
                                 (is_stored ? stored(input) : std::string(input)));
}

}  // namespace snug::fuzz

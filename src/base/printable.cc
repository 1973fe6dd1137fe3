// SPDX-License-Identifier: Apache-2.0
#include "base/printable.h"

#include <algorithm>

namespace snug {
namespace {

// A byte that may have to be spelled out: a control character of ASCII, or before one of UTF-8.
bool is_suspect(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7F || byte == 0xC2;
}

std::string spelled_out(const std::string& text, bool keeps_lines) {
  if (std::none_of(text.begin(), text.end(), is_suspect)) return text;
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const bool is_after_c2 = i > 0 && static_cast<unsigned char>(text[i - 1]) == 0xC2;
    const bool is_kept = keeps_lines && (byte == '\n' || byte == '\t');
    const bool is_control =
        (byte < 0x20 && !is_kept) || byte == 0x7F || (is_after_c2 && byte >= 0x80 && byte < 0xA0);
    if (!is_control) {
      out += text[i];
      continue;
    }
    if (is_after_c2 && byte >= 0x80) out.pop_back();
    constexpr char kDigits[] = "0123456789abcdef";
    out += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return out;
}

}  // namespace

std::string printable(const std::string& text) { return spelled_out(text, true); }
std::string printable_name(const std::string& name) { return spelled_out(name, false); }

}  // namespace snug

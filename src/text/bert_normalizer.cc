// SPDX-License-Identifier: Apache-2.0
// The order of steps is the package's: clean, space around ideographs, decompose and drop accents,
// lower case. They run code point by code point in one pass; only combining marks wait, because
// decomposition sorts them by class.
#include "text/bert_normalizer.h"

#include <algorithm>

namespace snug::text {
namespace {

constexpr std::array<CharacterKind, 128> kAsciiKinds = [] {
  std::array<CharacterKind, 128> kinds{};
  for (unsigned c = 0; c < 128; ++c) {
    const bool is_space = c == ' ' || (c >= 9 && c <= 13);
    const bool is_mark = (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
                         (c >= 123 && c <= 126);
    kinds[c] = is_space  ? CharacterKind::space
               : is_mark ? CharacterKind::punctuation
                         : CharacterKind::word;
  }
  return kinds;
}();

}  // namespace

CharacterKind ascii_kind(unsigned char c) { return kAsciiKinds[c]; }

BertNormalizer::BertNormalizer(const BertNormalizerOptions& options) : options_(options) {
  for (size_t i = 0; i < 128; ++i) {
    const auto c = static_cast<char32_t>(i);
    ascii_deleted_[i] = options.clean_text && is_deleted(c);
    char32_t becomes = options.clean_text && is_whitespace(c) ? U' ' : c;
    if (options.lowercase && becomes >= 'A' && becomes <= 'Z') becomes += 32;
    ascii_[i] = static_cast<char>(becomes);
  }
}

void BertNormalizer::normalize(std::string_view text, Marks& marks, std::string& out) const {
  out.reserve(out.size() + text.size());
  size_t at = 0;
  while (at < text.size()) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (byte < 0x80) {
      ++at;
      if (ascii_deleted_[byte]) continue;
      if (!marks.empty()) flush(marks, out);
      out.push_back(ascii_[byte]);
      continue;
    }
    char32_t c = next_code_point(text, at);
    if (options_.clean_text) {
      if (is_deleted(c)) continue;
      if (is_whitespace(c)) c = U' ';
    }
    const bool is_spaced = options_.handle_chinese_chars && is_ideograph(c);
    if (is_spaced) push(U' ', marks, out);
    push(c, marks, out);
    if (is_spaced) push(U' ', marks, out);
  }
  flush(marks, out);
}

void BertNormalizer::push(char32_t c, Marks& marks, std::string& out) const {
  if (!options_.strips_accents()) return emit(c, out);
  const ShortText parts = decompose(c);
  for (int i = 0; i < parts.size; ++i) {
    const uint8_t order = combining_class(parts.c[i]);
    if (order != 0) {
      marks.emplace_back(order, parts.c[i]);
    } else {
      flush(marks, out);
      emit(parts.c[i], out);
    }
  }
}

void BertNormalizer::flush(Marks& marks, std::string& out) const {
  if (marks.empty()) return;
  const auto by_class = [](const auto& a, const auto& b) { return a.first < b.first; };
  // stable_sort takes a buffer from the heap: most runs are one mark, or in order already.
  if (!std::is_sorted(marks.begin(), marks.end(), by_class))
    std::stable_sort(marks.begin(), marks.end(), by_class);
  for (const auto& [order, c] : marks) emit(c, out);
  marks.clear();
}

void BertNormalizer::emit(char32_t c, std::string& out) const {
  if (options_.strips_accents() && is_nonspacing_mark(c)) return;
  if (!options_.lowercase) return append_utf8(c, out);
  const ShortText lower = lowercase(c);
  for (int i = 0; i < lower.size; ++i) append_utf8(lower.c[i], out);
}

}  // namespace snug::text

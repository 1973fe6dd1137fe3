// SPDX-License-Identifier: Apache-2.0
// BERT's normalisation and pre-tokenisation: text to cleaned text, cleaned text to words.
// Equal, code point for code point, to BertNormalizer and BertPreTokenizer of the `tokenizers`
// package.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/unicode_rules.h"

namespace snug::text {

struct BertNormalizerOptions {
  bool clean_text = true;
  bool handle_chinese_chars = true;
  std::optional<bool> strip_accents;  ///< without a value: as `lowercase`
  bool lowercase = true;

  [[nodiscard]] bool strips_accents() const { return strip_accents.value_or(lowercase); }
  friend bool operator==(const BertNormalizerOptions&, const BertNormalizerOptions&) = default;
};

/// Immutable; one object serves any number of threads, each with its own Marks.
class BertNormalizer {
 public:
  /// Combining marks waiting for their order: (class, code point). Kept by the caller so that it is
  /// allocated once.
  using Marks = std::vector<std::pair<uint8_t, char32_t>>;

  explicit BertNormalizer(const BertNormalizerOptions& options);
  [[nodiscard]] const BertNormalizerOptions& options() const { return options_; }

  /// Appends the normalised text to `out`. The text must have passed check_utf8.
  void normalize(std::string_view text, Marks& marks, std::string& out) const;

 private:
  void emit(char32_t c, std::string& out) const;
  void push(char32_t c, Marks& marks, std::string& out) const;
  void flush(Marks& marks, std::string& out) const;

  BertNormalizerOptions options_;
  std::array<char, 128> ascii_{};  ///< what an ASCII character becomes
  std::array<bool, 128> ascii_deleted_{};
};

enum class CharacterKind : uint8_t { word, space, punctuation };
[[nodiscard]] CharacterKind ascii_kind(unsigned char c);

/// Calls word(std::string_view) for every word of a normalised text: split at white space,
/// punctuation on its own.
template <class F>
void for_each_word(std::string_view normalized, F&& word) {
  size_t begin = 0;
  size_t at = 0;
  while (at < normalized.size()) {
    const size_t here = at;
    const auto byte = static_cast<unsigned char>(normalized[at]);
    CharacterKind kind = CharacterKind::word;
    if (byte < 0x80) {
      kind = ascii_kind(byte);
      ++at;
    } else {
      const char32_t c = next_code_point(normalized, at);
      if (is_whitespace(c)) {
        kind = CharacterKind::space;
      } else if (is_punctuation(c)) {
        kind = CharacterKind::punctuation;
      }
    }
    if (kind == CharacterKind::word) continue;
    if (begin < here) word(normalized.substr(begin, here - begin));
    if (kind == CharacterKind::punctuation) word(normalized.substr(here, at - here));
    begin = at;
  }
  if (begin < at) word(normalized.substr(begin, at - begin));
}

}  // namespace snug::text

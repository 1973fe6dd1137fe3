// SPDX-License-Identifier: Apache-2.0
// Questions about one code point, answered as Hugging Face's `tokenizers` package answers them, and
// UTF-8. The package mixes three editions of Unicode: categories are 8.0's, decompositions and
// combining classes 9.0's, lower case is the newest. ICU's data are newer than 8.0, so the age of a
// code point decides whether the package knows it; what changed for code points that already
// existed is listed by hand in the .cc file. The golden test holds all this.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace snug::text {

/// Throws Error{bad_data} with the byte offset of the first byte that is not UTF-8 (surrogates and
/// overlong forms are not). `where` names the text in the message.
void check_utf8(std::string_view text, std::string_view where);

/// Reads the code point at text[at] and moves `at` behind it. The text must have passed check_utf8.
[[nodiscard]] char32_t next_code_point(std::string_view text, size_t& at);

/// Appends one code point as UTF-8.
void append_utf8(char32_t c, std::string& out);

/// Number of code points of a text that passed check_utf8.
[[nodiscard]] int64_t count_code_points(std::string_view text);

/// White_Space.
[[nodiscard]] bool is_whitespace(char32_t c);
/// What BERT's cleaning deletes: NUL, U+FFFD, control, format and private-use characters; not tab,
/// LF, CR.
[[nodiscard]] bool is_deleted(char32_t c);
/// ASCII punctuation and symbols, and Unicode's P* categories.
[[nodiscard]] bool is_punctuation(char32_t c);
/// The blocks of ideographs that BERT surrounds with spaces (not Kana, not Hangul).
[[nodiscard]] bool is_ideograph(char32_t c);
/// Category Mn.
[[nodiscard]] bool is_nonspacing_mark(char32_t c);
/// A character of \w in regular expressions: letters, marks, decimal digits, connectors, joiners.
[[nodiscard]] bool is_word_character(char32_t c);
/// A mark of any kind: what StripAccents drops.
[[nodiscard]] bool is_mark(char32_t c);
/// A number of any kind: what Digits splits at.
[[nodiscard]] bool is_number(char32_t c);
/// True where the code point was assigned in edition `major`.0 of Unicode or earlier.
[[nodiscard]] bool existed_in(int major, char32_t c);
/// Canonical combining class.
[[nodiscard]] uint8_t combining_class(char32_t c);

/// A few code points, without a heap block: the longest canonical decomposition has four.
struct ShortText {
  char32_t c[8];
  int size = 0;
};
/// Full canonical decomposition (NFD of one code point).
[[nodiscard]] ShortText decompose(char32_t c);
/// Lower case without context: one code point, two for U+0130.
[[nodiscard]] ShortText lowercase(char32_t c);

}  // namespace snug::text

// SPDX-License-Identifier: Apache-2.0
// Unicode by ICU, narrowed to what the `tokenizers` package knows.
#include "text/unicode_rules.h"

#include <unicode/uchar.h>
#include <unicode/unorm2.h>

#include <optional>

#include "base/check.h"
#include "base/numbers.h"
#include "base/utf8.h"
#include "snug/error.h"
#include "text/categories.h"

namespace snug::text {
namespace {

constexpr uint32_t kPunctuationMask = U_GC_P_MASK;

UChar32 icu(char32_t c) { return static_cast<UChar32>(c); }

}  // namespace

bool existed_in(int major, char32_t c) {
  UVersionInfo age;
  u_charAge(icu(c), age);
  return age[0] < major || (age[0] == major && age[1] == 0);
}

void check_utf8(std::string_view text, std::string_view where) {
  const std::optional<size_t> bad = first_invalid_utf8(text);
  if (!bad) return;
  throw Error(ErrorCode::bad_data, std::string(where),
              "invalid UTF-8 at byte " + std::to_string(*bad) + " (0x" +
                  hex_text(static_cast<unsigned char>(text[*bad]), 2) + ")",
              kToUtf8);
}

char32_t next_code_point(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[at + i]));
  };
  const char32_t first = byte(0);
  if (first < 0x80) {
    at += 1;
    return first;
  }
  if (first < 0xE0) {
    const char32_t c = (first & 0x1F) << 6 | (byte(1) & 0x3F);
    at += 2;
    return c;
  }
  if (first < 0xF0) {
    const char32_t c = (first & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    at += 3;
    return c;
  }
  const char32_t c =
      (first & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
  at += 4;
  return c;
}

void append_utf8(char32_t c, std::string& out) {
  const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6);
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

int64_t count_code_points(std::string_view text) {
  int64_t count = 0;
  for (char byte : text) count += (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  return count;
}

bool is_whitespace(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= 9 && c <= 13);
  return u_isUWhiteSpace(icu(c)) != 0;
}

bool is_deleted(char32_t c) {
  if (c == 9 || c == 10 || c == 13) return false;
  if (c < 0x20 || c == 0x7F || c == 0xFFFD) return true;
  if (c < 0x7F) return false;
  const auto category = u_charType(icu(c));
  if (category == U_CONTROL_CHAR || category == U_PRIVATE_USE_CHAR) return true;
  return category == U_FORMAT_CHAR && existed_in(8, c);
}

bool is_punctuation(char32_t c) {
  if (c < 0x80)
    return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
           (c >= 123 && c <= 126);
  if (c == 0x166D || c == 0x111C9) return true;  // no longer punctuation after 8.0
  return (U_GET_GC_MASK(icu(c)) & kPunctuationMask) != 0 && existed_in(8, c);
}

bool is_ideograph(char32_t c) {
  if (c < 0x3400) return false;
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B81F) ||
         (c >= 0x2B920 && c <= 0x2CEAF) || (c >= 0xF900 && c <= 0xFAFF) ||
         (c >= 0x2F800 && c <= 0x2FA1F);
}

bool is_nonspacing_mark(char32_t c) {
  if (c < 0x300) return false;
  if (c == 0x1734) return true;                                                 // Mc after 8.0
  if (c == 0x1885 || c == 0x1886 || c == 0xA9BD || c == 0x111C9) return false;  // Mn only after 8.0
  return u_charType(icu(c)) == U_NON_SPACING_MARK && existed_in(8, c);
}

bool is_word_character(char32_t c) {
  constexpr uint32_t kMask = U_GC_L_MASK | U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK;
  return (category_bit(c) & kMask) != 0 || u_hasBinaryProperty(icu(c), UCHAR_ALPHABETIC) ||
         u_hasBinaryProperty(icu(c), UCHAR_JOIN_CONTROL);
}

bool is_mark(char32_t c) {
  if (c < 0x300) return false;
  if (c == 0x1CF2 || c == 0x1CF3) return true;  // letters after 9.0
  if (c == 0x111C9) return false;               // a mark only after 9.0
  return (U_GET_GC_MASK(icu(c)) & U_GC_M_MASK) != 0 && existed_in(9, c);
}

bool is_number(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  const bool is_of_17 = (c >= 0x11DE0 && c <= 0x11DE9) || (c >= 0x16FF4 && c <= 0x16FF6);
  return is_of_17 || (category_bit(c) & U_GC_N_MASK) != 0;
}

uint8_t combining_class(char32_t c) {
  if (c < 0x300) return 0;
  const uint8_t known = u_getCombiningClass(icu(c));
  return known != 0 && existed_in(9, c) ? known : uint8_t{0};
}

ShortText decompose(char32_t c) {
  ShortText out{{c}, 1};
  if (c < 0xC0) return out;
  UErrorCode status = U_ZERO_ERROR;
  const UNormalizer2* nfd = unorm2_getNFDInstance(&status);
  UChar units[16];
  const int32_t size =
      U_SUCCESS(status) ? unorm2_getDecomposition(nfd, icu(c), units, 16, &status) : -1;
  SNUG_CHECK(U_SUCCESS(status), u_errorName(status));
  if (size < 0 || !existed_in(9, c)) return out;
  out.size = 0;
  for (int32_t i = 0; i < size;) {
    UChar32 part;
    U16_NEXT(units, i, size, part);
    out.c[out.size++] = static_cast<char32_t>(part);
  }
  return out;
}

ShortText lowercase(char32_t c) {
  if (c < 0x80) return {{c >= 'A' && c <= 'Z' ? c + 32 : c}, 1};
  if (c == 0x130) return {{U'i', 0x307}, 2};
  // Pairs newer than ICU 72's data.
  if (c >= 0x10D50 && c <= 0x10D65) return {{c + 0x20}, 1};
  if (c >= 0x16EA0 && c <= 0x16EB8) return {{c + 0x1B}, 1};
  switch (c) {
    case 0x1C89:
    case 0xA7CC:
    case 0xA7CE:
    case 0xA7D2:
    case 0xA7D4:
    case 0xA7DA:
      return {{c + 1}, 1};
    case 0xA7CB:
      return {{0x264}, 1};
    case 0xA7DC:
      return {{0x19B}, 1};
    default:
      return {{static_cast<char32_t>(u_tolower(icu(c)))}, 1};
  }
}

}  // namespace snug::text

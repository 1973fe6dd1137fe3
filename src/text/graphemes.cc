// SPDX-License-Identifier: Apache-2.0
#include "text/graphemes.h"

#include <unicode/uchar.h>

#include "text/categories.h"
#include "text/unicode_rules.h"

namespace snug::text {
namespace {

/// Marks of Unicode 17, which the package's clusters know.
bool is_mark_of_17(char32_t c) {
  return (c >= 0x1ACF && c <= 0x1ADD) || (c >= 0x1AE0 && c <= 0x1AEB) || c == 0x10EFA ||
         c == 0x10EFB || (c >= 0x11B60 && c <= 0x11B67) || c == 0x1E6E3 || c == 0x1E6E6 ||
         c == 0x1E6EE || c == 0x1E6EF || c == 0x1E6F5;
}

int break_of(char32_t c) {
  const int known = u_getIntPropertyValue(static_cast<UChar32>(c), UCHAR_GRAPHEME_CLUSTER_BREAK);
  if (known != U_GCB_OTHER || u_charType(static_cast<UChar32>(c)) != U_UNASSIGNED) return known;
  const bool is_mark_now = (category_bit(c) & U_GC_M_MASK) != 0 || is_mark_of_17(c);
  return is_mark_now ? U_GCB_EXTEND : known;
}

bool is_pictographic(char32_t c) {
  return u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_EXTENDED_PICTOGRAPHIC) != 0;
}

// Conjuncts (rule 9c): consonants of six scripts, joined by their viramas.
bool is_virama(char32_t c) {
  return c == 0x94D || c == 0x9CD || c == 0xACD || c == 0xB4D || c == 0xC4D || c == 0xD4D;
}
bool is_consonant(char32_t c) {
  const bool is_in_script = (c >= 0x900 && c < 0xA00) || (c >= 0xA80 && c < 0xB80) ||
                            (c >= 0xC00 && c < 0xC80) || (c >= 0xD00 && c < 0xD80);
  return is_in_script && u_getIntPropertyValue(static_cast<UChar32>(c),
                                               UCHAR_INDIC_SYLLABIC_CATEGORY) == U_INSC_CONSONANT;
}

bool joins_hangul(int before, int after) {
  switch (before) {
    case U_GCB_L:
      return after == U_GCB_L || after == U_GCB_V || after == U_GCB_LV || after == U_GCB_LVT;
    case U_GCB_LV:
    case U_GCB_V:
      return after == U_GCB_V || after == U_GCB_T;
    case U_GCB_LVT:
    case U_GCB_T:
      return after == U_GCB_T;
    default:
      return false;
  }
}

}  // namespace

size_t grapheme_end(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(at) < 0x80 && byte(at) != '\r' && (at + 1 == text.size() || byte(at + 1) < 0x80))
    return at + 1;
  char32_t c = next_code_point(text, at);
  int before = break_of(c);
  bool is_picture = is_pictographic(c);  // a picture, then what extends it
  bool is_joined_picture = false;        // and then a joiner
  bool is_conjunct = is_consonant(c);
  bool has_virama = false;
  int flags = before == U_GCB_REGIONAL_INDICATOR ? 1 : 0;
  while (at < text.size()) {
    size_t next = at;
    c = next_code_point(text, next);
    const int after = break_of(c);
    const bool is_control = before == U_GCB_CONTROL || before == U_GCB_CR || before == U_GCB_LF;
    const bool starts_control = after == U_GCB_CONTROL || after == U_GCB_CR || after == U_GCB_LF;
    bool joins = false;
    if (is_control || starts_control) {
      joins = before == U_GCB_CR && after == U_GCB_LF;
    } else {
      joins = joins_hangul(before, after) || after == U_GCB_EXTEND || after == U_GCB_ZWJ ||
              after == U_GCB_SPACING_MARK || before == U_GCB_PREPEND ||
              (is_conjunct && has_virama && is_consonant(c)) ||
              (is_joined_picture && is_pictographic(c)) ||
              (before == U_GCB_REGIONAL_INDICATOR && after == U_GCB_REGIONAL_INDICATOR &&
               flags % 2 == 1);
    }
    if (!joins) break;
    is_joined_picture = is_picture && after == U_GCB_ZWJ;
    is_picture = is_pictographic(c) || (is_picture && after == U_GCB_EXTEND);
    if (after == U_GCB_REGIONAL_INDICATOR) ++flags;
    if (is_consonant(c)) {
      is_conjunct = true;
      has_virama = false;
    } else if (is_virama(c)) {
      has_virama = true;
    } else if (after != U_GCB_EXTEND && after != U_GCB_ZWJ) {
      is_conjunct = false;
    }
    before = after;
    at = next;
  }
  return at;
}

}  // namespace snug::text

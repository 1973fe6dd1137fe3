// SPDX-License-Identifier: Apache-2.0
#include "text/char_pattern.h"

#include "snug/error.h"
#include "text/categories.h"
#include "text/unicode_rules.h"

namespace snug::text {
namespace {

// The most steps for each byte of a text; the patterns of published tokenizers take about five.
constexpr int64_t kMostStepsPerByte = 500;
constexpr int64_t kFreeSteps = 1'000'000;

/// \w of Oniguruma in brackets.
bool is_word(char32_t c) {
  constexpr uint32_t kMask = U_GC_L_MASK | U_GC_M_MASK | U_GC_ND_MASK | U_GC_PC_MASK;
  return (category_bit(c) & kMask) != 0 ||
         u_hasBinaryProperty(static_cast<UChar32>(c), UCHAR_ALPHABETIC) != 0;
}

}  // namespace

bool CharacterClass::contains_beyond_ascii(char32_t c) const {
  const uint32_t category = categories != 0 || without_categories != 0 ? category_bit(c) : 0;
  bool is_in = (category & categories) != 0 ||
               (without_categories != 0 && (category & without_categories) == 0);
  if (spaces || without_spaces)
    is_in = is_in || is_whitespace(c) == spaces || (spaces && without_spaces);
  if (words || without_words) is_in = is_in || is_word(c) == words || (words && without_words);
  for (const auto& [from, to] : ranges) is_in = is_in || (c >= from && c <= to);
  return is_in != is_negated;
}

void CharacterClass::fill_ascii() {
  for (char32_t c = 0; c < 128; ++c) ascii[c] = contains_beyond_ascii(c);
}

bool CharPattern::holds(const Item& item, std::string_view text, size_t& at) const {
  if (at >= text.size()) return false;
  const CharacterClass& wanted = classes_[item.of_class];
  const auto byte = static_cast<unsigned char>(text[at]);
  if (byte < 0x80) {
    at += wanted.ascii[byte] ? 1 : 0;
    return wanted.ascii[byte];
  }
  size_t next = at;
  if (!wanted.contains_beyond_ascii(next_code_point(text, next))) return false;
  at = next;
  return true;
}

size_t CharPattern::match_items(const std::vector<Item>& items, size_t i, std::string_view text,
                                size_t at, int64_t& steps) const {
  for (; i < items.size(); ++i) {
    const Item& item = items[i];
    if (item.kind != Kind::take) {
      size_t ahead = at;
      if (holds(item, text, ahead) != (item.kind == Kind::ahead)) return kNone;
      continue;
    }
    const size_t begin = at;
    uint32_t count = 0;
    while (count < item.most && holds(item, text, at)) ++count;
    steps -= 1 + count;
    if (steps < 0) {
      throw Error(ErrorCode::unsupported, where_,
                  "a pattern takes more than " + std::to_string(kMostStepsPerByte) +
                      " steps for each byte of a text",
                  "give a pattern whose alternatives do not overlap");
    }
    if (count < item.least) return kNone;
    if (item.is_possessive || count == item.least || i + 1 == items.size()) continue;
    while (true) {
      const size_t end = match_items(items, i + 1, text, at, steps);
      if (end != kNone || count == item.least) return end;
      --count;
      do --at;
      while (at > begin && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
    }
  }
  return at;
}

std::optional<CharPattern::Match> CharPattern::find(std::string_view text, size_t from,
                                                    int64_t& steps) const {
  for (size_t at = from; at < text.size(); ++at) {
    const auto byte = static_cast<unsigned char>(text[at]);
    if (!first_[byte] || (byte & 0xC0) == 0x80) continue;
    for (const Sequence& sequence : alternatives_) {
      if (!sequence.first[byte]) continue;
      const size_t end = match_items(sequence.items, 0, text, at, steps);
      if (end != kNone) return Match{at, end};
    }
  }
  return std::nullopt;
}

int64_t CharPattern::steps_for(std::string_view text) {
  return kFreeSteps + kMostStepsPerByte * static_cast<int64_t>(text.size());
}

void CharPattern::note_first_bytes(Sequence& sequence) const {
  for (const Item& item : sequence.items) {
    if (item.kind != Kind::take) continue;
    const CharacterClass& of = classes_[item.of_class];
    for (size_t byte = 0; byte < 128; ++byte)
      sequence.first[byte] = sequence.first[byte] || of.ascii[byte];
    for (size_t byte = 128; byte < 256; ++byte) sequence.first[byte] = true;
    if (item.least > 0) return;
  }
}

int64_t CharPattern::heap_bytes() const {
  size_t bytes =
      classes_.capacity() * sizeof(CharacterClass) + alternatives_.capacity() * sizeof(Sequence);
  for (const CharacterClass& one : classes_) bytes += one.ranges.capacity() * sizeof(one.ranges[0]);
  for (const Sequence& one : alternatives_) bytes += one.items.capacity() * sizeof(Item);
  return static_cast<int64_t>(bytes);
}

}  // namespace snug::text

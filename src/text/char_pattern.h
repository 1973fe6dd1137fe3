// SPDX-License-Identifier: Apache-2.0
// The regular expressions that tokenizers split texts by: alternatives of repeated characters and
// classes, with groups and a look ahead, matched leftmost and first alternative first, as
// Oniguruma does. Whatever else an expression holds is refused by name.
#pragma once

#include <bitset>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace snug::text {

/// A set of characters.
struct CharacterClass {
  std::bitset<128> ascii;                             // what it holds below 128
  uint32_t categories = 0;                            // bits of category_bit
  uint32_t without_categories = 0;                    // all characters but these
  bool spaces = false, without_spaces = false;        // \s and \S
  bool words = false, without_words = false;          // \w and \W
  std::vector<std::pair<char32_t, char32_t>> ranges;  // from, to
  bool is_negated = false;

  [[nodiscard]] bool contains(char32_t c) const {
    return c < 128 ? ascii[c] : contains_beyond_ascii(c);
  }
  [[nodiscard]] bool contains_beyond_ascii(char32_t c) const;
  void fill_ascii();
};

class CharPattern {
 public:
  CharPattern() = default;
  /// Throws Error{unsupported} at `where` for what is not understood.
  CharPattern(std::string_view expression, const std::string& where);
  /// The pattern that is this text.
  [[nodiscard]] static CharPattern literal(std::string_view text, const std::string& where);

  struct Match {
    size_t begin = 0, end = 0;
  };
  /// Steps that a search through a text may take: a hostile pattern would take the square of it.
  [[nodiscard]] static int64_t steps_for(std::string_view text);
  /// The first match that begins at `from` or later. Throws Error{unsupported} where no steps are
  /// left.
  [[nodiscard]] std::optional<Match> find(std::string_view text, size_t from, int64_t& steps) const;
  [[nodiscard]] int64_t heap_bytes() const;

 private:
  friend class PatternParser;
  enum class Kind : uint8_t { take, ahead, not_ahead };
  struct Item {
    Kind kind = Kind::take;
    bool is_possessive = false;
    uint32_t least = 1, most = 1;
    uint32_t of_class = 0;
  };
  /// Groups are multiplied out: a(b|c)?d is abd, acd or ad.
  struct Sequence {
    std::vector<Item> items;
    std::bitset<256> first;  // bytes that a match may begin with
  };
  static constexpr size_t kNone = static_cast<size_t>(-1);

  /// The end of the match of what is left of a sequence, or kNone.
  size_t match_items(const std::vector<Item>& items, size_t i, std::string_view text, size_t at,
                     int64_t& steps) const;
  [[nodiscard]] bool holds(const Item& item, std::string_view text, size_t& at) const;
  void note_first_bytes(Sequence& sequence) const;

  std::vector<CharacterClass> classes_;
  std::vector<Sequence> alternatives_;
  std::bitset<256> first_;
  std::string where_;
};

}  // namespace snug::text

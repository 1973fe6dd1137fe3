// SPDX-License-Identifier: Apache-2.0
// From the text of an expression to alternatives of classes.
#include <algorithm>
#include <charconv>
#include <limits>

#include "snug/error.h"
#include "text/categories.h"
#include "text/char_pattern.h"
#include "text/unicode_rules.h"

namespace snug::text {
namespace {

constexpr uint32_t kUnbounded = std::numeric_limits<uint32_t>::max();
constexpr uint32_t kMostTimes = 1000;
constexpr size_t kMostAlternatives = 256;
constexpr size_t kMostClasses = 4096;
constexpr size_t kMostBytes = 8192;

struct Named {
  std::string_view name;
  uint32_t categories;
};
constexpr Named kCategories[] = {
    {"L", U_GC_L_MASK},   {"Lu", U_GC_LU_MASK}, {"Ll", U_GC_LL_MASK}, {"Lt", U_GC_LT_MASK},
    {"Lm", U_GC_LM_MASK}, {"Lo", U_GC_LO_MASK}, {"M", U_GC_M_MASK},   {"N", U_GC_N_MASK},
    {"Nd", U_GC_ND_MASK}, {"P", U_GC_P_MASK},   {"S", U_GC_S_MASK},
};

}  // namespace

class PatternParser {
 public:
  using Items = std::vector<CharPattern::Item>;
  using All = std::vector<Items>;

  PatternParser(std::string_view text, const std::string& where, CharPattern& out)
      : text_(text), where_(where), out_(out) {}

  void parse() {
    if (text_.empty()) refuse("an empty pattern");
    if (text_.size() > kMostBytes)
      refuse("a pattern of " + std::to_string(text_.size()) + " bytes");
    All all = alternatives(0);
    if (at_ < text_.size()) refuse("')' without '('");
    finish(std::move(all));
  }

  void literal() {
    if (text_.empty()) refuse("an empty pattern");
    if (text_.size() > kMostBytes)
      refuse("a pattern of " + std::to_string(text_.size()) + " bytes");
    Items items;
    while (at_ < text_.size()) {
      CharacterClass one;
      const char32_t c = next_code_point(text_, at_);
      one.ranges.emplace_back(c, c);
      items.push_back(item_of(std::move(one)));
    }
    finish({std::move(items)});
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorCode::unsupported, where_,
                "the pattern '" + std::string(text_.substr(0, 200)) + "' holds " + what +
                    ", which is not supported",
                "split by a pattern of characters, classes, (?:...|...) and (?!...)");
  }
  [[nodiscard]] bool has(std::string_view next) const {
    return text_.substr(at_).starts_with(next);
  }
  bool take(std::string_view next) {
    if (!has(next)) return false;
    at_ += next.size();
    return true;
  }
  void check_size(const All& all) const {
    if (all.size() > kMostAlternatives)
      refuse("more than " + std::to_string(kMostAlternatives) + " alternatives");
    for (const Items& items : all) {
      if (items.size() > kMostTimes)
        refuse("an alternative of more than " + std::to_string(kMostTimes) + " characters");
    }
  }

  void finish(All all) {
    for (Items& items : all) {
      uint64_t least = 0;
      for (const CharPattern::Item& item : items)
        least += item.kind == CharPattern::Kind::take ? item.least : 0;
      if (least == 0) refuse("an alternative that may be empty");
      CharPattern::Sequence sequence{.items = std::move(items), .first = {}};
      out_.note_first_bytes(sequence);
      out_.first_ |= sequence.first;
      out_.alternatives_.push_back(std::move(sequence));
    }
    out_.classes_.shrink_to_fit();
    out_.alternatives_.shrink_to_fit();
  }

  CharPattern::Item item_of(CharacterClass one) {
    if (out_.classes_.size() >= kMostClasses)
      refuse("more than " + std::to_string(kMostClasses) + " classes");
    one.fill_ascii();
    out_.classes_.push_back(std::move(one));
    return {.of_class = static_cast<uint32_t>(out_.classes_.size() - 1)};
  }

  All alternatives(int depth) {
    if (depth > 8) refuse("groups in groups in groups");
    All all;
    do {
      All part = sequence(depth);
      for (Items& items : part) all.push_back(std::move(items));
      check_size(all);
    } while (take("|"));
    return all;
  }

  All sequence(int depth) {
    All all(1);
    while (at_ < text_.size() && !has("|") && !has(")")) {
      const All next = group_or_item(depth);
      All longer;
      for (const Items& head : all) {
        for (const Items& tail : next) {
          longer.push_back(head);
          longer.back().insert(longer.back().end(), tail.begin(), tail.end());
          if (longer.size() > kMostAlternatives) check_size(longer);
        }
      }
      all = std::move(longer);
      check_size(all);
    }
    return all;
  }

  All group_or_item(int depth) {
    if (has("(?!") || has("(?=")) {
      const bool is_not = has("(?!");
      at_ += 3;
      CharPattern::Item item = item_of(character());
      item.kind = is_not ? CharPattern::Kind::not_ahead : CharPattern::Kind::ahead;
      if (!take(")")) refuse("a look ahead of more than one character");
      return {{item}};
    }
    if (!has("(")) {
      CharPattern::Item item = item_of(character());
      quantify(item);
      return {{item}};
    }
    const bool was_ignored = ignores_case_;
    if (take("(?i:")) {
      ignores_case_ = true;
    } else if (!take("(?:")) {
      take("(");
      if (has("?")) refuse("a group '(" + std::string(text_.substr(at_, 3)) + "'");
    }
    All all = alternatives(depth + 1);
    if (!take(")")) refuse("'(' without ')'");
    ignores_case_ = was_ignored;
    if (take("?")) {
      if (has("+") || has("?")) refuse("a possessive or lazy group");
      all.emplace_back();
      check_size(all);
    } else if (has("*") || has("+") || has("{")) {
      refuse("a repeated group");
    }
    return all;
  }

  void quantify(CharPattern::Item& item) {
    bool is_counted = false;
    if (take("?")) {
      item.least = 0;
    } else if (take("*")) {
      item.least = 0;
      item.most = kUnbounded;
    } else if (take("+")) {
      item.most = kUnbounded;
    } else if (take("{")) {
      is_counted = true;
      if (has(",")) refuse("{,n}");
      item.least = number();
      item.most = item.least;
      if (take(",")) item.most = has("}") ? kUnbounded : number();
      if (!take("}") || item.most < item.least || item.most == 0) refuse("a strange {n,m}");
    } else {
      return;
    }
    if (!is_counted && take("+")) item.is_possessive = true;
    if (has("?") || has("*") || has("+") || has("{")) refuse("a repeat that is lazy or repeated");
  }

  uint32_t number() {
    uint32_t value = 0;
    const char* begin = text_.data() + at_;
    const auto [end, status] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (status != std::errc() || value > kMostTimes) refuse("a count that is no number up to 1000");
    at_ += static_cast<size_t>(end - begin);
    return value;
  }

  void add(CharacterClass& to, char32_t from, char32_t until) const {
    to.ranges.emplace_back(from, until);
    if (!ignores_case_) return;
    if (from != until) refuse("a range in (?i:...)");
    if (from >= 128) refuse("a character beyond ASCII in (?i:...)");
    const char32_t lower = from >= 'A' && from <= 'Z' ? from + 32 : from;
    if (lower < 'a' || lower > 'z') return;
    to.ranges.emplace_back(lower, lower);
    to.ranges.emplace_back(lower - 32, lower - 32);
    if (lower == 's') to.ranges.emplace_back(0x17F, 0x17F);    // long s
    if (lower == 'k') to.ranges.emplace_back(0x212A, 0x212A);  // Kelvin
  }

  CharacterClass character() {
    CharacterClass one;
    if (take("[")) {
      bracket(one);
    } else if (take("\\w") || take("\\W")) {
      word(one, text_[at_ - 1] == 'W');
    } else if (take("\\")) {
      escape(one);
    } else if (take(".")) {
      one.ranges.emplace_back(U'\n', U'\n');
      one.is_negated = true;
    } else {
      if (at_ >= text_.size()) refuse("an end where a character should stand");
      for (char c : std::string_view("^$*+?{})|")) {
        if (text_[at_] == c) refuse(std::string("'") + c + "'");
      }
      const char32_t c = next_code_point(text_, at_);
      add(one, c, c);
    }
    return one;
  }

  /// \w and \W outside of brackets, where Oniguruma counts the fractions and raised digits of
  /// Latin-1 among the words.
  static void word(CharacterClass& to, bool is_negated) {
    to.words = true;
    to.ranges = {{0xB2, 0xB3}, {0xB9, 0xB9}, {0xBC, 0xBE}};
    to.is_negated = is_negated;
  }

  /// Behind a backslash: a class, or a character, which is returned.
  std::optional<char32_t> escape(CharacterClass& to) {
    if (at_ >= text_.size()) refuse("a '\\' at its end");
    const char c = text_[at_];
    if (static_cast<unsigned char>(c) >= 0x80) refuse("an escaped character beyond ASCII");
    ++at_;
    switch (c) {
      case 's':
        to.spaces = true;
        return std::nullopt;
      case 'S':
        to.without_spaces = true;
        return std::nullopt;
      case 'w':
        to.words = true;
        return std::nullopt;
      case 'W':
        to.without_words = true;
        return std::nullopt;
      case 'd':
        to.categories |= U_GC_ND_MASK;
        return std::nullopt;
      case 'p':
      case 'P':
        property(to, c == 'P');
        return std::nullopt;
      default:
        break;
    }
    const bool is_letter =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    char32_t meant = static_cast<unsigned char>(c);
    if (c == 'n') {
      meant = '\n';
    } else if (c == 'r') {
      meant = '\r';
    } else if (c == 't') {
      meant = '\t';
    } else if (is_letter) {
      refuse(std::string("'\\") + c + "'");
    }
    add(to, meant, meant);
    return meant;
  }

  void property(CharacterClass& to, bool is_without) {
    if (!take("{")) refuse("a '\\p' without '{'");
    const size_t end = std::min(text_.find('}', at_), text_.size());
    const std::string_view name = text_.substr(at_, end - at_);
    at_ = std::min(end + 1, text_.size());
    const auto* known = std::find_if(std::begin(kCategories), std::end(kCategories),
                                     [&](const Named& one) { return one.name == name; });
    if (known == std::end(kCategories)) refuse("'\\p{" + std::string(name) + "}'");
    if (is_without && to.without_categories != 0) refuse("several \\P in one class");
    (is_without ? to.without_categories : to.categories) |= known->categories;
  }

  void bracket(CharacterClass& to) {
    to.is_negated = take("^");
    if (has("]")) refuse("an empty class");
    while (!take("]")) {
      if (at_ >= text_.size()) refuse("'[' without ']'");
      if (has("[") || has("&&")) refuse("a class in a class");
      std::optional<char32_t> from;
      const size_t ranges = to.ranges.size();
      if (take("\\")) {
        from = escape(to);
      } else {
        from = next_code_point(text_, at_);
        add(to, *from, *from);
      }
      if (!has("-") || text_.substr(at_).starts_with("-]")) continue;
      if (!from) refuse("a range that begins with a class");
      ++at_;
      if (at_ >= text_.size() || has("[")) refuse("'[' without ']'");
      CharacterClass ignored;
      const std::optional<char32_t> until =
          take("\\") ? escape(ignored) : std::optional(next_code_point(text_, at_));
      if (!until || *until < *from) refuse("a strange range");
      to.ranges.resize(ranges);
      add(to, *from, *until);
    }
  }

  std::string_view text_;
  const std::string& where_;
  CharPattern& out_;
  size_t at_ = 0;
  bool ignores_case_ = false;
};

CharPattern::CharPattern(std::string_view expression, const std::string& where) : where_(where) {
  PatternParser(expression, where, *this).parse();
}

CharPattern CharPattern::literal(std::string_view text, const std::string& where) {
  CharPattern pattern;
  pattern.where_ = where;
  PatternParser(text, where, pattern).literal();
  return pattern;
}

}  // namespace snug::text

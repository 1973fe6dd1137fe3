// SPDX-License-Identifier: Apache-2.0
#include "base/expression.h"

#include <memory>
#include <optional>
#include <utility>

namespace snug {
namespace {

using Bytes = Expression::Bytes;
using State = Expression::State;
using Kind = State::Kind;

constexpr size_t kMostStates = 20000;
constexpr int kMostDepth = 100;
constexpr int64_t kNoEnd = -1;
constexpr int64_t kMostTimes = 1000;

bool is_digit(int c) { return c >= '0' && c <= '9'; }
bool is_word(int c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c > 127;
}
bool is_space(int c) { return c == ' ' || (c >= '\t' && c <= '\r') || (c >= 28 && c <= 31); }

template <class Is>
Bytes bytes_where(Is is) {
  Bytes bytes;
  for (int c = 0; c < 256; ++c) bytes[static_cast<size_t>(c)] = is(c);
  return bytes;
}
Bytes one_byte(char c) {
  Bytes bytes;
  bytes.set(static_cast<unsigned char>(c));
  return bytes;
}

/// A part of an expression: either what one byte may be or a place, or parts in a row, one of
/// several, or one some times.
struct Part {
  enum class Shape : uint8_t { single, row, choice, repeated };
  Shape shape = Shape::row;
  Kind kind = Kind::bytes;  // of a single one
  Bytes bytes = {};
  std::vector<Part> parts = {};
  int64_t least = 0;  // of a repeated one
  int64_t most = kNoEnd;
};

class Parser {
 public:
  explicit Parser(std::string_view pattern) : pattern_(pattern) {}

  Part parse() {
    Part whole = choice(0);
    if (at_ < pattern_.size()) fail("a ')' has no '('");
    return whole;
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw BadExpression(what + " (at character " + std::to_string(at_ + 1) + " of '" +
                        std::string(pattern_) + "')");
  }
  [[nodiscard]] bool is_at(char c) const { return at_ < pattern_.size() && pattern_[at_] == c; }
  bool take(std::string_view text) {
    if (!pattern_.substr(at_).starts_with(text)) return false;
    at_ += text.size();
    return true;
  }
  static Part single(Kind kind, const Bytes& bytes = {}) {
    return {.shape = Part::Shape::single, .kind = kind, .bytes = bytes};
  }

  Part choice(int depth) {
    if (depth > kMostDepth) fail("groups are nested too deeply");
    Part made{.shape = Part::Shape::choice};
    do {
      made.parts.push_back(row(depth));
    } while (take("|"));
    return made;
  }

  Part row(int depth) {
    Part made{.shape = Part::Shape::row};
    while (at_ < pattern_.size() && !is_at('|') && !is_at(')'))
      made.parts.push_back(repeated(depth));
    return made;
  }

  Part repeated(int depth) {
    Part one = atom(depth);
    const std::optional<std::pair<int64_t, int64_t>> times = quantifier();
    if (!times) return one;
    if (one.shape == Part::Shape::single && one.kind != Kind::bytes)
      fail("a place is no text that could be repeated");
    (void)take("?");  // how much of it matters to no whole match
    if (is_at('+')) fail("possessive repetition is not supported");
    if (is_at('*') || quantifier()) fail("a repetition is repeated");
    Part made{.shape = Part::Shape::repeated, .least = times->first, .most = times->second};
    made.parts.push_back(std::move(one));
    return made;
  }

  std::optional<std::pair<int64_t, int64_t>> quantifier() {
    if (take("*")) return {{0, kNoEnd}};
    if (take("+")) return {{1, kNoEnd}};
    if (take("?")) return {{0, 1}};
    const size_t begin = at_;
    if (!take("{")) return {};
    const std::optional<int64_t> least = count();
    std::optional<int64_t> most = least;
    const bool has_comma = take(",");
    if (has_comma) most = count();
    if (!take("}") || (!least && !has_comma)) {
      at_ = begin;  // Python takes it for a brace
      return {};
    }
    if (most && least.value_or(0) > *most) fail("the least number of times is above the most");
    return {{least.value_or(0), most.value_or(kNoEnd)}};
  }
  std::optional<int64_t> count() {
    std::optional<int64_t> number;
    while (at_ < pattern_.size() && is_digit(pattern_[at_])) {
      number = 10 * number.value_or(0) + (pattern_[at_++] - '0');
      if (*number > kMostTimes) fail("more than " + std::to_string(kMostTimes) + " times");
    }
    return number;
  }

  Part atom(int depth) {
    const char c = pattern_[at_];
    if (quantifier()) fail("there is nothing to repeat");
    if (c == '\\') return escape();
    ++at_;
    switch (c) {
      case '(':
        return group(depth);
      case '[':
        return single(Kind::bytes, byte_class());
      case '.':
        return single(Kind::bytes, ~one_byte('\n'));
      case '^':
        return single(Kind::begin);
      case '$':
        return single(Kind::end);
      default:
        return single(Kind::bytes, one_byte(c));
    }
  }

  Part group(int depth) {
    if (take("?P<")) {
      while (at_ < pattern_.size() && is_word(static_cast<unsigned char>(pattern_[at_]))) ++at_;
      if (!take(">")) fail("the name of a group has no end");
    } else if (is_at('?') && !take("?:")) {
      fail("lookaround, flags and references to groups are not supported");
    }
    Part made = choice(depth + 1);
    if (!take(")")) fail("a '(' has no ')'");
    return made;
  }

  // The class of a letter behind a backslash; nothing where it is none.
  static std::optional<Bytes> class_of(char c) {
    switch (c) {
      case 'd':
        return bytes_where(is_digit);
      case 'D':
        return ~bytes_where(is_digit);
      case 'w':
        return bytes_where(is_word);
      case 'W':
        return ~bytes_where(is_word);
      case 's':
        return bytes_where(is_space);
      case 'S':
        return ~bytes_where(is_space);
      default:
        return {};
    }
  }
  char escaped() {
    if (++at_ >= pattern_.size()) fail("a backslash has nothing behind it");
    return pattern_[at_++];
  }
  [[nodiscard]] char literal_of(char c) const {
    constexpr std::pair<char, char> kControls[] = {{'n', '\n'}, {'t', '\t'}, {'r', '\r'}};
    for (const auto& [letter, control] : kControls) {
      if (c == letter) return control;
    }
    if (is_digit(c)) fail("references to groups are not supported");
    if (c != '_' && is_word(static_cast<unsigned char>(c)))
      fail(std::string("'\\") + c + "' is not supported");
    return c;
  }
  Part escape() {
    const char c = escaped();
    if (const std::optional<Bytes> bytes = class_of(c)) return single(Kind::bytes, *bytes);
    switch (c) {
      case 'A':
        return single(Kind::begin);
      case 'Z':
        return single(Kind::end);
      case 'b':
        return single(Kind::boundary);
      case 'B':
        return single(Kind::inside);
      default:
        return single(Kind::bytes, one_byte(literal_of(c)));
    }
  }

  // Behind the bracket.
  Bytes byte_class() {
    const bool is_other = take("^");
    Bytes bytes;
    for (bool is_first = true; is_first || !is_at(']'); is_first = false) {
      if (at_ >= pattern_.size()) fail("a '[' has no ']'");
      const std::optional<char> low = member(bytes);
      const bool is_range = is_at('-') && at_ + 1 < pattern_.size() && pattern_[at_ + 1] != ']';
      if (!is_range) continue;
      ++at_;
      const std::optional<char> high = low ? member(bytes) : std::nullopt;
      if (!high || static_cast<unsigned char>(*low) > static_cast<unsigned char>(*high))
        fail("a range has no two ends in their order");
      for (int c = static_cast<unsigned char>(*low); c <= static_cast<unsigned char>(*high); ++c)
        bytes.set(static_cast<size_t>(c));
    }
    ++at_;
    return is_other ? ~bytes : bytes;
  }
  // Adds the next; nothing where it is a class of bytes.
  std::optional<char> member(Bytes& bytes) {
    char c = 0;
    if (is_at('\\')) {
      c = escaped();
      if (const std::optional<Bytes> more = class_of(c)) {
        bytes |= *more;
        return {};
      }
      c = literal_of(c);
    } else {
      c = pattern_[at_++];
    }
    bytes.set(static_cast<unsigned char>(c));
    return c;
  }

  std::string_view pattern_;
  size_t at_ = 0;
};

/// States, from the end to the beginning.
class Writer {
 public:
  explicit Writer(std::vector<State>& states) : states_(states) {}

  int32_t write(const Part& part, int32_t next) {
    if (++written_ > 4 * kMostStates) refuse_size();  // parts that are empty make no state
    switch (part.shape) {
      case Part::Shape::single:
        return push({.kind = part.kind, .bytes = part.bytes, .next = next});
      case Part::Shape::row:
        for (size_t i = part.parts.size(); i-- > 0;) next = write(part.parts[i], next);
        return next;
      case Part::Shape::choice: {
        int32_t first = write(part.parts.back(), next);
        for (size_t i = part.parts.size() - 1; i-- > 0;)
          first = push({.kind = Kind::fork, .next = write(part.parts[i], next), .other = first});
        return first;
      }
      case Part::Shape::repeated:
        return repeat(part, next);
    }
    return next;
  }
  int32_t push(State state) {
    if (states_.size() >= kMostStates) refuse_size();
    states_.push_back(std::move(state));
    return static_cast<int32_t>(states_.size()) - 1;
  }

 private:
  [[noreturn]] static void refuse_size() { throw BadExpression("the expression is too large"); }

  int32_t repeat(const Part& part, int32_t next) {
    const Part& one = part.parts.front();
    if (part.most == kNoEnd) {
      const int32_t loop = push({.kind = Kind::fork, .other = next});
      const int32_t body = write(one, loop);
      states_[static_cast<size_t>(loop)].next = body;
      next = loop;
    }
    const int32_t skip = next;
    for (int64_t i = part.least; i < part.most; ++i)
      next = push({.kind = Kind::fork, .next = write(one, next), .other = skip});
    for (int64_t i = 0; i < part.least; ++i) next = write(one, next);
    return next;
  }

  std::vector<State>& states_;
  size_t written_ = 0;
};

/// Where a text is, for what is no byte of it.
bool holds(Kind kind, std::string_view text, size_t at) {
  const auto is_word_at = [&](size_t i) {
    return i < text.size() && is_word(static_cast<unsigned char>(text[i]));
  };
  const bool is_boundary = (at > 0 && is_word_at(at - 1)) != is_word_at(at);
  switch (kind) {
    case Kind::begin:
      return at == 0;
    case Kind::end:
      return at == text.size();
    case Kind::boundary:
      return is_boundary;
    case Kind::inside:
      return !is_boundary;
    default:
      return true;
  }
}

}  // namespace

Expression::Expression(std::string_view pattern) {
  const Part whole = Parser(pattern).parse();
  Writer writer(states_);
  const int32_t found = writer.push({.kind = Kind::found});
  first_ = writer.write(whole, found);
}

bool Expression::matches(std::string_view text) const {
  std::vector<int32_t> now;
  std::vector<int32_t> open;
  std::vector<size_t> seen(states_.size(), 0);  // at which place + 1
  bool is_found = false;
  // All that is reached from a state without a byte.
  const auto reach = [&](int32_t from, size_t at, std::vector<int32_t>& states) {
    open.push_back(from);
    while (!open.empty()) {
      const auto id = static_cast<size_t>(open.back());
      open.pop_back();
      if (seen[id] == at + 1) continue;
      seen[id] = at + 1;
      const State& state = states_[id];
      if (state.kind == Kind::bytes) {
        states.push_back(static_cast<int32_t>(id));
      } else if (state.kind == Kind::found) {
        is_found = at == text.size();
      } else if (state.kind == Kind::fork) {
        open.push_back(state.other);
        open.push_back(state.next);
      } else if (holds(state.kind, text, at)) {
        open.push_back(state.next);
      }
    }
  };
  reach(first_, 0, now);
  std::vector<int32_t> then;
  for (size_t at = 0; at < text.size(); ++at) {
    then.clear();
    for (const int32_t id : now) {
      const State& state = states_[static_cast<size_t>(id)];
      if (state.bytes[static_cast<unsigned char>(text[at])]) reach(state.next, at + 1, then);
    }
    std::swap(now, then);
  }
  return is_found;
}

}  // namespace snug

// SPDX-License-Identifier: Apache-2.0
// Ids: numbers that say which of a list is meant. Those of one list are a type of their own, so
// that nothing is looked up by the id of something else. They are ordered as their list is.
#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <iterator>
#include <string>

namespace snug {

/// Says that there is none, whatever the type of the id.
struct NoId {};
inline constexpr NoId kNone;

template <class Tag>
class Id {
 public:
  constexpr Id() = default;  // none
  constexpr Id(NoId) {}
  template <std::integral Number>
  constexpr explicit Id(Number number) : number_(static_cast<int32_t>(number)) {}

  /// For texts, files and masks of bits; -1 for none. What is looked up is looked up by the id
  /// itself.
  [[nodiscard]] constexpr int32_t number() const { return number_; }

  friend constexpr bool operator==(Id, Id) = default;
  friend constexpr auto operator<=>(Id, Id) = default;
  constexpr Id& operator++() {
    ++number_;
    return *this;
  }
  constexpr Id& operator--() {
    --number_;
    return *this;
  }
  friend constexpr Id operator+(Id id, int32_t count) { return Id(id.number_ + count); }
  friend constexpr Id operator-(Id id, int32_t count) { return Id(id.number_ - count); }
  /// How many ids further on it is.
  friend constexpr int32_t operator-(Id id, Id other) { return id.number_ - other.number_; }

 private:
  int32_t number_ = -1;
};

template <class Tag>
[[nodiscard]] std::string to_string(Id<Tag> id) {
  return std::to_string(id.number());
}

template <class Tag>
std::ostream& operator<<(std::ostream& out, Id<Tag> id) {
  return out << id.number();
}

/// The ids from `first` up to, and without, `end`, one after the other.
template <class Key>
class IdRange {
 public:
  class Iterator {
   public:
    using iterator_category = std::bidirectional_iterator_tag;
    using value_type = Key;
    using difference_type = ptrdiff_t;
    using pointer = void;
    using reference = Key;
    constexpr Iterator() = default;
    constexpr explicit Iterator(Key at) : at_(at) {}
    constexpr Key operator*() const { return at_; }
    constexpr Iterator& operator++() {
      ++at_;
      return *this;
    }
    constexpr Iterator& operator--() {
      --at_;
      return *this;
    }
    constexpr bool operator==(const Iterator&) const = default;

   private:
    Key at_;
  };

  constexpr IdRange(Key first, Key end) : first_(first), end_(end < first ? first : end) {}
  [[nodiscard]] constexpr Iterator begin() const { return Iterator(first_); }
  [[nodiscard]] constexpr Iterator end() const { return Iterator(end_); }
  [[nodiscard]] constexpr int32_t size() const { return end_ - first_; }
  [[nodiscard]] constexpr bool empty() const { return first_ == end_; }

  /// The same ids from the last to the first.
  struct Backwards {
    Key first;
    Key end_id;
    [[nodiscard]] constexpr auto begin() const { return std::reverse_iterator(Iterator(end_id)); }
    [[nodiscard]] constexpr auto end() const { return std::reverse_iterator(Iterator(first)); }
  };
  [[nodiscard]] constexpr Backwards backwards() const { return {first_, end_}; }

 private:
  Key first_;
  Key end_;
};

}  // namespace snug

// SPDX-License-Identifier: Apache-2.0
// Vectors and spans that are indexed by the ids of one list (id.h), and by nothing else: what
// std::vector and std::span are, but for the index. They give the ids that they have.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "base/id.h"

namespace snug {

template <class Key, class T>
class IdVector : public std::vector<T> {
  using Base = std::vector<T>;

 public:
  using Base::Base;
  IdVector() = default;
  IdVector(Base&& values) noexcept : Base(std::move(values)) {}
  explicit IdVector(const Base& values) : Base(values) {}
  /// Each id by itself.
  IdVector(IdRange<Key> ids) requires std::same_as<Key, T> : Base(ids.begin(), ids.end()) {}
  template <std::integral Count>
  explicit IdVector(Count count) : Base(static_cast<size_t>(count)) {}
  template <std::integral Count>
  IdVector(Count count, const T& value) : Base(static_cast<size_t>(count), value) {}

  [[nodiscard]] decltype(auto) operator[](Key id) {
    return Base::operator[](static_cast<size_t>(id.number()));
  }
  [[nodiscard]] decltype(auto) operator[](Key id) const {
    return Base::operator[](static_cast<size_t>(id.number()));
  }

  [[nodiscard]] bool has(Key id) const {
    return static_cast<size_t>(id.number()) < Base::size();  // none is the largest
  }
  [[nodiscard]] IdRange<Key> ids() const { return {Key(0), end_id()}; }
  /// The id behind the last: what is added next has it.
  [[nodiscard]] Key end_id() const { return Key(Base::size()); }
  /// Appends it and gives its id.
  Key add(T value) {
    Base::push_back(std::move(value));
    return Key(Base::size() - 1);
  }
};

template <class Key, class T>
class IdSpan : public std::span<T> {
  using Base = std::span<T>;

 public:
  using Base::Base;
  IdSpan(Base values) : Base(values) {}

  [[nodiscard]] T& operator[](Key id) const {
    return Base::operator[](static_cast<size_t>(id.number()));
  }
  [[nodiscard]] IdRange<Key> ids() const { return {Key(0), Key(Base::size())}; }
};

}  // namespace snug

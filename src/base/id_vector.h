// SPDX-License-Identifier: Apache-2.0
// Vectors and spans that are indexed by ids and steps: signed numbers, since -1 says that there is
// none. What std::vector and std::span are, but for the index, which is of any whole type.
#pragma once

#include <concepts>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

namespace snug {

template <class T>
class IndexVector : public std::vector<T> {
  using Base = std::vector<T>;

 public:
  using Base::Base;
  IndexVector() = default;
  IndexVector(Base&& values) noexcept : Base(std::move(values)) {}
  explicit IndexVector(const Base& values) : Base(values) {}
  template <std::integral Count>
  explicit IndexVector(Count count) : Base(static_cast<size_t>(count)) {}
  template <std::integral Count>
  IndexVector(Count count, const T& value) : Base(static_cast<size_t>(count), value) {}

  template <std::integral Id>
  [[nodiscard]] decltype(auto) operator[](Id id) {
    return Base::operator[](static_cast<size_t>(id));
  }
  template <std::integral Id>
  [[nodiscard]] decltype(auto) operator[](Id id) const {
    return Base::operator[](static_cast<size_t>(id));
  }

  using Base::assign;
  template <std::integral Count>
  void assign(Count count, const T& value) {
    Base::assign(static_cast<size_t>(count), value);
  }
  template <std::integral Count>
  void resize(Count count) {
    Base::resize(static_cast<size_t>(count));
  }
  template <std::integral Count>
  void resize(Count count, const T& value) {
    Base::resize(static_cast<size_t>(count), value);
  }
};

template <class T>
class IndexSpan : public std::span<T> {
  using Base = std::span<T>;

 public:
  using Base::Base;
  IndexSpan(Base values) : Base(values) {}

  template <std::integral Id>
  [[nodiscard]] T& operator[](Id id) const {
    return Base::operator[](static_cast<size_t>(id));
  }
};

}  // namespace snug

// SPDX-License-Identifier: Apache-2.0
// The sizes of a tensor's dimensions. Used like a std::vector<int64_t>, and converts from and to
// one; but up to four dimensions need no heap block of their own, since a program has a million
// shapes.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <utility>
#include <vector>

namespace snug {

class Shape {
 public:
  using value_type = int64_t;
  using iterator = int64_t*;
  using const_iterator = const int64_t*;

  Shape() noexcept = default;
  explicit Shape(size_t rank, int64_t dim = 0) { resize(rank, dim); }
  Shape(std::initializer_list<int64_t> dims) { append(dims.begin(), dims.end()); }
  Shape(const std::vector<int64_t>& dims) { append(dims.begin(), dims.end()); }  // NOLINT: alike
  template <std::forward_iterator It>
  Shape(It first, It last) {
    append(first, last);
  }
  Shape(const Shape& other) { append(other.begin(), other.end()); }
  Shape(Shape&& other) noexcept { swap(other); }
  Shape& operator=(const Shape& other) {
    if (this == &other) return *this;
    size_ = 0;
    append(other.begin(), other.end());
    return *this;
  }
  Shape& operator=(Shape&& other) noexcept {
    swap(other);
    return *this;
  }
  ~Shape() = default;
  operator std::vector<int64_t>() const { return {begin(), end()}; }  // NOLINT: alike

  [[nodiscard]] size_t size() const { return size_; }
  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] int64_t* data() { return many_ ? many_.get() : few_.data(); }
  [[nodiscard]] const int64_t* data() const { return many_ ? many_.get() : few_.data(); }
  /// An axis is of any whole type.
  [[nodiscard]] int64_t& operator[](std::integral auto axis) { return data()[axis]; }
  [[nodiscard]] const int64_t& operator[](std::integral auto axis) const { return data()[axis]; }
  [[nodiscard]] int64_t& front() { return data()[0]; }
  [[nodiscard]] const int64_t& front() const { return data()[0]; }
  [[nodiscard]] int64_t& back() { return data()[size_ - 1]; }
  [[nodiscard]] const int64_t& back() const { return data()[size_ - 1]; }
  [[nodiscard]] iterator begin() { return data(); }
  [[nodiscard]] iterator end() { return data() + size_; }
  [[nodiscard]] const_iterator begin() const { return data(); }
  [[nodiscard]] const_iterator end() const { return data() + size_; }

  void push_back(int64_t dim) {
    resize(size_ + 1);
    back() = dim;
  }
  void pop_back() { --size_; }
  /// New dimensions are `dim`.
  void resize(size_t rank, int64_t dim = 0) {
    if (rank > capacity_) grow(rank);
    if (rank > size_) std::fill(data() + size_, data() + rank, dim);
    size_ = rank;
  }
  /// In front of `at`.
  template <std::forward_iterator It>
  iterator insert(const_iterator at, It first, It last) {
    const auto before = at - begin();
    const auto behind = static_cast<std::ptrdiff_t>(size_);
    append(first, last);
    std::rotate(begin() + before, begin() + behind, end());
    return begin() + before;
  }
  iterator erase(const_iterator at) {
    const iterator hole = begin() + (at - begin());
    std::copy(hole + 1, end(), hole);
    --size_;
    return hole;
  }
  void swap(Shape& other) noexcept {
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    std::swap(few_, other.few_);
    std::swap(many_, other.many_);
  }

  friend bool operator==(const Shape& a, const Shape& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }
  friend bool operator==(const Shape& a, const std::vector<int64_t>& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end());
  }

 private:
  static constexpr size_t kFew = 4;

  template <class It>
  void append(It first, It last) {
    const size_t before = size_;
    resize(before + static_cast<size_t>(std::distance(first, last)));
    std::copy(first, last, data() + before);
  }
  void grow(size_t rank) {
    auto larger = std::make_unique<int64_t[]>(std::max(rank, 2 * capacity_));
    std::copy(begin(), end(), larger.get());
    many_ = std::move(larger);
    capacity_ = std::max(rank, 2 * capacity_);
  }

  size_t size_ = 0;
  size_t capacity_ = kFew;
  std::array<int64_t, kFew> few_ = {};
  std::unique_ptr<int64_t[]> many_;  // where there were ever more; then few_ is not used
};

}  // namespace snug

// SPDX-License-Identifier: Apache-2.0
// A row of values that all begin as 0, with two operations in logarithmic time: update every value
// of an interval, and the largest value of an interval. A segment tree without propagation: what
// applies to a whole node stays there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

namespace snug::plan {

struct Raise {
  int64_t operator()(int64_t value, int64_t to) const { return std::max(value, to); }
};
using Add = std::plus<int64_t>;

/// `Update` is Add or Raise, with x >= 0.
template <class Update>
class RangeMax {
 public:
  explicit RangeMax(int32_t size) {
    while (leaves_ < size) leaves_ *= 2;
    nodes_.resize(static_cast<size_t>(leaves_) * 2);
  }

  void update(int32_t begin, int32_t end, int64_t x) {
    if (begin < end) update(1, 0, leaves_, begin, end, x);
  }
  [[nodiscard]] int64_t max(int32_t begin, int32_t end) const {
    return begin < end ? max(1, 0, leaves_, begin, end) : 0;
  }

 private:
  struct Node {
    int64_t whole = 0;  // applied to every value below
    int64_t max = 0;    // of the values below, `whole` included
  };

  void update(size_t at, int32_t from, int32_t to, int32_t begin, int32_t end, int64_t x) {
    Node& node = nodes_[at];
    if (begin <= from && to <= end) {
      node.whole = Update{}(node.whole, x);
      node.max = Update{}(node.max, x);
      return;
    }
    const int32_t middle = from + (to - from) / 2;
    if (begin < middle) update(2 * at, from, middle, begin, end, x);
    if (middle < end) update(2 * at + 1, middle, to, begin, end, x);
    node.max = Update{}(std::max(nodes_[2 * at].max, nodes_[2 * at + 1].max), node.whole);
  }

  [[nodiscard]] int64_t max(size_t at, int32_t from, int32_t to, int32_t begin, int32_t end) const {
    const Node& node = nodes_[at];
    if (begin <= from && to <= end) return node.max;
    const int32_t middle = from + (to - from) / 2;
    int64_t below = 0;
    if (begin < middle) below = max(2 * at, from, middle, begin, end);
    if (middle < end) below = std::max(below, max(2 * at + 1, middle, to, begin, end));
    return Update{}(below, node.whole);
  }

  int32_t leaves_ = 1;
  std::vector<Node> nodes_;
};

}  // namespace snug::plan

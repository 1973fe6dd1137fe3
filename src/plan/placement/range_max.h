// SPDX-License-Identifier: Apache-2.0
// A row of values that all begin as 0, with two operations in logarithmic time: update every value
// of an interval, and the largest value of an interval. A segment tree without propagation: what
// applies to a whole node stays there.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <utility>
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
    while (std::cmp_less(leaves_, size)) leaves_ *= 2;
    nodes_.resize(leaves_ * 2);
  }

  void update(int32_t begin, int32_t end, int64_t x) {
    if (begin >= end) return;
    size_t low = leaf(begin);
    size_t high = leaf(end - 1);
    apply(nodes_[low], x);
    if (low != high) apply(nodes_[high], x);
    // Upwards along both ends of the interval, and with what lies between them.
    for (; low / 2 != high / 2; low /= 2, high /= 2) {
      if (is_left(low)) apply(nodes_[low + 1], x);
      if (!is_left(high)) apply(nodes_[high - 1], x);
      sum_up(low / 2);
      sum_up(high / 2);
    }
    while (low /= 2) sum_up(low);
  }
  [[nodiscard]] int64_t max(int32_t begin, int32_t end) const {
    if (begin >= end) return 0;
    size_t low = leaf(begin);
    size_t high = leaf(end - 1);
    int64_t at_low = nodes_[low].max;
    int64_t at_high = nodes_[high].max;
    for (; low / 2 != high / 2; low /= 2, high /= 2) {
      if (is_left(low)) at_low = std::max(at_low, nodes_[low + 1].max);
      if (!is_left(high)) at_high = std::max(at_high, nodes_[high - 1].max);
      at_low = Update{}(at_low, nodes_[low / 2].whole);
      at_high = Update{}(at_high, nodes_[high / 2].whole);
    }
    int64_t highest = std::max(at_low, at_high);
    while (low /= 2) highest = Update{}(highest, nodes_[low].whole);
    return highest;
  }

 private:
  struct Node {
    int64_t whole = 0;  // applied to every value below
    int64_t max = 0;    // of the values below, `whole` included
  };

  // The root is node 1, the two below a node are 2 · node and the next.
  [[nodiscard]] size_t leaf(int32_t at) const { return leaves_ + static_cast<size_t>(at); }
  static bool is_left(size_t node) { return node % 2 == 0; }
  static void apply(Node& node, int64_t x) {
    node.whole = Update{}(node.whole, x);
    node.max = Update{}(node.max, x);
  }
  void sum_up(size_t at) {
    nodes_[at].max =
        Update{}(std::max(nodes_[2 * at].max, nodes_[2 * at + 1].max), nodes_[at].whole);
  }

  size_t leaves_ = 1;
  std::vector<Node> nodes_;
};

}  // namespace snug::plan

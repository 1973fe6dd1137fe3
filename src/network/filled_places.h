// SPDX-License-Identifier: Apache-2.0
// What stands in the places that fill shorter rows up, along one axis that follows a length, and
// what arithmetic makes of it. Counted from the end of a row, since where that is differs from row
// to row.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>

#include "graph/graph.h"

namespace snug::network {

struct Filled {
  static constexpr int64_t kAll = std::numeric_limits<int32_t>::max();

  /// The number in every place from `covers` before the end of the row on, where it is known.
  std::optional<double> constant = {};
  /// So far below 0 there that its exponential is 0 beside any other.
  bool is_low = false;
  int64_t covers = 0;
  /// What is filled up is mixed into the places from so many before the end of the row on.
  int64_t reaches = 0;

  /// Whether what is filled up adds nothing to a sum over the places, or over products with
  /// `other`.
  [[nodiscard]] bool adds_nothing(int64_t other_reaches = -kAll) const {
    return constant == 0.0 && covers >= reaches && covers >= other_reaches;
  }
  [[nodiscard]] bool is_lowest() const { return is_low && covers >= reaches; }
  /// The same places without what is known of them.
  [[nodiscard]] Filled unknown() const { return {.reaches = reaches}; }
  /// So many places nearer to the beginning.
  [[nodiscard]] Filled moved(int64_t places) const;
};

/// One that is the same in every place, known or not.
[[nodiscard]] Filled same_everywhere(std::optional<double> constant);

/// Whether filled_by knows the op: element by element, of one to three operands.
[[nodiscard]] bool is_elementwise(const Node& node);
/// What fills the output of such an op; `b` and `c` count where it has so many operands.
[[nodiscard]] Filled filled_by(const Node& node, const Filled& a, const Filled& b, const Filled& c);

}  // namespace snug::network

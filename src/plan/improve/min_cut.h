// SPDX-License-Identifier: Apache-2.0
// Smallest cut of a directed network with real capacities, by Dinic's algorithm. Used for lower
// bounds: a flow that stops early is still a valid bound from below.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "base/index_vector.h"
#include "base/stop.h"

namespace snug::plan {

class MinCut {
 public:
  static constexpr double kInfinite = std::numeric_limits<double>::infinity();

  explicit MinCut(int32_t nodes) : arcs_of_(static_cast<size_t>(nodes)) {}

  /// Adds an arc and returns its number, for set_capacity.
  int32_t add_arc(int32_t from, int32_t to, double capacity);
  void set_capacity(int32_t arc, double capacity) { capacity_[arc] = capacity; }

  /// Computes the largest flow from `source` to `sink` with the present capacities; returns its
  /// value. What is left of an arc below `epsilon` counts as nothing.
  double solve(int32_t source, int32_t sink, double epsilon);
  /// After solve: whether a node lies on the source's side of the cut.
  [[nodiscard]] bool is_on_source_side(int32_t node) const { return level_[node] >= 0; }

 private:
  bool build_levels(int32_t source, int32_t sink);
  double push(int32_t node, int32_t sink, double limit);

  struct Arc {
    int32_t to;
  };
  IndexVector<Arc> arcs_;  // 2k forward, 2k + 1 its reverse
  IndexVector<double> capacity_;
  IndexVector<double> residual_;
  IndexVector<std::vector<int32_t>> arcs_of_;
  IndexVector<int32_t> level_;
  IndexVector<size_t> next_arc_;
  double epsilon_ = 0;
  SparseStopPoint<64> check_stop_;
};

}  // namespace snug::plan

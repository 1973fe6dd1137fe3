// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "plan/stage_graph.h"

namespace snug::plan {

struct RetentionSearch {
  uint64_t seed = 1;
  double moves_scale = 1;
};

struct RetentionResult {
  bool is_feasible = false;
  std::vector<OpId> schedule;
  int64_t peak_bytes = 0;
  double greedy_extra = 0;
  int64_t moves = 0;
};

[[nodiscard]] RetentionResult search(const StageGraph& graph, int64_t limit_bytes,
                                     const RetentionSearch& limits);

}  // namespace snug::plan

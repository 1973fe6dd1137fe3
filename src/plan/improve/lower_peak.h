// SPDX-License-Identifier: Apache-2.0
// Improvement of a flat schedule, whatever made it: at the peak something live but unused is
// dropped and recomputed later. Judged by exact liveness; never invalid.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/index_vector.h"
#include "plan/problem/index.h"

namespace snug::plan {

struct PeakSearch {
  int32_t max_rounds = 200;    // insertions
  int32_t max_candidates = 8;  // storages tried at each peak
};

/// Lowers the peak step by step; every returned schedule has a smaller load than the one before
/// (`schedule` is not among them).
[[nodiscard]] std::vector<std::vector<OpId>> lower_peak(const ProblemIndex& index,
                                                        IndexSpan<const OpId> schedule,
                                                        const PeakSearch& limits);

}  // namespace snug::plan

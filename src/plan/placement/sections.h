// SPDX-License-Identifier: Apache-2.0
// Time as placement sees it: the moments at which the set of live ranges is maximal. Any other
// moment's set is a subset of a neighbour's, so two ranges overlap in time where they share a
// section, and the load is the fullest section's.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/index_vector.h"
#include "plan/problem/plan.h"

namespace snug::plan {

struct Sections {
  struct Interval {
    int32_t begin = 0;
    int32_t end = 0;  // one past the last
  };
  int32_t count = 0;
  IndexVector<Interval> of_range;  // empty for ranges of no bytes
};

[[nodiscard]] Sections sections_of(IndexSpan<const LiveRange> ranges);

}  // namespace snug::plan

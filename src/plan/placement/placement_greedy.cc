// SPDX-License-Identifier: Apache-2.0
// The load, and the portfolio of greedy orders.
#include <algorithm>

#include "base/index_vector.h"
#include "plan/placement/greedy.h"
#include "plan/placement/placement.h"

namespace snug::plan {

int64_t load_of(IndexSpan<const LiveRange> ranges) {
  int32_t steps = 0;
  for (const LiveRange& range : ranges) steps = std::max(steps, range.last + 1);
  IndexVector<int64_t> change(static_cast<size_t>(steps) + 1, 0);
  for (const LiveRange& range : ranges) {
    change[range.first] += range.bytes;
    change[range.last + 1] -= range.bytes;
  }
  int64_t load = 0;
  int64_t in_use = 0;
  for (const int64_t delta : change) load = std::max(load, in_use += delta);
  return load;
}

Placement place_portfolio(IndexSpan<const LiveRange> ranges, int64_t enough, Placement start,
                          int32_t first_run, int32_t most_runs) {
  const auto all = static_cast<int32_t>(internal::kGreedyRuns.size());
  const int32_t end =
      std::min(greedy_runs(ranges.size(), all), first_run + std::min(most_runs, all));
  if (first_run >= end) return start;
  const Sections sections = sections_of(ranges);
  internal::place_rest(
      ranges,
      std::span(internal::kGreedyRuns)
          .subspan(static_cast<size_t>(first_run), static_cast<size_t>(end - first_run)),
      internal::GreedyPlacement(ranges, sections), std::vector<bool>(ranges.size(), false), enough,
      start);
  return start;
}

}  // namespace snug::plan

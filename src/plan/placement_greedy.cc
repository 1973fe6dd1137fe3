// SPDX-License-Identifier: Apache-2.0
// The load, and the portfolio of greedy orders.
#include <algorithm>

#include "plan/greedy.h"
#include "plan/placement.h"

namespace snug::plan {

int64_t load_of(std::span<const LiveRange> ranges) {
  int32_t steps = 0;
  for (const LiveRange& range : ranges) steps = std::max(steps, range.last + 1);
  std::vector<int64_t> change(static_cast<size_t>(steps) + 1, 0);
  for (const LiveRange& range : ranges) {
    change[static_cast<size_t>(range.first)] += range.bytes;
    change[static_cast<size_t>(range.last) + 1] -= range.bytes;
  }
  int64_t load = 0;
  int64_t in_use = 0;
  for (const int64_t delta : change) load = std::max(load, in_use += delta);
  return load;
}

Placement place_portfolio(std::span<const LiveRange> ranges, int64_t enough, int32_t most_runs) {
  const Sections sections = sections_of(ranges);
  Placement best{{}, kNoHeight};
  int64_t limit = kNoHeight;
  const auto all = static_cast<int32_t>(internal::kKeys.size() * internal::kFits.size());
  int32_t runs_left = greedy_runs(ranges.size(), std::min(all, most_runs));
  for (const internal::Key key : internal::kKeys) {
    const std::vector<int32_t> order = internal::greedy_order(ranges, key);
    for (const internal::Fit fit : internal::kFits) {
      internal::GreedyPlacement greedy(ranges, sections);
      if (greedy.place(order, fit, limit)) {
        best = greedy.placement();
        if (best.height <= enough) return best;
        limit = best.height - 1;
      }
      if (--runs_left == 0) return best;
    }
  }
  return best;
}

}  // namespace snug::plan

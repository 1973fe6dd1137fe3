// SPDX-License-Identifier: Apache-2.0
// Local search over the placement order: whatever sticks out above the goal goes to the front, as
// do the ranges it stands on; the greedy places the new order again.
#include <algorithm>
#include <numeric>

#include "base/index_vector.h"
#include "plan/placement/greedy.h"
#include "plan/placement/placement.h"

namespace snug::plan {

Placement place_local_search(IndexSpan<const LiveRange> ranges, int64_t enough, Placement start,
                             int32_t rounds) {
  const Sections sections = sections_of(ranges);
  std::vector<int32_t> order(ranges.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const auto area = [&](int32_t id) {
      const LiveRange& range = ranges[id];
      return static_cast<double>(range.bytes) * (range.last - range.first + 1);
    };
    return area(a) > area(b);
  });
  Placement best = std::move(start);
  Placement current = best;
  IndexVector<bool> is_moved(ranges.size());
  std::vector<int32_t> next;
  for (int32_t round = 0; round < rounds && best.height > enough; ++round) {
    // The ranges that reach above the goal; on odd rounds only the highest, for a different walk.
    std::fill(is_moved.begin(), is_moved.end(), false);
    const int64_t limit = round % 2 == 0 ? enough : current.height - 1;
    for (size_t i = 0; i < ranges.size(); ++i) {
      is_moved[i] = ranges[i].bytes > 0 && current.offsets[i] + ranges[i].bytes > limit;
    }
    next.clear();
    for (const int32_t id : order) {
      if (is_moved[id]) next.push_back(id);
    }
    for (const int32_t id : order) {
      if (!is_moved[id]) next.push_back(id);
    }
    if (next == order) {
      // Nothing moved: shift the front by one, a fixed perturbation that keeps the search
      // deterministic.
      const size_t shift = std::min<size_t>(next.size(), static_cast<size_t>(round) % 7 + 2);
      std::rotate(next.begin(), next.begin() + 1,
                  next.begin() + static_cast<std::ptrdiff_t>(shift));
    }
    order.swap(next);
    const auto fit = round % 3 == 2 ? internal::Fit::first : internal::Fit::best;
    internal::GreedyPlacement greedy(ranges, sections);
    if (!greedy.place(order, fit, kNoHeight)) return best;
    current = greedy.placement();
    if (current.height < best.height) best = current;
  }
  return best;
}

}  // namespace snug::plan

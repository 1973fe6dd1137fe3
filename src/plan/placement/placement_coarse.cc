// SPDX-License-Identifier: Apache-2.0
// Placement of a coarse problem. Gaps that are a kilobyte too small for the next range, and small
// ranges in the midst of large ones, are why greedy orders miss the load: a matrix product's
// scratch is a matrix and a little more, a norm's statistics live as long as its output. So sizes
// that are nearly equal count as equal, what is small is left for last, and at the end everything
// settles into the room that rounding has wasted.
#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "base/index_vector.h"
#include "plan/placement/greedy.h"
#include "plan/placement/placement.h"

namespace snug::plan {
namespace {

constexpr double kAlike = 0.03;  // sizes of one class differ by at most this share
// The share of the load that large ranges have at least, in one try after another.
constexpr std::array kLargeShares = {0.9999, 0.999, 0.995};
constexpr int64_t kMostTimes = 8;
constexpr int64_t kSmallest = 64;  // a class this much smaller than the largest is nobody's part
constexpr size_t kPlacedInAll = 60'000;  // ranges; long schedules get fewer tries
constexpr double kFarFromGoal = 1.005;   // of the goal: another try hardly reaches it
constexpr int32_t kFewestRuns = 2;
constexpr int32_t kSettlings = 2;

constexpr std::array kRunsOfLarge = {
    internal::GreedyRun{internal::Key::bytes, internal::Fit::best},
    internal::GreedyRun{internal::Key::peak, internal::Fit::best},
    internal::GreedyRun{internal::Key::lifetime, internal::Fit::touching},
    internal::GreedyRun{internal::Key::bytes, internal::Fit::first}};

// For what is small: first what lives when the most does, since room is scarce there alone.
constexpr internal::Key kKeyOfSmall = internal::Key::peak;
constexpr int32_t kTriesOfSmall = 16;

// What sizes count as: the largest of their class, or a little more where one class then is a
// multiple of another, so that what one leaves the other fills.
std::map<int64_t, int64_t> class_of_size(IndexSpan<const LiveRange> ranges) {
  std::map<int64_t, int64_t> class_of;
  for (const LiveRange& range : ranges) class_of.emplace(range.bytes, 0);
  IndexVector<int64_t> classes;  // by falling size
  for (auto size = class_of.rbegin(); size != class_of.rend(); ++size) {
    if (classes.empty() ||
        static_cast<double>(size->first) < (1 - kAlike) * static_cast<double>(classes.back())) {
      classes.push_back(size->first);
    }
    size->second = static_cast<int64_t>(classes.size()) - 1;
  }
  const std::vector<int64_t> sizes = classes;
  const auto is_alike = [](int64_t bytes, int64_t more) {
    return bytes <= more && static_cast<double>(more) <= (1 + kAlike) * static_cast<double>(bytes);
  };
  for (size_t small = classes.size(); small-- > 0;) {
    if (classes[small] < std::max<int64_t>(1, classes[0] / kSmallest)) continue;
    for (size_t large = 0; large < small; ++large) {
      const int64_t times = (sizes[large] + classes[small] - 1) / classes[small];
      if (times <= kMostTimes && is_alike(sizes[large], times * classes[small]))
        classes[large] = times * classes[small];
    }
  }
  for (auto& [bytes, of_class] : class_of) of_class = classes[of_class];
  return class_of;
}

// By range.
std::vector<int64_t> class_bytes(IndexSpan<const LiveRange> ranges) {
  const std::map<int64_t, int64_t> class_of = class_of_size(ranges);
  std::vector<int64_t> bytes;
  bytes.reserve(ranges.size());
  for (const LiveRange& range : ranges) bytes.push_back(class_of.at(range.bytes));
  return bytes;
}

// By falling size.
std::vector<int64_t> distinct(std::vector<int64_t> classes) {
  std::sort(classes.begin(), classes.end(), std::greater<>());
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  return classes;
}

// The first class with which the ranges of all classes so far have the share of the load.
int64_t smallest_large(IndexSpan<const LiveRange> ranges, std::span<const int64_t> class_bytes,
                       const IndexVector<int64_t>& classes, double enough) {
  const auto found = std::partition_point(classes.begin(), classes.end(), [&](int64_t smallest) {
    std::vector<LiveRange> large;
    for (size_t i = 0; i < ranges.size(); ++i) {
      if (class_bytes[i] >= smallest) large.push_back(ranges[i]);
    }
    return static_cast<double>(load_of(large)) < enough;
  });
  return found == classes.end() ? classes.back() : *found;
}

struct Coarse {
  std::vector<int32_t> ids;       // of the large ranges
  IndexVector<LiveRange> ranges;  // in the size of their class
};

Coarse large_ranges(IndexSpan<const LiveRange> ranges, std::span<const int64_t> class_bytes,
                    int64_t smallest) {
  Coarse coarse;
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (class_bytes[i] < smallest) continue;
    coarse.ids.push_back(static_cast<int32_t>(i));
    coarse.ranges.push_back(ranges[i]);
    coarse.ranges.back().bytes = class_bytes[i];
  }
  return coarse;
}

// Everything falls as far as it can, then the same upside down: nothing becomes higher.
void settle(IndexSpan<const LiveRange> ranges, const Sections& sections, int64_t enough,
            Placement& best) {
  std::vector<int32_t> order(ranges.size());
  std::iota(order.begin(), order.end(), 0);
  for (int32_t i = 0; i < kSettlings && best.height > enough; ++i) {
    std::stable_sort(order.begin(), order.end(),
                     [&best](int32_t a, int32_t b) { return best.offsets[a] < best.offsets[b]; });
    internal::GreedyPlacement fallen(ranges, sections);
    if (!fallen.place(order, internal::Fit::first, best.height)) return;
    best = fallen.placement();
    for (size_t k = 0; k < ranges.size(); ++k)
      best.offsets[k] = best.height - best.offsets[k] - ranges[k].bytes;
  }
}

// What does not fit goes first the next time, as long as that gets further; in the end without a
// limit.
void place_small(const internal::GreedyPlacement& around, const std::vector<int32_t>& order,
                 int64_t capacity, Placement& found) {
  std::vector<int32_t> next = order;
  std::ptrdiff_t furthest = -1;
  for (int32_t i = 0; i < kTriesOfSmall; ++i) {
    internal::GreedyPlacement placed = around;
    const auto misfit = std::find_if_not(next.begin(), next.end(), [&](int32_t id) {
      return placed.place(id, internal::Fit::best, capacity);
    });
    if (misfit == next.end()) {
      found = placed.placement();
      return;
    }
    if (misfit - next.begin() <= furthest) break;
    furthest = misfit - next.begin();
    std::rotate(next.begin(), misfit, misfit + 1);
  }
  internal::GreedyPlacement placed = around;
  if (placed.place(order, internal::Fit::best, kNoHeight)) found = placed.placement();
}

// All ranges, the large ones where the solved coarse problem has them; nothing where that came no
// nearer to its goal than `miss`.
Placement place_large_first(IndexSpan<const LiveRange> ranges, const Sections& sections,
                            const Coarse& coarse, int64_t capacity, int64_t miss) {
  const auto runs = std::span(kRunsOfLarge)
                        .first(static_cast<size_t>(std::max(
                            kFewestRuns, greedy_runs(ranges.size(), kRunsOfLarge.size()))));
  const int64_t goal = std::max(capacity, load_of(coarse.ranges));
  const Sections coarse_sections = sections_of(coarse.ranges);
  Placement large{{}, kNoHeight};
  internal::place_rest(coarse.ranges, runs,
                       internal::GreedyPlacement(coarse.ranges, coarse_sections),
                       std::vector<bool>(coarse.ranges.size(), false), goal, large);
  if (large.height > goal)
    large = place_around_core(coarse.ranges, goal, std::move(large)).placement;
  Placement found{{}, kNoHeight};
  if (large.height == kNoHeight || large.height - goal >= miss) return found;
  // In their own sizes again.
  std::vector<LiveRange> own;
  for (const int32_t id : coarse.ids) own.push_back(ranges[id]);
  settle(own, coarse_sections, 0, large);
  if (coarse.ids.size() == ranges.size()) return large;
  internal::GreedyPlacement around(ranges, sections);
  IndexVector<bool> is_large(ranges.size(), false);
  for (size_t i = 0; i < coarse.ids.size(); ++i) {
    around.put(coarse.ids[i], large.offsets[i]);
    is_large[coarse.ids[i]] = true;
  }
  std::vector<int32_t> small = internal::greedy_order(ranges, kKeyOfSmall);
  std::erase_if(small, [&](int32_t id) { return is_large[id]; });
  place_small(around, small, capacity, found);
  settle(ranges, sections, capacity, found);
  return found;
}

}  // namespace

Placement place_coarse(IndexSpan<const LiveRange> ranges, int64_t capacity, Placement start) {
  Placement best = std::move(start);
  const int64_t load = load_of(ranges);
  if (load > kNoHeight / 4) return best;  // rounded sizes could pass the largest number
  const std::vector<int64_t> bytes = class_bytes(ranges);
  const IndexVector<int64_t> classes = distinct(bytes);
  const Sections sections = sections_of(ranges);
  const size_t tries =
      std::clamp<size_t>(kPlacedInAll / (ranges.size() + 1), 1, kLargeShares.size());
  int64_t last_smallest = 0;
  for (const double share : std::span(kLargeShares).first(tries)) {
    if (best.height <= capacity) break;
    const int64_t smallest =
        smallest_large(ranges, bytes, classes, share * static_cast<double>(load));
    if (smallest == last_smallest) continue;
    last_smallest = smallest;
    const Coarse coarse = large_ranges(ranges, bytes, smallest);
    Placement found = place_large_first(ranges, sections, coarse, capacity, best.height - capacity);
    if (found.height < best.height) best = std::move(found);
    if (static_cast<double>(best.height) > kFarFromGoal * static_cast<double>(capacity)) break;
  }
  return best;
}

}  // namespace snug::plan

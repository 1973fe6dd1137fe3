// SPDX-License-Identifier: Apache-2.0
// Placement around a core. Training plans have one or a few short moments that are nearly full;
// what lives then is a small problem that the exact search solves in a dive, while greedy orders,
// which know nothing of the peak, miss it by the one range that came too early. The rest has room.
#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "base/index_vector.h"
#include "plan/placement/greedy.h"
#include "plan/placement/placement.h"

namespace snug::plan {
namespace {

// A range belongs to the core if it lives in a section with more than this share of the capacity.
constexpr std::array kShares = {0.99, 0.97, 0.95, 0.9, 0.8, 0.7};

// Ranges are one group if they live in the same of the sections with more than such a part of that.
constexpr std::array kGroupShares = {1.0, 0.9, 0.8, 0.6, 0.4, 0.2, 0.0};

constexpr size_t kMostCore = 600;  // a dive into more costs more than what it may save
constexpr int64_t kFailures = 64;  // of one dive; more of them hardly ever lead to the end
// Around the core; where these fail, a larger core does more.
constexpr std::array kRunsAround = {internal::GreedyRun{internal::Key::bytes, internal::Fit::best},
                                    internal::GreedyRun{internal::Key::peak, internal::Fit::best}};

// Bytes that are live in each section.
IndexVector<int64_t> section_bytes(IndexSpan<const LiveRange> ranges, const Sections& sections) {
  IndexVector<int64_t> bytes(static_cast<size_t>(sections.count) + 1, 0);
  for (size_t i = 0; i < ranges.size(); ++i) {
    bytes[sections.of_range[i].begin] += ranges[i].bytes;
    bytes[sections.of_range[i].end] -= ranges[i].bytes;
  }
  std::partial_sum(bytes.begin(), bytes.end(), bytes.begin());
  bytes.pop_back();
  return bytes;
}

using Groups = std::vector<std::vector<int32_t>>;

// The ranges that live in sections with more than `full` bytes. Those that live in the same of the
// sections with more than `fuller_than` bytes are one group: keep-all holds hundreds at its peak,
// which are one to it.
Groups core_groups(const Sections& sections, IndexSpan<const int64_t> section_bytes, double full,
                   double fuller_than) {
  std::vector<int32_t> full_before = {0};  // sections
  std::vector<int32_t> fuller_before = {0};
  for (const int64_t bytes : section_bytes) {
    const auto value = static_cast<double>(bytes);
    full_before.push_back(full_before.back() + (value > full ? 1 : 0));
    fuller_before.push_back(fuller_before.back() + (value > fuller_than ? 1 : 0));
  }
  std::map<std::pair<int32_t, int32_t>, size_t> group_of;
  Groups groups;
  for (size_t i = 0; i < sections.of_range.size(); ++i) {
    const auto begin = static_cast<size_t>(sections.of_range[i].begin);
    const auto end = static_cast<size_t>(sections.of_range[i].end);
    if (full_before[begin] == full_before[end]) continue;
    const size_t group =
        group_of.emplace(std::pair(fuller_before[begin], fuller_before[end]), groups.size())
            .first->second;
    if (group == groups.size()) groups.emplace_back();
    groups[group].push_back(static_cast<int32_t>(i));
  }
  return groups;
}

// One range in place of each group: it lives as long as any of them.
std::vector<LiveRange> merged_ranges(IndexSpan<const LiveRange> ranges, const Groups& groups) {
  std::vector<LiveRange> merged;
  for (const auto& group : groups) {
    LiveRange& whole = merged.emplace_back(ranges[group.front()]);
    for (size_t i = 1; i < group.size(); ++i) {
      const LiveRange& range = ranges[group[i]];
      whole.first = std::min(whole.first, range.first);
      whole.last = std::max(whole.last, range.last);
      whole.bytes += range.bytes;
    }
  }
  return merged;
}

// The fewest groups that leave the load within the capacity; nothing where they are too many.
std::optional<Groups> groups_within(IndexSpan<const LiveRange> ranges, const Sections& sections,
                                    IndexSpan<const int64_t> section_bytes, int64_t capacity,
                                    double share) {
  for (const double part : kGroupShares) {
    const double full = share * static_cast<double>(capacity);
    Groups groups = core_groups(sections, section_bytes, full, part * full);
    if (groups.size() > kMostCore) return std::nullopt;
    if (load_of(merged_ranges(ranges, groups)) <= capacity) return groups;
  }
  return std::nullopt;
}

// Longest lived first.
void sort_by_lifetime(IndexSpan<const LiveRange> ranges, std::vector<int32_t>& ids) {
  const auto steps = [&](int32_t id) { return ranges[id].last - ranges[id].first; };
  std::stable_sort(ids.begin(), ids.end(),
                   [&](int32_t a, int32_t b) { return steps(a) > steps(b); });
}

}  // namespace

PlacementWithin place_around_core(IndexSpan<const LiveRange> ranges, int64_t capacity,
                                  Placement start) {
  PlacementWithin result{std::move(start), false};
  Placement& best = result.placement;
  const Sections sections = sections_of(ranges);
  const IndexVector<int64_t> bytes = section_bytes(ranges, sections);
  size_t last_size = 0;
  for (const double share : kShares) {
    std::optional<Groups> groups = groups_within(ranges, sections, bytes, capacity, share);
    if (!groups) return result;
    if (groups->size() == last_size) continue;
    last_size = groups->size();
    const std::vector<LiveRange> core = merged_ranges(ranges, *groups);
    const ExactPlacement found =
        place_exact(core, capacity, static_cast<int64_t>(core.size()) + kFailures);
    result.is_impossible = found.end == SearchEnd::impossible &&
                           std::all_of(groups->begin(), groups->end(),
                                       [](const auto& ids) { return ids.size() == 1; });
    // More ranges are not easier.
    if (found.end != SearchEnd::solved) return result;

    internal::GreedyPlacement around(ranges, sections);
    IndexVector<bool> is_placed(ranges.size(), false);
    for (size_t i = 0; i < groups->size(); ++i) {
      std::vector<int32_t>& ids = (*groups)[i];
      sort_by_lifetime(ranges, ids);
      int64_t offset = found.placement.offsets[i];
      for (const int32_t id : ids) {
        around.put(id, offset);
        is_placed[id] = true;
        offset += ranges[id].bytes;
      }
    }
    internal::place_rest(ranges, kRunsAround, around, is_placed, capacity, best);
    if (best.height <= capacity) return result;
  }
  return result;
}

}  // namespace snug::plan

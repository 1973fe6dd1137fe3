// SPDX-License-Identifier: Apache-2.0
// Exact placement within a capacity: depth-first search over canonical placements. Every placement
// can be pressed down until each range lies on the floor or on another, and then be listed by
// rising offset; so it is enough to put down, one by one, ranges at the lowest offset they can
// have, never below the one before. Time is cut into sections between births and deaths; a branch
// dies when a section's floor and what must still go there exceed the capacity. Parts that no
// longer overlap in time are solved apart.
#include <algorithm>
#include <limits>
#include <numeric>

#include "plan/placement.h"

namespace snug::plan {
namespace {

constexpr size_t kSmallPart = 320;

struct Item {
  int32_t id = 0;     // index in the caller's ranges
  int32_t begin = 0;  // sections [begin, end)
  int32_t end = 0;
  int64_t bytes = 0;
  double weight = 0;  // static preference among equal offsets
};

class ExactSearch {
 public:
  ExactSearch(std::span<const LiveRange> ranges, int64_t capacity, int64_t max_nodes)
      : capacity_(capacity), nodes_left_(max_nodes) {
    std::vector<int32_t> times;
    for (const LiveRange& range : ranges) {
      if (range.bytes == 0) continue;
      times.push_back(range.first);
      times.push_back(range.last + 1);
    }
    std::sort(times.begin(), times.end());
    times.erase(std::unique(times.begin(), times.end()), times.end());
    const auto section_of = [&](int32_t time) {
      return static_cast<int32_t>(std::lower_bound(times.begin(), times.end(), time) -
                                  times.begin());
    };
    remaining_.assign(times.size(), 0);
    for (size_t i = 0; i < ranges.size(); ++i) {
      if (ranges[i].bytes == 0) continue;
      Item item{static_cast<int32_t>(i), section_of(ranges[i].first),
                section_of(ranges[i].last + 1), ranges[i].bytes, 0};
      for (int32_t s = item.begin; s < item.end; ++s)
        remaining_[static_cast<size_t>(s)] += item.bytes;
      items_.push_back(item);
    }
    for (Item& item : items_) {
      for (int32_t s = item.begin; s < item.end; ++s) {
        item.weight =
            std::max(item.weight, static_cast<double>(remaining_[static_cast<size_t>(s)]));
      }
      item.weight *= static_cast<double>(item.end - item.begin);
    }
    lowest_.assign(items_.size(), 0);
    offsets_.assign(ranges.size(), 0);
    section_floor_.assign(times.size(), 0);
  }

  bool run() {
    std::vector<int32_t> all(items_.size());
    std::iota(all.begin(), all.end(), 0);
    std::stable_sort(all.begin(), all.end(),
                     [&](int32_t a, int32_t b) { return item(a).begin < item(b).begin; });
    return solve_parts(all);
  }
  [[nodiscard]] const std::vector<int64_t>& offsets() const { return offsets_; }

 private:
  // Splits the unplaced items (by rising begin) where no one crosses a time, and solves the parts
  // one after another.
  bool solve_parts(const std::vector<int32_t>& items) {
    bool is_whole = true;
    int32_t reach = -1;
    for (const int32_t i : items) {
      is_whole = is_whole && (reach < 0 || item(i).begin < reach);
      reach = std::max(reach, item(i).end);
    }
    if (is_whole) return solve(items);
    std::vector<std::vector<int32_t>> parts;
    reach = -1;
    for (const int32_t i : items) {
      if (item(i).begin >= reach) parts.emplace_back();
      parts.back().push_back(i);
      reach = std::max(reach, item(i).end);
    }
    // The smallest part first: if it fails, the others need not be tried.
    std::stable_sort(parts.begin(), parts.end(),
                     [](const auto& a, const auto& b) { return a.size() < b.size(); });
    for (const auto& part : parts) {
      if (!solve(part)) return false;
    }
    return true;
  }

  bool solve(const std::vector<int32_t>& items) {
    if (items.empty()) return true;
    if (--nodes_left_ < 0) return false;
    // The full test is linear in all lifetimes: on large parts only now and then, so that a dive
    // stays cheap.
    if ((items.size() <= kSmallPart || nodes_left_ % 8 == 0) && !fits(items)) return false;

    // An item whose lowest offset is not below the lowest possible end of another is dominated: the
    // other goes first.
    int64_t lowest_end = std::numeric_limits<int64_t>::max();
    for (const int32_t i : items) lowest_end = std::min(lowest_end, lowest(i) + item(i).bytes);
    std::vector<int32_t> candidates;
    for (const int32_t i : items) {
      if (lowest(i) < lowest_end) candidates.push_back(i);
    }
    std::sort(candidates.begin(), candidates.end(), [&](int32_t a, int32_t b) {
      if (lowest(a) != lowest(b)) return lowest(a) < lowest(b);
      if (item(a).weight != item(b).weight) return item(a).weight > item(b).weight;
      return a < b;
    });
    for (size_t c = 0; c < candidates.size(); ++c) {
      const int32_t chosen = candidates[c];
      if (c > 0 && is_twin(chosen, candidates[c - 1])) continue;
      if (try_item(items, chosen)) return true;
      if (nodes_left_ < 0) return false;
    }
    return false;
  }

  bool try_item(const std::vector<int32_t>& items, int32_t chosen) {
    const Item& placed = item(chosen);
    const int64_t offset = lowest(chosen);
    const int64_t end = offset + placed.bytes;
    for (int32_t s = placed.begin; s < placed.end; ++s) {
      if (offset + remaining_[static_cast<size_t>(s)] > capacity_) return false;
    }
    std::vector<std::pair<int32_t, int64_t>> undo;
    std::vector<int32_t> rest;
    rest.reserve(items.size());
    for (const int32_t i : items) {
      if (i == chosen) continue;
      rest.push_back(i);
      const Item& other = item(i);
      const bool overlaps = other.begin < placed.end && placed.begin < other.end;
      const int64_t raised = std::max(lowest(i), overlaps ? end : offset);
      if (raised != lowest(i)) {
        undo.emplace_back(i, lowest(i));
        lowest_[static_cast<size_t>(i)] = raised;
      }
    }
    for (int32_t s = placed.begin; s < placed.end; ++s)
      remaining_[static_cast<size_t>(s)] -= placed.bytes;
    offsets_[static_cast<size_t>(placed.id)] = offset;
    const bool solved = solve_parts(rest);
    for (int32_t s = placed.begin; s < placed.end; ++s)
      remaining_[static_cast<size_t>(s)] += placed.bytes;
    for (const auto& [i, value] : undo) lowest_[static_cast<size_t>(i)] = value;
    return solved;
  }

  // In every section: the lowest offset any unplaced item there can have, plus all that must still
  // go there.
  bool fits(const std::vector<int32_t>& items) {
    int32_t begin = std::numeric_limits<int32_t>::max();
    int32_t end = 0;
    for (const int32_t i : items) {
      if (lowest(i) + item(i).bytes > capacity_) return false;
      begin = std::min(begin, item(i).begin);
      end = std::max(end, item(i).end);
    }
    std::fill(section_floor_.begin() + begin, section_floor_.begin() + end,
              std::numeric_limits<int64_t>::max());
    for (const int32_t i : items) {
      const int64_t floor = lowest(i);
      for (int32_t s = item(i).begin; s < item(i).end; ++s) {
        auto& value = section_floor_[static_cast<size_t>(s)];
        value = std::min(value, floor);
      }
    }
    for (int32_t s = begin; s < end; ++s) {
      const int64_t left = remaining_[static_cast<size_t>(s)];
      if (left > 0 && section_floor_[static_cast<size_t>(s)] > capacity_ - left) return false;
    }
    return true;
  }

  [[nodiscard]] const Item& item(int32_t i) const { return items_[static_cast<size_t>(i)]; }
  [[nodiscard]] int64_t lowest(int32_t i) const { return lowest_[static_cast<size_t>(i)]; }
  [[nodiscard]] bool is_twin(int32_t a, int32_t b) const {
    return item(a).begin == item(b).begin && item(a).end == item(b).end &&
           item(a).bytes == item(b).bytes;
  }

  int64_t capacity_;
  int64_t nodes_left_;
  std::vector<Item> items_;
  std::vector<int64_t> lowest_;     // per item: the lowest offset it can still have
  std::vector<int64_t> remaining_;  // per section: unplaced bytes
  std::vector<int64_t> section_floor_;
  std::vector<int64_t> offsets_;
};

}  // namespace

std::optional<Placement> place_exact(std::span<const LiveRange> ranges, int64_t capacity,
                                     int64_t max_nodes) {
  if (load_of(ranges) > capacity) return std::nullopt;
  ExactSearch search(ranges, capacity, max_nodes);
  if (!search.run()) return std::nullopt;
  Placement result;
  result.offsets = search.offsets();
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (ranges[i].bytes > 0)
      result.height = std::max(result.height, result.offsets[i] + ranges[i].bytes);
  }
  return result;
}

}  // namespace snug::plan

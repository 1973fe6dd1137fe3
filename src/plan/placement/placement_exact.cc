// SPDX-License-Identifier: Apache-2.0
// Exact placement within a capacity: what the tree search (exact_search.h) is told. The search is
// started again and again with growing limits, in turn for several static orders and for each of
// them with more or less weight on the sections where branches died before: an unlucky start costs
// little, and what made it unlucky is tried first the next time.
#include <algorithm>
#include <array>
#include <numeric>
#include <tuple>

#include "base/index_vector.h"
#include "plan/placement/exact_search.h"
#include "plan/placement/placement.h"
#include "plan/placement/sections.h"

namespace snug::plan {
namespace {

constexpr int64_t kLargestCapacity = int64_t{1} << 61;  // the search adds two of them
constexpr double kLimitGrowth = 1.3;
// How much the failures of an item's sections count beside its place in the static order.
constexpr std::array<int64_t, 3> kFailureWeights = {0, 1, 3};

struct Instance {
  std::vector<int32_t> ids;  // of the caller's ranges
  std::vector<internal::ExactItem> items;
  IndexVector<int64_t> section_bytes;
};

// Without ranges of no bytes; bytes in multiples of `unit`.
Instance instance_of(IndexSpan<const LiveRange> ranges, int64_t unit) {
  Instance instance;
  const Sections sections = sections_of(ranges);
  instance.section_bytes.assign(sections.count, 0);
  for (size_t i = 0; i < ranges.size(); ++i) {
    if (ranges[i].bytes == 0) continue;
    const auto [begin, end] = sections.of_range[i];
    const internal::ExactItem item{begin, end, ranges[i].bytes / unit};
    for (int32_t s = begin; s < end; ++s) instance.section_bytes[s] += item.bytes;
    instance.ids.push_back(static_cast<int32_t>(i));
    instance.items.push_back(item);
  }
  return instance;
}

// Places in a static order, highest first: what goes first among items with equal lowest offset.
std::vector<std::vector<int64_t>> static_orders(const Instance& instance) {
  struct Keys {
    int64_t contention = 0;  // of the fullest section
    double width = 0;        // sections
    double area = 0;
  };
  IndexVector<Keys> keys;
  for (const internal::ExactItem& item : instance.items) {
    Keys each;
    each.contention = *std::max_element(instance.section_bytes.begin() + item.begin,
                                        instance.section_bytes.begin() + item.end);
    each.width = item.end - item.begin;
    each.area = each.width * static_cast<double>(item.bytes);
    keys.push_back(each);
  }
  std::vector<std::vector<int64_t>> orders;
  const auto add = [&](const auto& is_before) {
    IndexVector<int32_t> order(keys.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](int32_t a, int32_t b) { return is_before(keys[a], keys[b]); });
    std::vector<int64_t>& places = orders.emplace_back(keys.size());
    for (size_t i = 0; i < order.size(); ++i) {
      places[static_cast<size_t>(order[i])] = static_cast<int64_t>(order.size() - i);
    }
  };
  add([](const Keys& a, const Keys& b) {
    return std::tie(a.width, a.area, a.contention) > std::tie(b.width, b.area, b.contention);
  });
  add([](const Keys& a, const Keys& b) {
    return std::tie(a.contention, a.width, a.area) > std::tie(b.contention, b.width, b.area);
  });
  add([](const Keys& a, const Keys& b) {
    return std::tie(a.contention, a.area, a.width) > std::tie(b.contention, b.area, b.width);
  });
  add([](const Keys& a, const Keys& b) { return a.area > b.area; });
  return orders;
}

// One way to prefer items, with what it has learned.
struct Strategy {
  const std::vector<int64_t>* order;
  int64_t failure_weight;
  std::vector<int64_t> failures;  // per section

  [[nodiscard]] std::vector<int64_t> preference(const Instance& instance) const {
    // In 1/1024 of a place in the order; the most failed section weighs like the whole order.
    constexpr int64_t kPlace = 1024;
    const auto count = static_cast<int64_t>(instance.items.size());
    const int64_t most = std::max<int64_t>(1, *std::max_element(failures.begin(), failures.end()));
    IndexVector<int64_t> result(instance.items.size());
    for (size_t i = 0; i < result.size(); ++i) {
      const internal::ExactItem& item = instance.items[i];
      const int64_t failed =
          *std::max_element(failures.begin() + item.begin, failures.begin() + item.end);
      result[i] = (*order)[i] * kPlace + failure_weight * count * (failed * kPlace / most);
    }
    return result;
  }
};

}  // namespace

ExactPlacement place_exact(IndexSpan<const LiveRange> ranges, int64_t capacity, int64_t max_nodes) {
  int64_t unit = 0;
  for (const LiveRange& range : ranges) unit = std::gcd(unit, range.bytes);
  ExactPlacement result;
  if (unit == 0) {
    result.end = SearchEnd::solved;
    result.placement.offsets.assign(ranges.size(), 0);
    return result;
  }
  const Instance instance = instance_of(ranges, unit);
  const int64_t units = capacity / unit;
  if (*std::max_element(instance.section_bytes.begin(), instance.section_bytes.end()) > units) {
    result.end = SearchEnd::impossible;
    return result;
  }
  if (units > kLargestCapacity) return result;

  const std::vector<std::vector<int64_t>> orders = static_orders(instance);
  std::vector<Strategy> strategies;
  for (const auto& order : orders) {
    for (const int64_t weight : kFailureWeights) {
      strategies.push_back(
          {&order, weight, std::vector<int64_t>(instance.section_bytes.size(), 0)});
    }
  }
  internal::ExactSearch search(instance.items, static_cast<int32_t>(instance.section_bytes.size()),
                               units);
  // The first limit is enough for a dive to the end with a few failures.
  for (double limit = static_cast<double>(instance.items.size() + 64);
       result.end == SearchEnd::stopped && result.nodes < max_nodes; limit *= kLimitGrowth) {
    for (Strategy& strategy : strategies) {
      const int64_t left = max_nodes - result.nodes;
      if (left <= 0) break;
      result.end = search.run(strategy.preference(instance), strategy.failures,
                              std::min(left, static_cast<int64_t>(limit)));
      result.nodes += search.nodes();
      if (result.end != SearchEnd::stopped) break;
    }
  }
  if (result.end != SearchEnd::solved) return result;
  result.placement.offsets.assign(ranges.size(), 0);
  for (size_t i = 0; i < instance.items.size(); ++i) {
    const auto id = static_cast<size_t>(instance.ids[i]);
    result.placement.offsets[id] = search.offsets()[i] * unit;
    result.placement.height =
        std::max(result.placement.height, result.placement.offsets[id] + ranges[id].bytes);
  }
  return result;
}

}  // namespace snug::plan

// SPDX-License-Identifier: Apache-2.0
#include "plan/frontier/table_schedules.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "base/stop.h"
#include "plan/chain/chain.h"
#include "plan/chain/schedule.h"
#include "plan/frontier/workshop.h"
#include "plan/problem/liveness.h"

namespace snug::plan {
namespace {

constexpr std::array kSmallShares = {0.125, 2.0, 0.5, 0.03};  // BlockLimits::small_share
constexpr size_t kMostOfTable = 6;

struct NearSchedule {
  double distance = 0;  // of the load from the budget, as a ratio
  std::vector<OpId> schedule;
};

void sort_nearest_first(std::vector<NearSchedule>& schedules) {
  std::stable_sort(
      schedules.begin(), schedules.end(),
      [](const NearSchedule& a, const NearSchedule& b) { return a.distance < b.distance; });
}

// A block's ops run again with what the forward part made, whatever was written over meanwhile.
bool writes_over_forward(const ProblemIndex& index) {
  for (const OpId id : index.op_ids()) {
    for (const auto& [output, input] : index.op(id).reuses) {
      if (index.producer[input] != kNone && index.producer[input] < index.backward_begin)
        return true;
    }
  }
  return false;
}

// The nominal budget whose schedule's load is the last within the budget, by halving, and its
// neighbours: the table counts in slots, liveness in bytes.
void add_around(const Workshop& shop, int64_t budget_bytes, std::vector<NearSchedule>& found) {
  const ChainSolver solver(shop.chain.blocks, shop.options);
  const std::vector<int32_t> budgets = solver.distinct_budgets();
  std::map<size_t, int64_t> loads;
  const auto load_at = [&](size_t at) {
    const auto known = loads.find(at);
    if (known != loads.end()) return known->second;
    stop_point();
    auto schedule = flatten(shop.index, shop.chain, solver.actions(budgets[at]));
    if (!schedule) return loads[at] = INT64_MAX;
    const int64_t load = analyse(shop.index.problem, *schedule).load_bytes;
    const double ratio = static_cast<double>(load) / static_cast<double>(budget_bytes);
    found.push_back({std::abs(std::log(std::max(ratio, 1e-9))), std::move(*schedule)});
    return loads[at] = load;
  };
  size_t low = 0;
  size_t high = budgets.size();
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (load_at(middle) <= budget_bytes) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  for (size_t at = low > 2 ? low - 2 : 0; at < std::min(budgets.size(), low + 2); ++at)
    (void)load_at(at);
}

}  // namespace

std::vector<std::vector<OpId>> table_schedules(const Problem& problem, int64_t budget_bytes,
                                               size_t block_sizes) {
  std::vector<NearSchedule> found;
  for (size_t i = 0; i < std::min(block_sizes, kSmallShares.size()); ++i) {
    const Workshop shop(problem, {.small_share = kSmallShares[i]});
    if (!shop.has_chain() || writes_over_forward(shop.index)) return {};
    std::vector<NearSchedule> of_table;
    add_around(shop, budget_bytes, of_table);
    sort_nearest_first(of_table);
    if (of_table.size() > kMostOfTable) of_table.resize(kMostOfTable);
    for (NearSchedule& each : of_table) found.push_back(std::move(each));
  }
  sort_nearest_first(found);
  std::vector<std::vector<OpId>> schedules;
  for (NearSchedule& each : found) {
    if (std::find(schedules.begin(), schedules.end(), each.schedule) == schedules.end())
      schedules.push_back(std::move(each.schedule));
  }
  return schedules;
}

}  // namespace snug::plan

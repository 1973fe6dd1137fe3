// SPDX-License-Identifier: Apache-2.0
#include "plan/frontier/table_schedules.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "base/stop.h"
#include "base/tasks.h"
#include "plan/chain/schedule.h"
#include "plan/problem/liveness.h"

namespace snug::plan {
namespace {

constexpr std::array kSmallShares = {0.125, 2.0};  // BlockLimits::small_share
constexpr size_t kBelow = 2;  // of a table's schedules, those that are next within the budget
constexpr size_t kAbove = 1;

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

}  // namespace

TableSchedules::TableSchedules(const Problem& problem, size_t block_sizes, int threads) {
  const ProblemIndex index(problem);
  if (index.forward_ids().empty() || index.backward_ids().empty() || writes_over_forward(index))
    return;
  tables_.resize(std::min(block_sizes, kSmallShares.size()));
  run_tasks(threads, static_cast<int64_t>(tables_.size()), [&](int64_t task) {
    const auto i = static_cast<size_t>(task);
    BlockLimits limits;
    limits.small_share = kSmallShares[i];
    tables_[i] = std::make_unique<Table>(problem, limits);
  });
}

void TableSchedules::sort_nearest_first(std::vector<NearSchedule>& schedules) {
  std::stable_sort(
      schedules.begin(), schedules.end(),
      [](const NearSchedule& a, const NearSchedule& b) { return a.distance < b.distance; });
}

// The nominal budget whose schedule's load is the last within the budget, by halving, and its
// neighbours: the table counts in slots, liveness in bytes.
std::vector<TableSchedules::NearSchedule> TableSchedules::around(Table& table,
                                                                 int64_t budget_bytes) {
  const Workshop& shop = table.shop;
  std::map<size_t, std::vector<OpId>> schedules;
  const auto load_at = [&](size_t at) {
    const auto known = table.loads.find(at);
    if (known != table.loads.end()) return known->second;
    stop_point();
    auto schedule = flatten(shop.index, shop.chain, table.solver.actions(table.budgets[at]));
    if (!schedule) return table.loads[at] = INT64_MAX;
    const int64_t load = loads_of(shop.index.problem, *schedule).load_bytes;
    schedules[at] = std::move(*schedule);
    return table.loads[at] = load;
  };
  size_t low = 0;
  size_t high = table.budgets.size();
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (load_at(middle) <= budget_bytes) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  std::vector<NearSchedule> found;
  for (size_t at = low > kBelow ? low - kBelow : 0;
       at < std::min(table.budgets.size(), low + kAbove); ++at) {
    const int64_t load = load_at(at);
    if (load == INT64_MAX) continue;
    const double ratio = static_cast<double>(load) / static_cast<double>(budget_bytes);
    if (schedules.find(at) == schedules.end()) {
      schedules[at] = *flatten(shop.index, shop.chain, table.solver.actions(table.budgets[at]));
    }
    found.push_back({std::abs(std::log(std::max(ratio, 1e-9))), std::move(schedules[at])});
  }
  return found;
}

std::vector<std::vector<OpId>> TableSchedules::near(int64_t budget_bytes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<NearSchedule> found;
  for (const std::unique_ptr<Table>& table : tables_) {
    for (NearSchedule& each : around(*table, budget_bytes)) found.push_back(std::move(each));
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

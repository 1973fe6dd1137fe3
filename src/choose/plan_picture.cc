// SPDX-License-Identifier: Apache-2.0
#include "choose/plan_picture.h"

#include <algorithm>
#include <map>

#include "base/ascii.h"
#include "base/id_vector.h"
#include "base/index_vector.h"
#include "plan/problem/peak_report.h"

namespace snug::choose {
namespace {

using Sums = std::map<std::string, double>;

// Ops that belong to no layer: a dropout or a mean between two, states that begin as zeros.
constexpr const char* kOutside = "outside the layers";

std::string block_of(const std::string& scope) {
  size_t dots = 0;
  for (size_t begin = 0; begin < scope.size();) {
    const size_t end = std::min(scope.find('.', begin), scope.size());
    const bool is_number =
        end > begin &&
        std::all_of(scope.begin() + static_cast<std::ptrdiff_t>(begin),
                    scope.begin() + static_cast<std::ptrdiff_t>(end), ascii::is_digit);
    if (is_number || (++dots == 2 && scope.find_first_of("0123456789", end) == std::string::npos))
      return scope.substr(0, end);
    begin = end + 1;
  }
  return scope;
}

std::vector<std::string> largest_first(const Sums& sums) {
  std::vector<std::pair<double, std::string>> sorted;
  for (const auto& [name, amount] : sums) sorted.emplace_back(-amount, name);
  std::sort(sorted.begin(), sorted.end());
  std::vector<std::string> names;
  for (const auto& [amount, name] : sorted) {
    if (amount < 0) names.push_back(name);
  }
  return names;
}

// One block while it is summed up.
struct TreatedBlock {
  BlockTreatment treatment;
  Sums recomputed;
  Sums kept;
};

bool is_equal(const BlockTreatment& a, const BlockTreatment& b) {
  return a.keep_all_bytes == b.keep_all_bytes && a.kept_bytes == b.kept_bytes &&
         a.recomputed == b.recomputed && a.kept == b.kept;
}

// The parts of the model in the order in which the forward part reaches them.
class TreatedBlocks {
 public:
  explicit TreatedBlocks(const plan::Problem& problem)
      : problem_(problem), maker_(problem.storages.size()) {
    for (const plan::OpId id : problem.ops.ids()) {
      for (const plan::StorageId output : problem.ops[id].outputs) maker_[output] = id;
    }
  }

  [[nodiscard]] const plan::Op& op(plan::OpId id) const { return problem_.ops[id]; }
  [[nodiscard]] bool is_forward(plan::OpId id) const { return op(id).phase == Phase::forward; }
  [[nodiscard]] TreatedBlock& at(plan::OpId id) {
    std::string name = block_of(op(id).scope);
    if (name.empty()) name = kOutside;
    const auto [found, is_new] = part_of_.emplace(name, parts_.size());
    if (is_new) {
      parts_.emplace_back();
      parts_.back().treatment.first = parts_.back().treatment.last = name;
    }
    return parts_[found->second];
  }
  [[nodiscard]] std::vector<TreatedBlock>& all() { return parts_; }

  /// Calls add(part, op, bytes) for what the forward part made and a schedule holds at its loss.
  template <class Add>
  void at_loss(const plan::Plan& plan, Add&& add) {
    int32_t loss = static_cast<int32_t>(plan.steps.size());
    for (size_t step = 0; step < plan.steps.size(); ++step) {
      if (op(plan.steps[step].op).phase != Phase::backward) continue;
      loss = static_cast<int32_t>(step);
      break;
    }
    for (const plan::LiveRange& range : plan.live_ranges) {
      if (range.is_scratch() || range.first >= loss || range.last < loss) continue;
      const plan::OpId made_by = maker_[range.storage];
      if (made_by != kNone && is_forward(made_by)) add(at(made_by), op(made_by), range.bytes);
    }
  }

 private:
  const plan::Problem& problem_;
  IdVector<plan::StorageId, plan::OpId> maker_;  // none: a resident
  std::vector<TreatedBlock> parts_;
  std::map<std::string, size_t> part_of_;
};

}  // namespace

std::vector<BlockTreatment> describe_blocks(const plan::Problem& problem, const plan::Plan& plan,
                                            const plan::Plan& keep_all) {
  TreatedBlocks parts(problem);
  IdVector<plan::OpId, bool> has_run(problem.ops.size(), false);
  for (const plan::Step& step : plan.steps) {
    if (!parts.is_forward(step.op)) continue;
    const plan::Op& op = parts.op(step.op);
    TreatedBlock& part = parts.at(step.op);
    if (!has_run[step.op]) {
      part.treatment.forward_seconds += op.seconds;
    } else {
      part.treatment.recompute_seconds += op.seconds;
      part.recomputed[op.name] += op.seconds;
    }
    has_run[step.op] = true;
  }
  parts.at_loss(keep_all, [](TreatedBlock& part, const plan::Op&, int64_t bytes) {
    part.treatment.keep_all_bytes += bytes;
  });
  parts.at_loss(plan, [](TreatedBlock& part, const plan::Op& op, int64_t bytes) {
    part.treatment.kept_bytes += bytes;
    part.kept[op.name] += static_cast<double>(bytes);
  });
  std::vector<BlockTreatment> blocks;
  for (TreatedBlock& part : parts.all()) {
    BlockTreatment& treatment = part.treatment;
    treatment.recomputed = largest_first(part.recomputed);
    treatment.kept = largest_first(part.kept);
    if (!blocks.empty() && is_equal(blocks.back(), treatment)) {
      blocks.back().last = treatment.last;
      ++blocks.back().count;
    } else {
      blocks.push_back(std::move(treatment));
    }
  }
  return blocks;
}

MemoryCurve memory_curve(const plan::Problem& problem, const plan::Plan& plan, std::string name) {
  MemoryCurve curve{.name = std::move(name), .seconds = {}, .bytes = {}};
  IndexVector<int64_t> change(plan.steps.size() + 1, 0);
  for (const plan::LiveRange& range : plan.live_ranges) {
    change[range.first] += range.bytes;
    change[range.last + 1] -= range.bytes;
  }
  double now = 0;
  int64_t in_use = 0;
  for (size_t step = 0; step < plan.steps.size(); ++step) {
    now += seconds_of(problem, plan.steps[step]);
    in_use += change[step];
    curve.seconds.push_back(now);
    curve.bytes.push_back(in_use);
  }
  return curve;
}

std::vector<PlacedTensor> placed_tensors(const plan::Problem& problem, const plan::Plan& plan) {
  IndexVector<double> begin(plan.steps.size() + 1, 0);
  for (size_t step = 0; step < plan.steps.size(); ++step) {
    begin[step + 1] = begin[step] + seconds_of(problem, plan.steps[step]);
  }
  IdVector<plan::StorageId, bool> was_made(problem.storages.size(), false);
  std::vector<PlacedTensor> placed;
  for (size_t i = 0; i < plan.live_ranges.size(); ++i) {
    const plan::LiveRange& range = plan.live_ranges[i];
    const plan::StorageId id = range.storage;
    const plan::Op& op = problem.ops[plan.steps[range.first].op];
    placed.push_back(
        {.name = range.is_scratch() ? "scratch of " + op.name : problem.storages[id].name,
         .begin_seconds = begin[range.first],
         .end_seconds = begin[range.last + 1],
         .offset = plan.offsets[i],
         .bytes = range.bytes,
         .is_again = !range.is_scratch() && was_made[id]});
    if (!range.is_scratch()) was_made[id] = true;
  }
  return placed;
}

std::vector<PeakTensor> peak_tensors(const plan::Problem& problem, const plan::Plan& plan) {
  std::map<std::string, int64_t> by_name;
  for (const plan::PeakReport::Row& row : plan::peak_report(problem, plan).rows)
    by_name[row.name] += row.bytes;
  std::vector<PeakTensor> tensors;
  for (const auto& [name, bytes] : by_name) tensors.push_back({name, bytes});
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  constexpr size_t kMost = 100;
  if (tensors.size() > kMost) tensors.resize(kMost);
  return tensors;
}

}  // namespace snug::choose

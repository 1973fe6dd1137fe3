// SPDX-License-Identifier: Apache-2.0
#include "train/plan_picture.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "plan/peak_report.h"

namespace snug::train {
namespace {

using Sums = std::map<std::string, double>;

std::string block_of(const std::string& scope) {
  size_t dots = 0;
  for (size_t begin = 0; begin < scope.size();) {
    const size_t end = std::min(scope.find('.', begin), scope.size());
    const bool is_number =
        end > begin && std::all_of(scope.begin() + static_cast<std::ptrdiff_t>(begin),
                                   scope.begin() + static_cast<std::ptrdiff_t>(end),
                                   [](unsigned char c) { return std::isdigit(c) != 0; });
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
struct Part {
  BlockTreatment treatment;
  Sums recomputed;
  Sums kept;
};

bool is_equal(const BlockTreatment& a, const BlockTreatment& b) {
  return a.keep_all_bytes == b.keep_all_bytes && a.kept_bytes == b.kept_bytes &&
         a.recomputed == b.recomputed && a.kept == b.kept;
}

}  // namespace

std::vector<BlockTreatment> describe_blocks(const plan::Problem& problem, const plan::Plan& plan) {
  const auto is_forward = [&](plan::OpId op) {
    return problem.ops[static_cast<size_t>(op)].phase == plan::Phase::forward;
  };
  std::vector<plan::OpId> maker(problem.storages.size(), -1);
  std::vector<bool> is_read_backward(problem.storages.size(), false);
  for (size_t id = 0; id < problem.ops.size(); ++id) {
    const plan::Op& op = problem.ops[id];
    for (const plan::StorageId output : op.outputs)
      maker[static_cast<size_t>(output)] = static_cast<plan::OpId>(id);
    if (op.phase != plan::Phase::backward) continue;
    for (const plan::StorageId input : op.inputs)
      is_read_backward[static_cast<size_t>(input)] = true;
  }
  std::vector<Part> parts;
  std::map<std::string, size_t> part_of;
  const auto part_at = [&](plan::OpId op) -> Part& {
    const std::string name = block_of(problem.ops[static_cast<size_t>(op)].scope);
    const auto [found, is_new] = part_of.emplace(name, parts.size());
    if (is_new) {
      parts.emplace_back();
      parts.back().treatment.first = parts.back().treatment.last = name;
    }
    return parts[found->second];
  };
  std::vector<bool> has_run(problem.ops.size(), false);
  int32_t loss_step = static_cast<int32_t>(plan.steps.size());
  for (size_t step = 0; step < plan.steps.size(); ++step) {
    const plan::OpId id = plan.steps[step].op;
    const plan::Op& op = problem.ops[static_cast<size_t>(id)];
    if (op.phase == plan::Phase::backward)
      loss_step = std::min(loss_step, static_cast<int32_t>(step));
    if (!is_forward(id)) continue;
    Part& part = part_at(id);
    if (!has_run[static_cast<size_t>(id)]) {
      part.treatment.forward_seconds += op.seconds;
    } else {
      part.treatment.recompute_seconds += op.seconds;
      part.recomputed[op.name] += op.seconds;
    }
    has_run[static_cast<size_t>(id)] = true;
  }
  for (size_t id = 0; id < problem.storages.size(); ++id) {
    const plan::Storage& storage = problem.storages[id];
    if (storage.resident || !is_read_backward[id] || maker[id] < 0 || !is_forward(maker[id]))
      continue;
    part_at(maker[id]).treatment.keep_all_bytes += storage.bytes;
  }
  for (const plan::LiveRange& range : plan.live_ranges) {
    if (range.is_scratch || range.first >= loss_step || range.last < loss_step) continue;
    const plan::OpId made_by = maker[static_cast<size_t>(range.storage)];
    if (made_by < 0 || !is_forward(made_by)) continue;
    Part& part = part_at(made_by);
    part.treatment.kept_bytes += range.bytes;
    part.kept[problem.ops[static_cast<size_t>(made_by)].name] += static_cast<double>(range.bytes);
  }
  std::vector<BlockTreatment> blocks;
  for (Part& part : parts) {
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
  std::vector<int64_t> change(plan.steps.size() + 1, 0);
  for (const plan::LiveRange& range : plan.live_ranges) {
    change[static_cast<size_t>(range.first)] += range.bytes;
    change[static_cast<size_t>(range.last) + 1] -= range.bytes;
  }
  double now = 0;
  int64_t in_use = 0;
  for (size_t step = 0; step < plan.steps.size(); ++step) {
    now += problem.ops[static_cast<size_t>(plan.steps[step].op)].seconds;
    in_use += change[step];
    curve.seconds.push_back(now);
    curve.bytes.push_back(in_use);
  }
  return curve;
}

std::vector<PlacedTensor> placed_tensors(const plan::Problem& problem, const plan::Plan& plan) {
  std::vector<double> begin(plan.steps.size() + 1, 0);
  for (size_t step = 0; step < plan.steps.size(); ++step) {
    begin[step + 1] = begin[step] + problem.ops[static_cast<size_t>(plan.steps[step].op)].seconds;
  }
  std::vector<bool> was_made(problem.storages.size(), false);
  std::vector<PlacedTensor> placed;
  for (size_t i = 0; i < plan.live_ranges.size(); ++i) {
    const plan::LiveRange& range = plan.live_ranges[i];
    const auto id = static_cast<size_t>(range.storage);
    const plan::Op& op =
        problem.ops[static_cast<size_t>(plan.steps[static_cast<size_t>(range.first)].op)];
    placed.push_back(
        {.name = range.is_scratch ? "scratch of " + op.name : problem.storages[id].name,
         .begin_seconds = begin[static_cast<size_t>(range.first)],
         .end_seconds = begin[static_cast<size_t>(range.last) + 1],
         .offset = plan.offsets[i],
         .bytes = range.bytes,
         .is_again = !range.is_scratch && was_made[id]});
    if (!range.is_scratch) was_made[id] = true;
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

}  // namespace snug::train

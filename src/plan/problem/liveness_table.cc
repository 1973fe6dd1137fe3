// SPDX-License-Identifier: Apache-2.0
#include "plan/problem/liveness_table.h"

#include "base/check.h"

namespace snug::plan {

LivenessTable::LivenessTable(const Problem& problem)
    : problem_(problem), bytes_(problem.storages.size()) {
  size_t operands = 0;
  const auto count = [&](const Op& op) { operands += op.inputs.size() + op.outputs.size(); };
  for (const Op& op : problem.ops) count(op);
  for (const Op& variant : problem.variants) count(variant);
  operands_.reserve(operands);  // spans refer to it
  ops_.reserve(problem.run_count());
  for (const StorageId id : problem.storages.ids()) bytes_[id] = problem.storages[id].bytes;
  const auto without_residents = [&](const std::vector<StorageId>& all) {
    const size_t first = operands_.size();
    for (const StorageId id : all) {
      if (!problem.storages[id].resident) operands_.push_back(id);
    }
    return std::span<const StorageId>(operands_).subspan(first);
  };
  const auto add = [&](const Op& op) {
    OpEntry& entry = ops_.emplace_back();
    entry.inputs = without_residents(op.inputs);
    entry.outputs = without_residents(op.outputs);
    for (const StorageId output : entry.outputs)
      SNUG_CHECK(problem.storages[output].view_of == kNone,
                 "a joint graph is measured as a plain problem");
    entry.scratch_bytes = op.scratch_bytes;
    entry.seconds = op.seconds;
    entry.fused_seconds = op.fusion.seconds;
    entry.phase = op.phase;
    entry.has_reuses = !op.reuses.empty();
    entry.is_by_rows = op.rowwise->form.is_given();
  };
  for (const Op& op : problem.ops) add(op);
  for (const Op& variant : problem.variants) add(variant);
}

}  // namespace snug::plan

// SPDX-License-Identifier: Apache-2.0
#include "plan/improve/operand_bound.h"

#include <algorithm>

#include "base/units.h"

namespace snug::plan {

// Made by rows and only read by rows, in ops that may run behind others.
OperandBound::OperandBound(const Problem& problem) : problem_(problem) {
  if (std::none_of(problem.ops.begin(), problem.ops.end(), may_join)) return;
  may_be_inside_ = IdVector<StorageId, bool>(problem.storages.size(), false);
  for (const Op& op : problem.ops) {
    if (!may_join(op)) continue;
    for (size_t i = 0; i < op.outputs.size(); ++i)
      may_be_inside_[op.outputs[i]] =
          op.rowwise->form.outputs[i] > 0 && !problem.storages[op.outputs[i]].resident;
  }
  for (const Op& op : problem.ops) {
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      if (!may_join(op) || op.rowwise->form.inputs[i] == 0) may_be_inside_[op.inputs[i]] = false;
    }
  }
  for (const StorageId kept : problem.keep) may_be_inside_[kept] = false;
}

int64_t OperandBound::scratch_bytes(const Op& op) const {
  if (!may_join(op)) return op.scratch_bytes;
  return std::min(op.scratch_bytes, round_up(op.rowwise->form.scratch_bytes, problem_.alignment));
}

int64_t OperandBound::bytes(const Op& op) const {
  const auto in_memory = [&](StorageId id) {
    return problem_.storages[id].resident || may_be_inside(id, op) ? 0
                                                                   : problem_.storages[id].bytes;
  };
  int64_t bytes = scratch_bytes(op);
  for (const auto* operands : {&op.inputs, &op.outputs}) {
    for (const StorageId id : *operands) bytes += in_memory(id);
  }
  // Behind an input that is inside the program an output may lie over what came before that.
  for (const auto& [output, input] : op.reuses)
    bytes -= may_be_inside(input, op) ? in_memory(output)
                                      : std::min(in_memory(output), in_memory(input));
  return bytes;
}

}  // namespace snug::plan

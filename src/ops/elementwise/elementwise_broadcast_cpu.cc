// SPDX-License-Identifier: Apache-2.0
#include "base/check.h"
#include "ops/elementwise/elementwise_cpu.h"

namespace snug {
namespace {

// The dims of a plan before their number is checked.
struct Merged {
  std::vector<int64_t> dims;
  std::array<std::vector<int64_t>, BroadcastPlan::kMaxOperands> strides;
};

Merged merge_dims(const Shape& shape, std::span<const Shape> operands) {
  // Strides of every operand in the dims of the result.
  std::array<std::vector<int64_t>, BroadcastPlan::kMaxOperands> strides;
  for (auto& operand : strides) operand.assign(shape.size(), 0);
  for (size_t o = 0; o < operands.size(); ++o) {
    const std::vector<int64_t> own = strides_of(operands[o]);
    const size_t shift = shape.size() - operands[o].size();
    for (size_t i = 0; i < own.size(); ++i)
      strides[o][i + shift] = operands[o][i] == 1 ? 0 : own[i];
  }
  Merged merged;
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 1) continue;
    bool continues = !merged.dims.empty();
    for (size_t o = 0; continues && o < strides.size(); ++o) {
      continues = merged.strides[o].back() == strides[o][i] * shape[i];
    }
    if (continues) {
      merged.dims.back() *= shape[i];
    } else {
      merged.dims.push_back(shape[i]);
    }
    for (size_t o = 0; o < strides.size(); ++o) {
      if (continues) {
        merged.strides[o].back() = strides[o][i];
      } else {
        merged.strides[o].push_back(strides[o][i]);
      }
    }
  }
  return merged;
}

}  // namespace

BroadcastPlan plan_broadcast(const Shape& shape, std::span<const Shape> operands) {
  const Merged merged = merge_dims(shape, operands);
  SNUG_CHECK(merged.dims.size() <= BroadcastPlan::kMaxDims, "more dims than the kernel takes");
  BroadcastPlan plan;
  plan.dims[0] = 1;
  if (merged.dims.empty()) return plan;
  plan.rank = merged.dims.size();
  for (size_t i = 0; i < plan.rank; ++i) {
    plan.dims[i] = merged.dims[i];
    for (size_t o = 0; o < BroadcastPlan::kMaxOperands; ++o)
      plan.strides[o][i] = merged.strides[o][i];
    if (i + 1 < plan.rank) plan.rows *= plan.dims[i];
  }
  return plan;
}

std::string broadcast_reason(const NodeSpec& spec, const CpuContext&) {
  std::vector<Shape> operands;
  for (const TensorType& type : spec.inputs.given()) operands.push_back(type.shape);
  const size_t dims = merge_dims(spec.outputs[0].shape, operands).dims.size();
  return dims <= BroadcastPlan::kMaxDims ? "" : "more than 8 dims remain after merging";
}

}  // namespace snug

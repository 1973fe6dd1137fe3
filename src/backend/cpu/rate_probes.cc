// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/rate_probes.h"

#include <algorithm>
#include <bitset>
#include <optional>
#include <utility>
#include <vector>

#include "ops/op_probes.h"
#include "ops/optimizer/optimizers.h"
#include "ops/registry.h"
#include "snug/error.h"

namespace snug {
namespace {

// The forms of an optimizer's step: its defaults, and each share that they switch off switched on.
std::vector<HyperValues> settings_of(const Optimizer& optimizer) {
  HyperValues defaults;
  for (const HyperParameter& each : *optimizer.parameters)
    defaults.set(each.name, each.default_value);
  std::vector<HyperValues> forms = {defaults};
  for (const HyperParameter& each : *optimizer.parameters) {
    if (each.range != HyperRange::share || each.default_value > 0) continue;
    forms.push_back(defaults);
    forms.back().set(each.name, 0.9);
  }
  return forms;
}

// Which floating inputs are in 16 bits where the network is. An op says so itself, by the bits of a
// number; gradients say nothing, and their inputs of many rows count.
std::vector<bool> narrow_inputs(const OpDef& op, const InputTypes& inputs) {
  const Paint paint = op.precision.paint;
  const bool says = paint != Paint::none && paint != Paint::deny;
  std::vector<bool> narrow(inputs.size(), false);  // a concat has more of them than a number bits
  if (says && op.precision.narrow != nullptr) {
    const std::bitset<32> said(op.precision.narrow(inputs));
    for (size_t i = 0; i < std::min(inputs.size(), said.size()); ++i) narrow[i] = said[i];
    return narrow;
  }
  int64_t most = 0;
  for (const TensorType& type : inputs.given()) most = std::max(most, element_count(type));
  for (size_t i = 0; i < inputs.size(); ++i)
    narrow[i] = inputs.has(i) && (says || 2 * element_count(inputs[i]) >= most);
  return narrow;
}

// The same in 16 bits; nothing where the op has no such form, or is measured in it already.
std::optional<RateProbe> half_probe(const OpDef& op, const RateProbe& probe) {
  const std::vector<bool> narrow = narrow_inputs(op, probe.inputs);
  RateProbe half = probe;
  half.inputs = {};
  for (size_t i = 0; i < probe.inputs.size(); ++i) {
    InputTypes::Given type;
    if (probe.inputs.has(i)) type = probe.inputs[i];
    if (type && is_half(type->dtype)) return std::nullopt;
    if (type && type->dtype == DType::f32 && narrow[i]) type->dtype = DType::bf16;
    half.inputs.add(std::move(type));
  }
  if (half.inputs == probe.inputs) return std::nullopt;
  try {
    (void)infer_types(op, half.inputs, complete_attrs(op, half.attrs, "probe"), "probe");
  } catch (const Error& error) {
    if (error.code() != ErrorCode::shape_mismatch) throw;
    return std::nullopt;
  }
  return half;
}

// What an op measures in 16 bits itself has kinds of its own.
void add_half_probes(const OpDef& op, std::vector<RateProbe>& probes) {
  const bool is_measured = std::any_of(probes.begin(), probes.end(), [](const RateProbe& probe) {
    const std::vector<TensorType> types = probe.inputs.given();
    return std::any_of(types.begin(), types.end(),
                       [](const TensorType& type) { return is_half(type.dtype); });
  });
  if (is_measured) return;
  for (size_t i = 0, count = probes.size(); i < count; ++i) {
    if (auto half = half_probe(op, probes[i])) probes.push_back(std::move(*half));
  }
}

ProbedNode step_node(const Optimizer& optimizer, const HyperValues& settings, const TensorType& w) {
  InputTypes operands = {w, w};
  for (const StateSpec& state : (*optimizer.states)(settings, w.shape))
    operands.add(probes::f32(state.shape));
  operands.add(probes::kAbsent);
  operands.add(probes::f32({4}));
  operands.add(probes::kAbsent);  // the coefficient
  operands.add(probes::kAbsent);  // row_of
  StepNode step = (*optimizer.step)(settings, {.shape = w.shape, .weight_decay = 0.01});
  return {op_registry().find(step.op), {std::move(operands), std::move(step.attrs)}};
}

}  // namespace

std::vector<ProbedNode> probed_nodes() {
  std::vector<ProbedNode> nodes;
  for (const OpDef* op : op_registry().all()) {
    if (op->timing.probes == nullptr) continue;
    std::vector<RateProbe> probes = op->timing.probes();
    add_half_probes(*op, probes);
    for (RateProbe& probe : probes) nodes.push_back({op, std::move(probe)});
  }
  for (const Optimizer* optimizer : optimizers()) {
    for (const HyperValues& settings : settings_of(*optimizer)) {
      for (const int64_t rows : {16, 1536})
        nodes.push_back(step_node(*optimizer, settings, probes::matrix(rows)));
    }
  }
  return nodes;
}

}  // namespace snug

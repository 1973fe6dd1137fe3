// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/rate_probes.h"

#include <optional>
#include <utility>

#include "ops/op_probes.h"
#include "ops/optimizer/optimizers.h"
#include "ops/registry.h"

namespace snug {
namespace {

// The forms of an optimizer's step: its defaults, and each share that they switch off switched on.
std::vector<Settings> settings_of(const Optimizer& optimizer) {
  Settings defaults;
  for (const HyperParameter& each : *optimizer.parameters)
    defaults.set(each.name, each.default_value);
  std::vector<Settings> forms = {defaults};
  for (const HyperParameter& each : *optimizer.parameters) {
    if (each.range != HyperRange::share || each.default_value > 0) continue;
    forms.push_back(defaults);
    forms.back().set(each.name, 0.9);
  }
  return forms;
}

ProbedNode step_node(const Optimizer& optimizer, const Settings& settings, const TensorType& w) {
  InputTypes operands = {w, w};
  for (const StateSpec& state : (*optimizer.states)(settings, w.shape))
    operands.add(probes::f32(state.shape));
  operands.add(probes::kAbsent);
  operands.add(probes::f32({4}));
  operands.add(probes::kAbsent);
  StepNode step = (*optimizer.step)(settings, {.shape = w.shape, .weight_decay = 0.01});
  return {op_registry().find(step.op), {std::move(operands), std::move(step.attrs)}};
}

}  // namespace

std::vector<ProbedNode> probed_nodes() {
  std::vector<ProbedNode> nodes;
  for (const OpDef* op : op_registry().all()) {
    if (op->timing.probes == nullptr) continue;
    for (RateProbe& probe : op->timing.probes()) nodes.push_back({op, std::move(probe)});
  }
  for (const Optimizer* optimizer : optimizers()) {
    for (const Settings& settings : settings_of(*optimizer)) {
      for (const int64_t rows : {16, 1536})
        nodes.push_back(step_node(*optimizer, settings, probes::matrix(rows)));
    }
  }
  return nodes;
}

}  // namespace snug

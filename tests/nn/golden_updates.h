// SPDX-License-Identifier: Apache-2.0
// For the parity tests: the ten updates of the goldens (tools/golden/updates.py), on the reference
// backend. One batch, clipping by the global norm, an optimizer, a linear schedule to zero.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "models/model.h"
#include "nn/ref_graph.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"

namespace snug {

inline constexpr int64_t kGoldenSteps = 10;
inline constexpr double kGoldenMaxNorm = 0.5;

struct GoldenUpdates {
  std::vector<double> losses;
  std::vector<double> norms;
};

/// Appends the backward pass and the updates to the built model, and runs them; `feeds` holds the
/// batch and all weights and is moved on. `after_step` is called with the number of each update,
/// from 1.
inline GoldenUpdates run_golden_updates(GraphBuilder& builder, const models::SequenceModel& model,
                                        std::span<const ValueId> parameters, RefValues& feeds,
                                        const optim::Options& optimizer, double rate,
                                        const std::function<void(int64_t)>& after_step) {
  std::map<ValueId, ValueId> next;  // of what outlives an update: the value after it
  for (const Node& node : builder.graph().nodes) {
    if (*node.op->name != "running_statistics") continue;
    for (size_t k = 0; k < 2; ++k) next[node.inputs[k]] = node.outputs[k];
  }
  const ValueId hyper = builder.input("hyper", {DType::f32, {4}});
  const auto gradients = autodiff::append_gradients(builder, model.loss, kNone, parameters);
  std::vector<ValueId> all;
  for (const ValueId id : parameters) all.push_back(gradients.at(id));
  std::vector<ValueId> squares;
  for (const ValueId gradient : all)
    squares.push_back(optim::append_squares(builder, gradient, kNone));
  const optim::Clip clip = optim::append_clip(builder, squares, kGoldenMaxNorm);
  for (const ValueId id : parameters) {
    const std::string name = builder.graph().value(id).name;
    const std::vector<ValueId> after =
        optim::append_update(builder, id, gradients.at(id), hyper, clip.coefficient, optimizer);
    const std::vector<optim::NamedState> states =
        optim::states_of(optimizer, name, builder.type(id).shape);
    next[id] = after[0];
    for (size_t i = 0; i < states.size(); ++i) {
      const ValueId state = builder.graph().find(states[i].name);
      next[state] = after[i + 1];
      feeds[state] = std::vector<double>(static_cast<size_t>(element_count(states[i].type)), 0);
    }
  }
  const optim::Schedule schedule = {
      .kind = ScheduleKind::linear, .warmup_steps = 0, .total_steps = kGoldenSteps};
  GoldenUpdates found;
  for (int64_t step = 1; step <= kGoldenSteps; ++step) {
    const auto values =
        optim::fed_values(optimizer, rate * optim::rate_factor(schedule, step - 1), step);
    feeds[hyper] = {values.begin(), values.end()};
    const RefValues results = evaluate(builder.graph(), feeds);
    found.losses.push_back(results.at(model.loss)[0]);
    found.norms.push_back(results.at(clip.norm)[0]);
    for (const auto& [before, after] : next) feeds[before] = results.at(after);
    if (after_step) after_step(step);
  }
  return found;
}

}  // namespace snug

// SPDX-License-Identifier: Apache-2.0
// How weights are trained, apart from the data: taken from the run configuration once.
#pragma once

#include <string>
#include <vector>

#include "optim/groups.h"
#include "optim/optimizer.h"
#include "optim/schedule.h"
#include "snug/config.h"

namespace snug::train {

struct Recipe {
  optim::Options optimizer;
  double max_grad_norm = 1.0;  // 0: no clipping
  Settings given;              // hyper-parameters that the user set
  optim::GroupRules groups;
  double label_smoothing = 0;
  std::vector<std::string> freeze;  // patterns; * matches any text
};

[[nodiscard]] Recipe recipe_of(const RunConfig& config);
/// The configuration with a number for every hyper-parameter that its optimizer has, and "auto" for
/// those that it does not have: what two configurations are compared by.
[[nodiscard]] RunConfig with_optimizer_values(const RunConfig& config);

/// What the updates of a run are fed, beside their batches; formed once.
struct UpdateRule {
  optim::Options optimizer;
  optim::Schedule schedule;
  std::vector<double> rates;  // the highest of every group of parameters (kHyperName)
};
/// `names` are the model's parameters in its order.
[[nodiscard]] UpdateRule update_rule(const RunConfig& config, const std::vector<std::string>& names,
                                     int64_t total_steps);
/// The learning rate of the update after `completed` updates.
[[nodiscard]] double learning_rate_at(const RunConfig& config, int64_t completed,
                                      int64_t total_steps);

/// The names that no pattern freezes, in order. Throws Error{bad_config} for a pattern that matches
/// nothing, and where nothing is left to train.
[[nodiscard]] std::vector<std::string> trainable_names(const std::vector<std::string>& names,
                                                       const std::vector<std::string>& freeze);

}  // namespace snug::train

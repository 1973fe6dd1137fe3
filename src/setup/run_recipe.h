// SPDX-License-Identifier: Apache-2.0
// The recipe of a run, taken from its configuration once.
#pragma once

#include <string>
#include <vector>

#include "programs/recipe.h"
#include "session/update.h"
#include "snug/config.h"

namespace snug::train {

[[nodiscard]] Recipe recipe_of(const RunConfig& config);
/// The configuration with a number for every hyper-parameter that its optimizer has, and "auto" for
/// those that it does not have: what two configurations are compared by.
[[nodiscard]] RunConfig with_optimizer_values(const RunConfig& config);

/// `names` are the model's parameters in its order.
[[nodiscard]] UpdateRule update_rule(const RunConfig& config, const std::vector<std::string>& names,
                                     int64_t total_steps);
/// The learning rate of the update after `completed` updates.
[[nodiscard]] double learning_rate_at(const RunConfig& config, int64_t completed,
                                      int64_t total_steps);

}  // namespace snug::train

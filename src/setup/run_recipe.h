// SPDX-License-Identifier: Apache-2.0
// How a run trains, as the options of a session, taken from its configuration once.
#pragma once

#include <string>
#include <vector>

#include "optim/optimizer.h"
#include "snug/config.h"
#include "snug/session.h"

namespace snug::train {

/// Batch, split, recomputation, optimizer, schedule over `total_steps` (0: not known, and of no
/// matter), frozen weights, seed and budget. What rows, process and machine say is left open.
/// Throws Error{bad_config} for keys that the optimizer has no use for.
[[nodiscard]] SessionOptions training_options(const RunConfig& config, int64_t total_steps);
/// What the network computes in; a part of the above, and all that evaluation alone takes.
void take_precision(const RunConfig& config, SessionOptions& options);
/// The optimizer with a value for each of its hyper-parameters.
[[nodiscard]] optim::Options optimizer_of(const RunConfig& config);
/// The configuration with a number for every hyper-parameter that its optimizer has, and "auto" for
/// those that it does not have: what two configurations are compared by.
[[nodiscard]] RunConfig with_optimizer_values(const RunConfig& config);

/// The learning rate of the update after `completed` updates.
[[nodiscard]] double learning_rate_at(const RunConfig& config, int64_t completed,
                                      int64_t total_steps);

}  // namespace snug::train

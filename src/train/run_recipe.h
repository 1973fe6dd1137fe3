// SPDX-License-Identifier: Apache-2.0
// How a run trains, taken from its configuration once: what a session is told of it.
#pragma once

#include <string>
#include <vector>

#include "optim/optimizer.h"
#include "snug/config.h"
#include "snug/session.h"
#include "snug/train_spec.h"

namespace snug::train {

/// Batch, split, recomputation, optimizer, schedule over `total_steps` (0: not known, and of no
/// matter), frozen weights, seed and budget. What rows, process and machine say is left open.
/// Throws Error{bad_config} for keys that the optimizer has no use for.
[[nodiscard]] TrainSpec training_spec(const RunConfig& config, int64_t total_steps);
/// The spec for evaluating what a run trained: precision, how weights are stored, seed and budget.
[[nodiscard]] TrainSpec evaluation_spec(const RunConfig& config);
/// The options of a session with these fields.
[[nodiscard]] SessionOptions session_options_of(const TrainSpec& spec);
/// The optimizer with a value for each of its hyper-parameters.
[[nodiscard]] optim::Options optimizer_of(const RunConfig& config);
/// The configuration with a number for every hyper-parameter that its optimizer has, and "auto" for
/// those that it does not have: what two configurations are compared by.
[[nodiscard]] RunConfig with_optimizer_values(const RunConfig& config);

/// The learning rate of the update after `completed` updates.
[[nodiscard]] double learning_rate_at(const RunConfig& config, int64_t completed,
                                      int64_t total_steps);

}  // namespace snug::train

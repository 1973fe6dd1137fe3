// SPDX-License-Identifier: Apache-2.0
// What is rarely meant of the labels of a run, by the rows that it trains on.
#pragma once

#include <vector>

#include "setup/model.h"
#include "setup/run_data.h"
#include "snug/run.h"

namespace snug::train {

/// Labels of the data that no row to train on has, and a metric_for_best_model that takes names
/// without an order for steps. Reads the rows that are held out.
[[nodiscard]] std::vector<Warning> run_label_warnings(const RunConfig& config, const Model& model,
                                                      const RunData& run);

}  // namespace snug::train

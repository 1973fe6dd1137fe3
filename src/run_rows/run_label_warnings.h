// SPDX-License-Identifier: Apache-2.0
// What is rarely meant of the labels of a run, by the rows that it trains on.
#pragma once

#include <vector>

#include "run_model/model.h"
#include "run_rows/run_data.h"
#include "snug/run.h"

namespace snug::run_rows {

/// Labels of the data that no row to train on has, and a metric_for_best_model that takes names
/// without an order for steps. Reads the rows that are held out.
[[nodiscard]] std::vector<Warning> run_label_warnings(const RunConfig& config,
                                                      const run_model::Model& model,
                                                      const RunData& run);

}  // namespace snug::run_rows

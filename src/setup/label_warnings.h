// SPDX-License-Identifier: Apache-2.0
// What is rarely meant of the labels of a run: known before it begins, and said.
#pragma once

#include <string>
#include <vector>

#include "setup/model.h"
#include "setup/run_data.h"
#include "snug/run.h"

namespace snug::train {

/// One label alone; names that differ only in case, blanks, Unicode form, quotes or the spelling of
/// a number; a class that is called as what has none ("-1", "NA"). `counts`: by label id.
[[nodiscard]] std::vector<Warning> label_warnings(const std::string& file,
                                                  const data::Labels& labels,
                                                  const std::vector<int64_t>& counts);

/// Labels of the data that no row to train on has, and a metric_for_best_model that takes names
/// without an order for steps. Reads the rows that are held out.
[[nodiscard]] std::vector<Warning> run_label_warnings(const RunConfig& config, const Model& model,
                                                      const RunData& run);

}  // namespace snug::train

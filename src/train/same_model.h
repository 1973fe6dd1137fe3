// SPDX-License-Identifier: Apache-2.0
// Whether a resumed run has the network that its checkpoint was made with. The model's folder is
// the user's and may have been edited since; last/ holds what the run began with, and was compared
// with its marker.
#pragma once

#include <string>

#include "run_model/model.h"
#include "snug/config.h"

namespace snug::train {

/// Compares the model, fitted to its data, with config.json of the checkpoint, and its adapters
/// with adapter_config.json. `before` and `now`: the configuration of the checkpoint and that of
/// this run. Throws Error{bad_config} naming the first field that differs.
void require_same_model(const run_model::Model& model, const std::string& checkpoint,
                        const RunConfig& before, const RunConfig& now);

}  // namespace snug::train

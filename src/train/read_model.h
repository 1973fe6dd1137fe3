// SPDX-License-Identifier: Apache-2.0
// The model that a run configuration names, read once: presets, config.json files and Hugging Face
// folders, whose weights are compared with their config.json; and which keys describe it.
#pragma once

#include "train/model.h"

namespace snug::train {

/// Throws Error{bad_config|bad_data}. fit_model comes next.
[[nodiscard]] Model read_model(const RunConfig& config);

/// read_model and fit_model at once.
[[nodiscard]] Model resolve_model(const RunConfig& config, const ModelFacts& facts);

}  // namespace snug::train

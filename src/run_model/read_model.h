// SPDX-License-Identifier: Apache-2.0
// The model that a run configuration names, read once: presets, config.json files and Hugging Face
// folders, whose weights are compared with their config.json; and which keys describe it.
#pragma once

#include <functional>
#include <string>

#include "run_model/model.h"

namespace snug::run_model {

/// Says what the labels of the run's rows look like; asked where nothing else says what the model
/// is for.
using TaskOfLabels = std::function<const tasks::Task&()>;

/// Throws Error{bad_config|bad_data}, and Error{out_of_budget} where the control group's limit does
/// not let the network be built. fit_model comes next.
[[nodiscard]] Model read_model(const RunConfig& config, const TaskOfLabels& of_labels = {});

/// Labels of a run that is resumed keep the order that they had in its checkpoint, whatever order
/// they would get today.
void keep_label_order(const std::string& checkpoint, Model& model);

/// The adapters that the configuration asks for, in place of those that the model has. Throws
/// Error{bad_config} for patterns that match no linear map, and where running statistics would
/// move.
void take_adapters(const RunConfig& config, Model& model);

}  // namespace snug::run_model

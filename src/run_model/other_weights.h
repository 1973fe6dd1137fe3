// SPDX-License-Identifier: Apache-2.0
// A folder without weights that Snug reads: whether it has none at all, and training begins with
// fresh ones, or has what may be weights in another form, at another place or under another name.
// Does not look into files: known harmless names pass, everything else may hold weights.
#pragma once

#include <string>

namespace snug::run_model {

/// Throws Error{bad_data}, with the line that helps, where a folder that has config.json has none
/// of the weights that Snug reads and any file that may hold others, in subfolders, too.
/// `output_dir` is the run's own and does not count.
void refuse_other_weights(const std::string& folder, const std::string& output_dir);

/// The newest checkpoint with config.json and weights among the folders in `folder`; empty: there
/// is none.
[[nodiscard]] std::string model_folder_in(const std::string& folder);

}  // namespace snug::run_model

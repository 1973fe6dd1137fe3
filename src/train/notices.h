// SPDX-License-Identifier: Apache-2.0
// What a run says of its model and data before it begins: which weights are fresh, what the labels
// are, which rows are left out. Texts alone; the caller prints them.
#pragma once

#include <string>
#include <vector>

#include "data/token_cache.h"
#include "train/model.h"

namespace snug::train {

/// Every weight that starts fresh, and the tensors of the folder that are not used.
[[nodiscard]] std::vector<std::string> weight_notices(const Model& model);
/// Where training cuts texts at another length than the folder was made for.
[[nodiscard]] std::vector<std::string> length_notices(const Model& model);
/// How the labels of `file` became ids, and a warning where one label alone occurs.
[[nodiscard]] std::vector<std::string> label_notices(const std::string& file,
                                                     const data::Labels& labels,
                                                     data::LabelSource source,
                                                     const std::vector<int64_t>& counts);
/// Warnings for rows that are left out.
[[nodiscard]] std::vector<std::string> row_notices(const std::string& file,
                                                   const data::DataReport& report);

}  // namespace snug::train

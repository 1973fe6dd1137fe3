// SPDX-License-Identifier: Apache-2.0
// What a run says of its data before it begins: what the labels are, which rows are left out. A
// text is empty where there is nothing to say; say() gives it to the run's messages.
#pragma once

#include <string>
#include <vector>

#include "data/token_cache.h"
#include "snug/run.h"

namespace snug::train {

/// Passes the text on as a message; an empty one is none.
void say(const RunOptions& options, const std::string& text);
void say(const RunOptions& options, const std::vector<std::string>& texts);

/// How the labels of `file` became ids, and a warning where one label alone occurs.
[[nodiscard]] std::vector<std::string> label_notices(const std::string& file,
                                                     const data::Labels& labels,
                                                     data::LabelSource source,
                                                     const std::vector<int64_t>& counts);
/// Warnings for rows that are left out.
[[nodiscard]] std::vector<std::string> row_notices(const std::string& file,
                                                   const data::DataReport& report,
                                                   const RunConfig& config);
}  // namespace snug::train

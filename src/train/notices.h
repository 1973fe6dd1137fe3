// SPDX-License-Identifier: Apache-2.0
// What a run says of its model and data before it begins: which weights are fresh, what the labels
// are, which rows are left out, what is allowed and rarely meant. A text is empty where there is
// nothing to say; say() gives it to the run's messages.
#pragma once

#include <string>
#include <vector>

#include "data/token_cache.h"
#include "snug/run.h"
#include "train/model.h"

namespace snug::train {

/// Passes the text on as a message; an empty one is none.
void say(const RunOptions& options, const std::string& text);
void say(const RunOptions& options, const std::vector<std::string>& texts);

/// Fields of config.json that are not understood, every weight that starts fresh, and the tensors
/// of the folder that are not used.
[[nodiscard]] std::vector<std::string> model_notices(const Model& model);
/// How the labels of `file` became ids, and a warning where one label alone occurs.
[[nodiscard]] std::vector<std::string> label_notices(const std::string& file,
                                                     const data::Labels& labels,
                                                     data::LabelSource source,
                                                     const std::vector<int64_t>& counts);
/// Warnings for rows that are left out.
[[nodiscard]] std::vector<std::string> row_notices(const std::string& file,
                                                   const data::DataReport& report);
/// The tokenizer has fewer tokens than the embedding of a model folder has rows.
[[nodiscard]] std::string spare_rows_warning(const Model& model, int64_t tokens);
/// The learning rate rises for as many updates as the run has, or for more.
[[nodiscard]] std::string warmup_warning(const RunConfig& config, int64_t updates);

}  // namespace snug::train

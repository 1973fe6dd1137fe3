// SPDX-License-Identifier: Apache-2.0
// What a run says of its model before it begins: which weights are fresh, what is allowed and
// rarely meant. A text is empty where there is nothing to say.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "notices/data_notices.h"
#include "run_model/model.h"
#include "snug/session.h"

namespace snug::notices {

/// Fields of config.json that are not understood, every weight that starts fresh, the tensors of
/// the folder that are not used, and which of several forms of its weights is read.
[[nodiscard]] std::vector<std::string> model_notices(const run_model::Model& model);
/// Tensors of the folder that the model has no use for; empty where there are none.
[[nodiscard]] std::string unused_notice(const run_model::Model& model);
/// What was left out of the names of all weights.
[[nodiscard]] std::string wrapper_notice(const run_model::Model& model);
/// Keys of the task that the folder says; empty where it says none.
[[nodiscard]] std::string kept_notice(const run_model::Model& model);
/// Which of transformers' classes read a model whose head transformers does not have.
[[nodiscard]] std::string head_notice(const run_model::Model& model);
/// The tokenizer has fewer tokens than the embedding of a model folder has rows.
[[nodiscard]] std::optional<Warning> spare_rows_warning(const run_model::Model& model,
                                                        int64_t tokens);
/// What resize_embeddings comes to.
[[nodiscard]] std::string resize_notice(const RunConfig& config, const run_model::Model& model);
/// The learning rate rises for as many updates as the run has, or for more.
[[nodiscard]] std::optional<Warning> warmup_warning(const RunConfig& config, int64_t updates);
/// Weights that freeze keeps as random as they begin, and adapters that it keeps from adding
/// anything.
[[nodiscard]] std::vector<Warning> frozen_warnings(const run_model::Model& model,
                                                   const std::vector<TensorInfo>& weights);

}  // namespace snug::notices

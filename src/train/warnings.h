// SPDX-License-Identifier: Apache-2.0
// What is allowed and rarely meant: one text a case, empty where there is nothing to say. The verbs
// send them to on_message.
#pragma once

#include <cstdint>
#include <string>

#include "snug/session.h"
#include "train/model.h"

namespace snug::train {

/// The tokenizer has fewer tokens than the embedding of a model folder has rows.
[[nodiscard]] std::string spare_rows_warning(const Model& model, int64_t tokens);
/// The learning rate rises for as many updates as the run has, or for more.
[[nodiscard]] std::string warmup_warning(const RunConfig& config, int64_t updates);

void send_warning(const RunOptions& options, const std::string& warning);

}  // namespace snug::train

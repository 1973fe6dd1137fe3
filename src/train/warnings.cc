// SPDX-License-Identifier: Apache-2.0
#include "train/warnings.h"

#include <fmt/format.h>

namespace snug::train {

std::string spare_rows_warning(const Model& model, int64_t tokens) {
  const int64_t rows = model.vocab_size();
  if (model.weights_folder.empty() || tokens >= rows) return {};
  return fmt::format(
      "the tokenizer has {} tokens, the model's embedding {} rows: the last {} are never read "
      "(usual "
      "where a model was padded, not where a vocabulary was cut)",
      tokens, rows, rows - tokens);
}

std::string warmup_warning(const RunConfig& config, int64_t updates) {
  if (updates <= 0 || config.warmup_steps < updates) return {};
  return fmt::format(
      "warmup_steps {} in a run of {} updates: the learning rate rises to the end and never "
      "reaches "
      "{:.3g}",
      config.warmup_steps, updates, config.learning_rate);
}

void send_warning(const RunOptions& options, const std::string& warning) {
  if (!warning.empty() && options.callbacks.on_message)
    options.callbacks.on_message("warning: " + warning);
}

}  // namespace snug::train

// SPDX-License-Identifier: Apache-2.0
// trainer_state.json in Hugging Face's form, as transformers.TrainerState.load_from_json reads it.
// For other programs: Snug itself resumes from snug_state.json (state.h) and reads nothing here.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace snug::train {

struct TransformersState {
  int64_t global_step = 0;
  double epoch = 0;
  int64_t max_steps = 0;
  int64_t num_train_epochs = 0;
  int64_t logging_steps = 0;
  int64_t eval_steps = 0;
  int64_t save_steps = 0;
  int64_t train_batch_size = 0;
  std::optional<double> best_metric;
  std::optional<int64_t> best_global_step;
  std::string best_model_checkpoint;
  /// Files of JSON lines, each in the order of steps; together they are log_history. Lines of other
  /// forms (a resume's changed keys) are left out.
  std::vector<std::string> logs;
};

/// Streams the logs: memory does not grow with them. Returns the SHA-256 of the file.
std::string write_trainer_state(const TransformersState& state, const std::string& path);

}  // namespace snug::train

// SPDX-License-Identifier: Apache-2.0
// The one gate to last/ and best/: nothing that is not finite passes. What stops a run there says
// where its last good checkpoint is.
#pragma once

#include <optional>
#include <string>

#include "train/training.h"

namespace snug::train {

/// What finds a number that is not finite.
enum class FoundBy { update, evaluation, save };

struct Found {
  FoundBy by;
  int64_t step;   // at this update
  int64_t moves;  // of weights after so many of the optimizer's steps
};

class CheckpointWriter {
 public:
  /// `good_step`: of the checkpoint that is in last/ already. `moves`: the optimizer's steps that
  /// the weights have behind them.
  CheckpointWriter(const TrainingContext& training, std::optional<int64_t> good_step, int64_t moves)
      : training_(training),
        is_resumed_(good_step.has_value()),
        first_moves_(moves),
        good_step_(good_step),
        good_moves_(moves) {}

  /// Throws Error{numeric}; the folders stay as they are.
  [[noreturn]] void fail(Found found, const std::string& what) const;
  void require_finite(const EvalMetrics& metrics, const RunState& state) const;
  /// Returns the SHA-256 of the weights.
  std::string save_last(const RunState& state);
  void save_best(const RunState& state) const;
  /// Copies last/ to checkpoint-N where save_steps and save_total_limit want that.
  void archive() const;
  /// The same for the checkpoint that a run resumes from, where a kill came between the two.
  void finish_archive() const;

 private:
  [[nodiscard]] bool keeps_archive() const;
  void require_finite_values(const RunState& state) const;
  [[nodiscard]] TransformersState trainer_state(const RunState& state) const;

  const TrainingContext& training_;
  bool is_resumed_ = false;
  int64_t first_moves_ = 0;  // of the weights that the run began with
  std::optional<int64_t> good_step_;
  int64_t good_moves_ = 0;  // of the weights in last/, or of those that training begins with
};

}  // namespace snug::train

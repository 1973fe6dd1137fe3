// SPDX-License-Identifier: Apache-2.0
// The one gate to last/ and best/: nothing that is not finite passes. What stops a run there says
// where its last good checkpoint is.
#pragma once

#include <optional>
#include <string>

#include "train/training.h"

namespace snug::train {

class CheckpointWriter {
 public:
  /// `good_step`: of the checkpoint that is in last/ already.
  CheckpointWriter(const Training& training, std::optional<int64_t> good_step)
      : training_(training), good_step_(good_step) {}

  /// Throws Error{numeric}; the folders stay as they are.
  [[noreturn]] void fail(int64_t step, const std::string& what) const;
  void require_finite(const EvalMetrics& metrics, int64_t step) const;
  /// Returns the SHA-256 of the weights.
  std::string save_last(const TrainState& state);
  void save_best(int64_t step) const;
  /// Copies last/ to checkpoint-N where save_steps and save_total_limit want that.
  void archive() const;
  /// The same for the checkpoint that a run resumes from, where a kill came between the two.
  void finish_archive() const;

 private:
  [[nodiscard]] bool keeps_archive() const;
  void require_finite_values(int64_t step) const;
  [[nodiscard]] TrainerState trainer_state(const TrainState& state) const;

  const Training& training_;
  std::optional<int64_t> good_step_;
};

}  // namespace snug::train

// SPDX-License-Identifier: Apache-2.0
// Where a run stands between two updates: with the weights and optimizer states, all that resuming
// needs. snug_state.json; trainer_state.json in checkpoints of older versions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "snug/instruction_set.h"
#include "snug/session.h"

namespace snug::train {

struct RunState {
  int64_t step = 0;            // updates done, skipped ones too
  int64_t schedule_step = 0;   // of them those that moved the schedule
  int64_t optimizer_step = 0;  // and those that moved the weights
  int64_t epoch = 0;
  int64_t batch = 0;  // of the epoch: the next one to draw
  int64_t micro_batch = 0;
  /// A hash of the training rows, their tokens and columns. Nothing in checkpoints of older
  /// versions, whose hashes were of other bytes.
  std::optional<uint64_t> rows_hash;
  std::optional<uint64_t> validation_hash;  // of validation_file's, where there is one
  std::optional<double> best_metric;
  std::optional<int64_t> best_step;  // absent in checkpoints of older versions
  /// The metric of weights that were the best until best/ was lost: early stopping goes on counting
  /// from it.
  std::optional<double> lost_metric;
  int64_t stale_evaluations = 0;
  std::optional<LossScale> loss_scale;  // where it is dynamic
  double loss_sum = 0;                  // since the last logged update
  int64_t loss_count = 0;
  int64_t metrics_bytes = 0;      // length of metrics.jsonl
  int64_t evaluations_bytes = 0;  // of evaluations.jsonl
  bool is_finished = false;
  bool owes_evaluation = false;  // of the newest update, which a signal ended
  LeverKeys levers;              // that the planner took; their keys are in the configuration, too
  /// The instruction set of the newest updates; nothing in checkpoints of older versions.
  std::optional<InstructionSet> instruction_set;
  std::string config_json;

  [[nodiscard]] double epochs_done(int64_t batches_per_epoch) const {
    return static_cast<double>(epoch) +
           static_cast<double>(batch) / static_cast<double>(batches_per_epoch);
  }
  [[nodiscard]] UpdateCounts counts() const { return {step, schedule_step, optimizer_step}; }
  void take(const UpdateCounts& counts) {
    step = counts.drawn;
    schedule_step = counts.schedule;
    optimizer_step = counts.optimizer;
  }
  [[nodiscard]] std::string to_json() const;
  /// Every field is checked for its range, and what is said twice for agreement. Throws
  /// Error{bad_data} naming the file and field.
  [[nodiscard]] static RunState from_json(const std::string& text, const std::string& file);
};

}  // namespace snug::train

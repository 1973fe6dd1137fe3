// SPDX-License-Identifier: Apache-2.0
// How a training run begins: with a fresh model or a trained one, or at the checkpoint in last/.
// What differs between the two is said here; everything else is the same for both.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "train/checkpoint.h"
#include "train/metrics_log.h"
#include "train/state.h"
#include "verbs/prepare.h"

namespace snug::verbs {

class RunStart {
 public:
  RunStart() = default;
  RunStart(const RunStart&) = delete;
  RunStart& operator=(const RunStart&) = delete;
  virtual ~RunStart() = default;

  /// Where model, labels and tokenizer of a checkpoint lie; empty where there is none.
  [[nodiscard]] virtual std::string checkpoint() const = 0;
  /// Whether model and rows are those that the run can go on with. Throws Error{bad_config} and
  /// Error{bad_data}.
  virtual void check(const RunConfig& config, const RunSetup& setup) = 0;
  /// take_levers(), or the levers of the checkpoint.
  [[nodiscard]] virtual TakenLevers levers(RunConfig& config, const Machine& machine,
                                           RunSetup& setup) const = 0;
  /// Throws what plan_setup does.
  [[nodiscard]] virtual ReportedPlan plan(const RunConfig& config, const RunSetup& setup,
                                          const Machine& machine) const = 0;
  /// Fills weights and optimizer states. Returns the SHA-256 of what adapters leave as it is, where
  /// it was read.
  [[nodiscard]] virtual std::string load(const RunConfig& config, const run_model::Model& model,
                                         Session& session) const = 0;
  /// Says where the run goes on.
  virtual void report() const = 0;

  /// The state before the first update to come.
  [[nodiscard]] const train::RunState& state() const { return state_; }
  /// The update of the checkpoint in last/; nothing where there is none.
  [[nodiscard]] virtual std::optional<int64_t> good_step() const = 0;
  /// Keys that the user changed since the checkpoint.
  [[nodiscard]] const std::vector<train::KeyChange>& changes() const { return changes_; }
  /// A finished run that is resumed, and asked for no further update.
  [[nodiscard]] bool trains_nothing() const { return trains_nothing_; }

 protected:
  train::RunState state_;
  std::vector<train::KeyChange> changes_;
  bool trains_nothing_ = false;
};

/// Looks into output_dir, and copies rows that come from streams into `work`. What a resumed run
/// keeps of its checkpoint is set in the configuration: levers that were taken, and the task.
/// Throws Error{bad_config} where the folder has a run and `resume` is not set, Error{bad_data}
/// where its checkpoint is damaged.
[[nodiscard]] std::unique_ptr<RunStart> open_start(const train::RunFolder& folder,
                                                   const run_rows::WorkFolder& work,
                                                   RunConfig& config, const RunOptions& options);

}  // namespace snug::verbs

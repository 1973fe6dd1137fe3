// SPDX-License-Identifier: Apache-2.0
// Going on from a checkpoint: whether its files are what was written, whether it belongs to this
// run and its rows, and which keys the user changed since.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "run_rows/run_data.h"
#include "snug/run.h"
#include "train/checkpoint.h"
#include "train/metrics_log.h"

namespace snug::train {

/// Puts right what a kill left in last/ and best/, compares the files of last/ with their marker
/// and reads its state; nothing where there is no checkpoint. Throws Error{bad_data}.
[[nodiscard]] std::optional<RunState> read_checkpoint(const RunFolder& folder,
                                                      const RunOptions& options);

/// A checkpoint that lost its marker is none: said before anything is done, not by the first save,
/// when the run is over and its log is cut. Throws Error{bad_config}.
void refuse_incomplete(const RunFolder& folder);

/// The same of the checkpoint-N that the run is going to write; `step`: it has done so many
/// updates.
void refuse_foreign_archives(const RunFolder& folder, const RunConfig& config, int64_t step,
                             int64_t batches_per_epoch);

/// What best/ should hold against its marker. Where it is gone its metric is forgotten, which is
/// said: the next evaluation writes it again, and last/ goes on as it would have. Throws
/// Error{bad_data} where its weights or any of its files are lost; of others that were edited it is
/// said.
void check_best(const RunFolder& folder, const RunOptions& options, RunState& state);

/// The keys that have another value than in the checkpoint. Throws Error{bad_config} for one that
/// is fixed.
[[nodiscard]] std::vector<KeyChange> changed_keys(const RunConfig& before, const RunConfig& now);

/// The state against the rows, its own fields, its configuration and the log of evaluations: the
/// rows are those of the checkpoint, and its position is one that the run had. What cannot be known
/// is whether the micro-batch is the one that was chosen: keys of earlier resumes may have said it.
/// Forgets best_step where the log that shows it is lost.
/// Throws Error{bad_data}.
void check_state(const RunConfig& before, const RunConfig& now, const run_rows::RunData& data,
                 const RunFolder& folder, RunState& state);
/// A state has a scale where that is dynamic. Throws Error{bad_data}.
void require_kind_of_scale(const RunState& state, const Session& session, const RunFolder& folder);
/// Fills in what the state keeps of the rows.
void note_data(const run_rows::RunData& data, RunState& state);

/// After a change of max_steps or num_train_epochs: whether the run is at its end. Throws
/// Error{bad_config} where more updates are done than asked for.
[[nodiscard]] bool is_at_end(const RunState& state, const RunConfig& before, const RunConfig& now,
                             int64_t batches_per_epoch);

/// Says each change, and the schedule that results.
void report_changes(const std::vector<KeyChange>& changes, const RunState& state,
                    const RunConfig& now, int64_t batches_per_epoch, const RunOptions& options);

/// The micro-batch of a resumed run: the checkpoint's, unless the user permits another; 0: free.
[[nodiscard]] int64_t micro_batch_of(const RunConfig& config, const RunState& state);

}  // namespace snug::train

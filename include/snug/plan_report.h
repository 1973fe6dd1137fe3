// SPDX-License-Identifier: Apache-2.0
// What `snug plan` tells of a run before it starts. All bytes are exact; times are predictions for
// this machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "snug/lengths.h"
#include "snug/levers.h"

namespace snug {

/// One part of the budget, largest first in reports.
struct MemoryComponent {
  std::string name;  // "weights", "optimizer states", "gradients", "batch", "arena", "process"
  int64_t bytes = 0;
};

/// StateReport::codec of a state that is stored as it is.
inline constexpr const char* kPlainStates = "float32";

/// One state of the optimizer, of one weight.
struct StateReport {
  std::string name;   // of the weight
  std::string role;   // "m", "v", ...
  std::string codec;  // "float32", or of 8 bits "default" or "bnb"
  int64_t bytes = 0;  // with scales
};

/// One plan that fits from this budget on: the price list.
struct PriceRow {
  int64_t budget_bytes = 0;
  double step_seconds = 0;
  int64_t micro_batch = 0;
  std::string strategy;
  bool two_pass_clip = false;
  bool packed_weights = false;
  bool is_chosen = false;
};

/// A tensor that is live at the peak.
struct PeakTensor {
  std::string name;
  int64_t bytes = 0;
};

/// How consecutive equal parts of the model (the layers of an encoder) are treated.
struct BlockTreatment {
  std::string first;  // scope of the first, "bert.encoder.layer.0"
  std::string last;
  int64_t count = 1;
  int64_t keep_all_bytes = 0;           // of one: in memory at the loss where all is kept
  int64_t kept_bytes = 0;               // of one: in memory at the loss in this plan
  double forward_seconds = 0;           // of one
  double recompute_seconds = 0;         // of one: forward ops run again
  std::vector<std::string> recomputed;  // types of ops run again, longest first
  std::vector<std::string> kept;        // types of ops whose outputs are kept, largest first
};

/// Bytes of the arena over one micro-batch: in use after each op.
struct MemoryCurve {
  std::string name;             // "keep-all", "this plan"
  std::vector<double> seconds;  // when the op ends
  std::vector<int64_t> bytes;
};

/// A tensor's place in the arena.
struct PlacedTensor {
  std::string name;
  double begin_seconds = 0;
  double end_seconds = 0;
  int64_t offset = 0;
  int64_t bytes = 0;
  bool is_again = false;  // made by a recomputation
};

/// The lengths that the rows of one program are padded to.
struct PlannedLength {
  Lengths length;
  double update_seconds = 0;  // of an update that it runs
};

struct PlanReport {
  // The whole process: process + resident + arena = planned peak <= budget.
  int64_t budget_bytes = 0;
  int64_t process_bytes = 0;  // code, libraries, stacks, tokenizer, tables: a rounded reservation
  /// The part of these for a thread that reads the rows of the next batch while one is trained on;
  /// 0: the plan leaves none for it, and rows are read when they are needed.
  int64_t read_ahead_bytes = 0;
  /// The part of them that holds the file of the rows instead, which is then read once; 0: it is
  /// too large for what the plan leaves, or for 256 MiB.
  int64_t held_rows_bytes = 0;
  int64_t resident_bytes = 0;  // weights, states, batch, gradients that live until a global clip
  /// All else. Activations also use the place of gradients that are not made yet: the arena is what
  /// the step needs beyond resident_bytes.
  int64_t arena_bytes = 0;
  int64_t planned_peak_bytes = 0;
  int64_t keep_all_arena_bytes = 0;  // of keep-all at this micro-batch
  /// The peak of keep-all with micro-batches of keep_all_micro_batch: the whole batch in one piece,
  /// unless micro_batch_size says otherwise.
  int64_t keep_all_peak_bytes = 0;
  int64_t keep_all_micro_batch = 0;
  int64_t load_bytes =
      0;  // largest sum of live bytes of the chosen schedule: no placement is smaller
  int64_t working_set_bound_bytes =
      0;  // operands of one op, beyond resident_bytes: no schedule is smaller
  int64_t smallest_budget_bytes = 0;
  int64_t micro_batch = 0;
  int64_t accumulation_steps = 0;
  bool two_pass_clip = false;   // an update runs its program twice, first for the norm only
  bool packed_weights = false;  // weights are packed once an update for products of few rows
  /// Gradients of one micro-batch that die as they are used: they would be resident if they waited
  /// for the norm of all.
  int64_t dying_gradient_bytes = 0;
  double step_seconds = 0;  // one update, all rows at the largest length
  /// By how much of itself step_seconds may be wrong, from how well the machine's measured speeds
  /// agree with each other and from operands that no cache holds.
  double step_seconds_uncertainty = 0;
  /// Sums onto a gradient that run in one kernel with others, and these kernels, in a micro-batch
  /// of the largest length.
  int64_t fused_sums = 0;
  int64_t fused_kernels = 0;
  /// Ops that go through a piece of rows together, so that what they hand on need not be in memory,
  /// and their kernels, in a micro-batch of the largest length.
  int64_t row_program_ops = 0;
  int64_t row_programs = 0;
  /// Runs of forward ops beyond the first of each, in a micro-batch of the largest length.
  int64_t ops_run_again = 0;
  double recompute_overhead = 0;    // fraction of the keep-all step time at this micro-batch
  double lower_bound_overhead = 0;  // no schedule within these bytes has less
  std::string strategy;
  std::string peak_op;
  std::string instruction_set;  // that this plan is for (snug/instruction_set.h)
  /// Why a row's result depends on the other rows of its batch ("normalises by the statistics of
  /// its batch"), which is then split only where that was asked for; empty where it does not.
  std::string row_coupling;

  std::vector<PlannedLength>
      lengths;           // in the order of the options; empty in a plan for evaluation only
  int64_t programs = 0;  // of training, update and evaluation

  // For people.
  std::string model;
  int64_t parameters = 0;
  int64_t trainable_parameters = 0;
  int64_t train_batch_size = 0;
  Lengths max_length = {};
  std::string precision;  // what is not in 32 bits: bf16, trained weights bfloat16
  std::string row;      // what one is, where max_length does not say it: "image of 32 x 32 pixels"
  int64_t updates = 0;  // of the whole run; 0 where it is not known
  double run_seconds = 0;  // of the whole run, by length buckets; 0 where it is not known
  std::vector<MemoryComponent> components;
  std::vector<StateReport> states;   // in order of weight
  LeverKeys levers_taken;            // of those that the run allows; empty: none
  LeverKeys smallest_budget_levers;  // of those, what the smallest budget takes
  std::vector<PriceRow> prices;
  std::vector<PeakTensor> peak_tensors;  // of the chosen plan's peak, largest first
  std::vector<BlockTreatment> blocks;
  std::vector<MemoryCurve> curves;   // of keep-all and of the chosen plan
  std::vector<PlacedTensor> placed;  // of the chosen plan

  /// One JSON object, the contract of docs/files.md.
  [[nodiscard]] std::string to_json() const;
  /// The table that `snug plan` prints.
  [[nodiscard]] std::string to_text() const;
  /// One page of HTML that needs nothing else: memory over time, the arena's map, the price list.
  [[nodiscard]] std::string to_html() const;
};

}  // namespace snug

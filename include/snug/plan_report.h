// SPDX-License-Identifier: Apache-2.0
// What `snug plan` tells of a run before it starts. All bytes are exact; times are predictions for
// this machine.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace snug {

/// One part of the budget, largest first in reports.
struct MemoryComponent {
  std::string name;  // "weights", "optimizer states", "gradients", "batch", "arena", "process"
  int64_t bytes = 0;
};

/// One plan that fits from this budget on: the price list.
struct PriceRow {
  int64_t budget_bytes = 0;
  double step_seconds = 0;
  int64_t micro_batch = 0;
  std::string strategy;
  bool is_chosen = false;
};

/// A tensor that is live at the peak.
struct PeakTensor {
  std::string name;
  int64_t bytes = 0;
};

struct PlanReport {
  // The whole process: process + resident + arena = planned peak <= budget.
  int64_t budget_bytes = 0;
  int64_t process_bytes = 0;   // code, libraries, stacks, tokenizer, tables: a rounded reservation
  int64_t resident_bytes = 0;  // weights, states, batch, gradients that live until a global clip
  /// All else. Activations also use the place of gradients that are not made yet: the arena is what
  /// the step needs beyond resident_bytes.
  int64_t arena_bytes = 0;
  int64_t planned_peak_bytes = 0;
  int64_t keep_all_arena_bytes = 0;  // of keep-all at this micro-batch
  int64_t keep_all_peak_bytes =
      0;  // of keep-all with the whole batch in one piece: what no planning would need
  int64_t load_bytes =
      0;  // largest sum of live bytes of the chosen schedule: no placement is smaller
  int64_t working_set_bound_bytes =
      0;  // operands of one op, beyond resident_bytes: no schedule is smaller
  int64_t smallest_budget_bytes = 0;
  int64_t micro_batch = 0;
  int64_t accumulation_steps = 0;
  double step_seconds = 0;          // one update, all rows at the largest length
  double recompute_overhead = 0;    // fraction of the keep-all step time at this micro-batch
  double lower_bound_overhead = 0;  // no schedule within these bytes has less
  std::string strategy;
  std::string peak_op;

  // For people.
  std::string model;
  int64_t parameters = 0;
  int64_t trainable_parameters = 0;
  int64_t train_batch_size = 0;
  int64_t max_length = 0;
  int64_t image_size = 0;  // side of the images; 0: rows are texts of max_length tokens
  int64_t updates = 0;     // of the whole run; 0 where it is not known
  double run_seconds = 0;  // of the whole run, by length buckets; 0 where it is not known
  std::vector<MemoryComponent> components;
  std::vector<PriceRow> prices;
  std::vector<PeakTensor> peak_tensors;

  /// One JSON object, the contract of docs/files.md.
  [[nodiscard]] std::string to_json() const;
  /// The table that `snug plan` prints.
  [[nodiscard]] std::string to_text() const;
};

}  // namespace snug

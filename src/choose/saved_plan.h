// SPDX-License-Identifier: Apache-2.0
// A run's plan as a file: the split and, for each program, the order of its ops and the place of
// every tensor. Replaying it gives the same run whatever the planner would choose today.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "plan/problem/plan.h"
#include "snug/lengths.h"

namespace snug::choose {

struct RunPlan;

struct SavedPlan {
  struct Program {
    std::string kind;     // "train", "eval", "prologue", "update"
    Lengths length = {};  // that rows are padded to; none for the last two
    plan::Plan plan;
  };
  std::string file;
  int64_t micro_batch = 0;
  bool has_two_passes = false;  // Recipe
  bool packs_weights = false;   // SplitForm
  std::vector<Program> programs;

  /// The plan of a program, with the seconds predicted for this machine, judged by the independent
  /// validator. Throws Error{bad_data} where the file has none or it is not valid for this problem
  /// (another model, batch, length or optimizer).
  [[nodiscard]] plan::Plan at(const std::string& kind, const Lengths& length,
                              const plan::Problem& problem) const;
};

/// Throws Error{bad_data} that names the field where the file is not a saved plan.
[[nodiscard]] SavedPlan read_saved_plan(const std::string& file);
void write_saved_plan(const std::string& file, const RunPlan& run);

}  // namespace snug::choose

// SPDX-License-Identifier: Apache-2.0
// What is asked of a plan: a network, how it is trained, and a number of bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compile/fusion_levels.h"
#include "compile/network_def.h"
#include "compile/recipe.h"
#include "compile/recorder.h"
#include "snug/levers.h"
#include "spec/option_words.h"

namespace snug::choose {

struct SavedPlan;  // choose/saved_plan.h

struct RunPlanRequest {
  compile::NetworkDef network;
  compile::Recipe recipe;
  int64_t global_batch = 0;
  int64_t micro_batch = 0;  // 0: chosen here
  /// One program each; a batch runs in the first that holds it. The last holds every other, and
  /// decides.
  std::vector<Lengths> lengths;
  std::string strategy;              // named: what is recomputed; empty: by the budget
  bool allow_coupled_split = false;  // although the network couples its rows
  /// Whether an update that waits for a norm goes through its program twice (Recipe); unset: where
  /// that is the fastest that fits.
  std::optional<bool> two_pass_clip = {};
  /// Whether weights are packed once an update where that is of use (compile/pack_weights.h);
  /// unset: where that is the fastest that fits.
  std::optional<bool> packs_weights = {};
  compile::FusionLevels fusion =
      {};                     // where the plan has the bytes for it (plan/improve/fuse_rows.h)
  int64_t budget_bytes = 0;   // of resident + arena + process_bytes
  int64_t process_bytes = 0;  // 0 inside somebody else's process
  int64_t startup_bytes =
      0;                     // what the steps before training need at least (learning a vocabulary)
  bool trains = true;        // false: only evaluation
  bool reads_ahead = false;  // rows of the next batch, where the budget has bytes left for it
  int64_t row_file_bytes = 0;        // held in memory instead, where it has as many left; 0: never
  bool has_16_bits = false;          // mixed precision
  bool has_coded_weights = false;    // trained weights in fewer bits
  bool has_coded_frozen = false;     // frozen ones
  const SavedPlan* saved = nullptr;  // replayed; then micro_batch is its own
  bool may_take_levers = false;      // a run with a hint may be faster by levers that it is allowed
  LeverKeys taken_levers = {};       // set already; hints that build on them name them
  bool takes_smallest = false;       // a plan for the smallest budget in place of a refusal
  spec::OptionWords words = spec::OptionWords::command_line;
  compile::Records records = compile::Records::none;  // of the compilation of what is planned
  bool wants_picture = false;                         // curves and placed tensors in the report
  /// `phase` is what is being done: "building the graph", "placement". May be empty.
  std::function<void(int64_t done, int64_t total, const char* phase)> on_progress = {};
  /// A request like the given one of this run, with rows of at most `longest` and batches of
  /// `global_batch`: programs and process_bytes follow. Empty: the sizes cannot be changed.
  std::function<RunPlanRequest(const RunPlanRequest& from, const Lengths& longest,
                               int64_t global_batch)>
      resized = {};
  /// The request of this run with these keys of its configuration set, as a run with them makes it.
  /// Throws Error{bad_config} where they may not be. Empty: the keys cannot be changed.
  std::function<RunPlanRequest(const LeverKeys& keys)> changed = {};
};

}  // namespace snug::choose

// SPDX-License-Identifier: Apache-2.0
// How a run goes: its programs, each with its plan, and where everything lies.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "compile/compile.h"
#include "compile/recorder.h"
#include "runtime/lowered.h"
#include "runtime/resident_layout.h"
#include "snug/plan_report.h"

namespace snug::choose {

struct PlannedProgram {
  Lengths length = {};  // that rows are padded to; none for what runs once an update
  Graph graph;
  runtime::Lowered lowered;
  plan::Plan plan;
  std::vector<compile::StageRecord> stages =
      {};  // of its compilation, where the request records them
};

struct RunPlan {
  PlanReport report;
  int64_t micro_batch = 0;
  int64_t accumulation_steps = 0;
  bool has_two_passes = false;             // Recipe
  compile::PackedWeights packed;           // Recipe
  std::vector<PlannedProgram> train;       // in the order of the request; empty for evaluation only
  std::optional<PlannedProgram> prologue;  // before the micro-batches, and before evaluation
  std::optional<PlannedProgram> update;    // behind them
  std::vector<PlannedProgram> eval;        // in the same order
  runtime::ResidentLayout residents;
  int64_t arena_bytes = 0;
  /// The part of the arena that gradients take which all live until the global clip, in whole
  /// pages. Reports count them as resident; the arena uses their place before they are made.
  int64_t gradient_bytes = 0;
};

/// Bytes of the arena as reports say them: beyond resident bytes, to which the gradients count that
/// live until the global clip.
[[nodiscard]] inline int64_t reported_arena_bytes(const RunPlan& run, int64_t bytes) {
  return bytes - run.gradient_bytes;
}

}  // namespace snug::choose

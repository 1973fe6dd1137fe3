// SPDX-License-Identifier: Apache-2.0
// How far planning is, for whoever waits: two steps a split (its programs, its schedules), then one
// for each program of the plan that was chosen and one for the report.
#pragma once

#include <cstdint>

#include "choose/request.h"

namespace snug::choose {

// What is being done.
inline constexpr const char* kBuilding = "building the graph";
inline constexpr const char* kLowering = "lowering";
inline constexpr const char* kPlacement = "placement";

class PlanningProgress {
 public:
  /// Refers to the request.
  explicit PlanningProgress(const RunPlanRequest& request);

  /// So many splits will be tried; what was done stays done.
  void expect_splits(int64_t splits);
  void end_step() { ++done_; }
  /// `share`: of the step that was begun, from 0 to 1.
  void tell(double share, const char* phase) const;
  /// So many programs of the chosen plan are not there yet.
  void tell_programs_left(int64_t programs, const char* phase);
  void finish() const;

 private:
  void tell_parts(int64_t parts, const char* phase) const;
  [[nodiscard]] int64_t all_parts() const;

  const RunPlanRequest& request_;
  int64_t programs_;  // and the report
  int64_t splits_ = 0;
  int64_t done_ = 0;  // steps
};

}  // namespace snug::choose

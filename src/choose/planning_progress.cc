// SPDX-License-Identifier: Apache-2.0
#include "choose/planning_progress.h"

namespace snug::choose {
namespace {

constexpr int64_t kPartsOfStep = 100;

}  // namespace

PlanningProgress::PlanningProgress(const RunPlanRequest& request)
    : request_(request),
      programs_(static_cast<int64_t>(request.lengths.size()) * (request.trains ? 2 : 1) + 1) {}

void PlanningProgress::expect_splits(int64_t splits) { splits_ = splits; }

int64_t PlanningProgress::all_parts() const { return kPartsOfStep * (2 * splits_ + programs_); }

void PlanningProgress::tell_parts(int64_t parts, const char* phase) const {
  if (request_.on_progress) request_.on_progress(parts, all_parts(), phase);
}

void PlanningProgress::tell(double share, const char* phase) const {
  const double parts = static_cast<double>(kPartsOfStep) * (static_cast<double>(done_) + share);
  tell_parts(static_cast<int64_t>(parts), phase);
}

void PlanningProgress::tell_programs_left(int64_t programs, const char* phase) {
  done_ = 2 * splits_ + programs_ - (1 + programs);
  tell(0, phase);
}

void PlanningProgress::finish() const { tell_parts(all_parts(), kPlacement); }

}  // namespace snug::choose

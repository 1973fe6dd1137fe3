// SPDX-License-Identifier: Apache-2.0
// A problem's operands in the form in which schedules are measured.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/id_vector.h"
#include "plan/problem/plan.h"

namespace snug::plan {

/// What liveness reads of a problem, close together: made once for many schedules, of which each
/// reads most of it. Refers to the problem, which must outlive it.
class LivenessTable {
 public:
  LivenessTable(const Problem& problem);  // NOLINT: made on the way where there is one schedule

  struct OpEntry {
    std::span<const StorageId> inputs;  // without residents
    std::span<const StorageId> outputs;
    int64_t scratch_bytes = 0;
    double seconds = 0;
    double fused_seconds = 0;
    Phase phase = Phase::forward;
    bool has_reuses = false;
    bool is_by_rows = false;
  };
  [[nodiscard]] const Problem& problem() const { return problem_; }
  [[nodiscard]] const OpEntry& op(OpId id) const { return ops_[id]; }
  [[nodiscard]] int64_t bytes(StorageId id) const { return bytes_[id]; }

 private:
  const Problem& problem_;
  std::vector<StorageId> operands_;
  IdVector<OpId, OpEntry> ops_;
  IdVector<StorageId, int64_t> bytes_;
};

}  // namespace snug::plan

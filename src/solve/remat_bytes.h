// SPDX-License-Identifier: Apache-2.0
// The bytes of a valid schedule, for the independent check.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/problem/plan.h"
#include "snug/solve_remat.h"

namespace snug::solve {

struct CountedBytes {
  int64_t peak_bytes = 0;
  std::string peak_op;  // empty: at the boundary
  std::vector<int64_t> step_bytes;
  std::optional<RematParts> parts;
};

class ByteCount {
 public:
  /// Both must outlive it. Every read of `steps` finds what it reads.
  ByteCount(const plan::Problem& problem, const std::vector<const plan::Op*>& steps);
  /// With so many steps in front of the boundary, where the problem has one; all forward outputs
  /// are in memory then. O(steps).
  [[nodiscard]] CountedBytes count(int64_t boundary_step) const;

 private:
  // From the step that makes it to its last use.
  struct Made {
    plan::StorageId id;
    int64_t first = 0;
    int64_t last = 0;
  };
  [[nodiscard]] plan::StorageId holder(plan::StorageId id) const;
  [[nodiscard]] int64_t bytes_of(const Made& made) const {
    return problem_.storages[made.id].bytes;
  }
  [[nodiscard]] std::vector<bool> outputs_at(int64_t boundary_step) const;

  const plan::Problem& problem_;
  const std::vector<const plan::Op*>& steps_;
  std::vector<Made> made_;
};

}  // namespace snug::solve

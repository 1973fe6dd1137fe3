// SPDX-License-Identifier: Apache-2.0
// A joint graph (joint.h) as a plain problem that means the same, and schedules of that back. No
// byte and no run differs between the two:
//
//  - a view is its root: ops that make views which somebody reads are left out, and come back in
//    front of the readers;
//  - ordered ops all write one resident storage without bytes, whose versions keep their order;
//  - the boundary is an op of its own, which runs once, reads the forward outputs and makes a
//  storage
//    without bytes that the backward part reads; ops of the forward part see a resident storage
//    before that op writes it;
//  - what the bases of both parts have in common is left out, what one has more is a storage that
//    lives in that part. At the boundary it does not count, so the scratch there may be negative.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/id_vector.h"
#include "plan/problem/plan.h"

namespace snug::plan {

struct PlainProblem {
  Problem problem;  // the storages of the joint graph with their ids, and then some
  // Ids in the joint graph, of variants as well; none: of the boundary itself.
  IdVector<OpId, OpId> original;
  OpId between;              // the boundary; none where there is none
  int32_t boundary_ops = 0;  // how many have no original
  int64_t common_bytes = 0;  // to be added to all its loads
};

/// `problem` is validated.
[[nodiscard]] PlainProblem plain_problem(const Problem& problem);

/// A schedule's boundary and what lies on its sides. Peaks count the part's base.
struct PartBytes {
  int64_t boundary_step = 0;  // steps of the forward part
  int64_t forward_peak_bytes = 0;
  int64_t backward_peak_bytes = 0;
  int64_t crossing_bytes = 0;
  std::vector<StorageId> crossing;
};

struct JointSchedule {
  std::vector<OpId> ops;  // in the ids of the joint graph, the ops that make views among them
  std::optional<PartBytes> parts;
};

/// `schedule` is one of `plain.problem`, and that of `problem`.
[[nodiscard]] JointSchedule joint_schedule(const Problem& problem, const PlainProblem& plain,
                                           std::span<const OpId> schedule);

}  // namespace snug::plan

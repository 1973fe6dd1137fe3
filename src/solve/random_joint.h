// SPDX-License-Identifier: Apache-2.0
// Random joint graphs with views, ordered ops, ops of one part and a boundary. Test code only.
#pragma once

#include <cstdint>

#include "plan/problem/plan.h"

namespace snug::solve::testing {

struct JointShape {
  int32_t forward_ops = 3;
  int32_t backward_ops = 3;
  int32_t views = 2;     // at most
  int32_t variants = 0;  // at most
  bool has_boundary = true;
};
/// Valid; bytes and costs are small integers.
[[nodiscard]] plan::Problem random_joint_graph(uint64_t seed, const JointShape& shape);

}  // namespace snug::solve::testing

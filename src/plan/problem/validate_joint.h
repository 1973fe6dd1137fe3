// SPDX-License-Identifier: Apache-2.0
// The part of validate() that looks at views, ordered ops and the boundary.
#pragma once

#include "plan/problem/plan.h"

namespace snug::plan {

/// Throw Error{invalid_graph} that names the storage or op. The first comes before everything else
/// that is validated, the last behind it.
void validate_views(const Problem& problem);
void validate_joint_op(const Problem& problem, const Op& op);
void validate_boundary(const Problem& problem);

}  // namespace snug::plan

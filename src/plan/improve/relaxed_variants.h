// SPDX-License-Identifier: Apache-2.0
// Bounds of a problem whose ops may run in several ways.
#pragma once

#include "plan/problem/plan.h"

namespace snug::plan {

/// A problem without variants, in which every op reads only what it reads in all its ways and has
/// the least scratch of them: each schedule of `problem` is one of it, in no more bytes and
/// seconds.
[[nodiscard]] Problem relaxed_variants(const Problem& problem);

}  // namespace snug::plan

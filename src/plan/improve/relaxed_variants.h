// SPDX-License-Identifier: Apache-2.0
// Bounds of a problem whose ops may run in several ways.
#pragma once

#include <vector>

#include "base/id_vector.h"
#include "plan/problem/plan.h"

namespace snug::plan {

/// A problem without variants, in which every op reads only what it reads in all its ways and has
/// the least scratch of them: each schedule of `problem` is one of it, in no more bytes and
/// seconds.
[[nodiscard]] Problem relaxed_variants(const Problem& problem);

/// For bounds of seconds, which relaxed_variants leaves little to count. A variant that reads all
/// that the maker of an input reads, and not that input, computes it within: that is as if the
/// maker ran again right before, in no bytes and in the time that the variant takes more.
struct RelaxedRuns {
  Problem problem;  // without variants; inputs are what each way reads or computes within
  IdVector<OpId, std::vector<StorageId>> sure_inputs;  // made before the op in all ways
  IdVector<OpId, std::vector<StorageId>> any_inputs;   // read in some way
  IdVector<OpId, double> again_seconds;   // no less is paid for what the op makes again
  IdVector<OpId, int64_t> operand_bytes;  // no way has less
};
[[nodiscard]] RelaxedRuns relaxed_runs(const Problem& problem);

}  // namespace snug::plan

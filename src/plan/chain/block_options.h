// SPDX-License-Identifier: Apache-2.0
// What a block may keep between its forward and its backward run: the Pareto front of its
// save-sets, each measured by exact liveness on the block only. Pinned storages are outside all
// numbers (they are constant for a problem).
#pragma once

#include <cstdint>
#include <vector>

#include "base/index_vector.h"
#include "plan/chain/blocks.h"

namespace snug::plan {

struct BlockOption {
  std::vector<StorageId>
      saved;  // held from the block's forward to its backward, its input included where it is kept
  int64_t saved_bytes = 0;
  /// Whether `saved` has the block's whole articulation sets. They are shared with the neighbours,
  /// so the chain counts them itself.
  bool saves_input = false;
  bool saves_output = false;
  int64_t inner_bytes = 0;  // saved_bytes without them
  int64_t forward_peak_bytes =
      0;  // of the forward run that leaves `saved` and the output, input included
  int64_t backward_peak_bytes = 0;  // of the backward run with recomputation inside, input excluded
  double recompute_seconds = 0;     // forward ops run again inside the backward
};

struct BlockOptions {
  bool runs_once = false;  // no forward run but the first
  double forward_seconds = 0;
  int64_t input_bytes = 0;         // of the block's input set, without what is pinned
  int64_t past_bytes = 0;          // that part of it which is in the output set too
  int64_t advance_peak_bytes = 0;  // of a forward run that keeps nothing but input and output
  int64_t entry_bytes =
      0;  // made by the backward part before this block's and still live when it begins
  int64_t foreign_bytes = 0;  // that part of entry_bytes which this block's backward does not touch
  std::vector<BlockOption> options;  // keep-all first, then by falling saved bytes
};

struct OptionLimits {
  int32_t max_groups =
      10;  // save candidates enumerated exactly (2^groups); more are dropped greedily
  int32_t max_options = 24;  // of one block
};

/// One entry per block; equal blocks are enumerated once.
[[nodiscard]] IndexVector<BlockOptions> block_options(const ProblemIndex& index, const Chain& chain,
                                                      const OptionLimits& limits = {});

}  // namespace snug::plan

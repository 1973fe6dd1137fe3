// SPDX-License-Identifier: Apache-2.0
// Cuts the forward part of a problem into blocks. The storages that are made before a cut and used
// after it are its articulation set: at most one storage where such cuts are good enough (an
// encoder), a few where they are not (the states of a recurrent net, the skips of a U-Net). What
// many blocks use (a mask made once at the front, a long skip) is carried: kept for the whole step
// and outside the sets. Backward ops belong to the block whose storages they read.
#pragma once

#include <algorithm>
#include <vector>

#include "base/id_vector.h"
#include "base/index_vector.h"
#include "plan/problem/index.h"

namespace snug::plan {

struct Block {
  OpId first{0};  // forward ops [first, end)
  OpId end{0};
  std::vector<StorageId> input;   // the articulation sets, by rising id; a storage that goes past
  std::vector<StorageId> output;  // the block is in both
  OpId backward_first{0};         // ops [backward_first, backward_end) of the backward part
  OpId backward_end{0};
  int32_t class_id = 0;    // equal for blocks with the same ops, shapes and structure
  bool runs_once = false;  // the first block, of ops that may not run again (an input)
};

/// Whether `id` is in an articulation set.
inline bool contains(const std::vector<StorageId>& set, StorageId id) {
  return std::binary_search(set.begin(), set.end(), id);
}

struct Chain {
  IndexVector<Block> blocks;
  /// Never discarded once made. Carried storages, outputs of ops that run once, what
  /// is kept at the end, and what backward ops outside their block read.
  IdVector<StorageId, bool> is_pinned;
  IdVector<StorageId, int32_t> block_of;  // the block that makes it in the forward part, or -1
  int32_t class_count = 0;
};

struct BlockLimits {
  int32_t max_blocks = 4096;  // more are merged pairwise
  /// Cheap blocks go to a neighbour. By default where fewest bytes are kept; true: always behind
  /// the cut before them, which costs kept bytes but needs less beside them while a block runs (for
  /// the smallest budgets).
  bool merges_backward = false;
  double small_share = 0.125;  // of the typical block's seconds: below it a block is cheap
};

[[nodiscard]] Chain find_blocks(const ProblemIndex& index, const BlockLimits& limits = {});

}  // namespace snug::plan

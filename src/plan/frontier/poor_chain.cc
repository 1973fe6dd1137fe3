// SPDX-License-Identifier: Apache-2.0
#include "plan/frontier/poor_chain.h"

#include <algorithm>
#include <cmath>

#include "base/id_vector.h"
#include "plan/problem/liveness.h"

namespace snug::plan {
namespace {

constexpr double kLongShare = 0.25;          // of the blocks
constexpr double kFewestLong = 2;            // blocks
constexpr double kLargeShare = 0.75;         // of the mean bytes between two blocks
constexpr double kLargeShareOfUnlike = 0.2;  // where most blocks differ
constexpr double kShareOfLoad = 0.005;       // of keep-all, at least
constexpr double kLargestBlock = 0.5;        // of the forward part's seconds
constexpr int32_t kOpsOfLargest = 40;        // below, its options are as good as a search

// The bytes of what a block hands to the next.
double mean_cut_bytes(const ProblemIndex& index, const Chain& chain) {
  double bytes = 0;
  double cuts = 0;
  for (const Block& block : chain.blocks) {
    if (block.output.empty()) continue;
    for (const StorageId id : block.output) bytes += static_cast<double>(index.arena_bytes(id));
    ++cuts;
  }
  return cuts > 0 ? bytes / cuts : 0;
}

// The bytes that could be made again where a far block reads them next; none where they are of so
// many storages that they are the chain itself (what each step of a recurrent net hands upward).
double carried_far_bytes(const ProblemIndex& index, const Chain& chain) {
  IdVector<OpId, int32_t> block_of(index.op_count(), -1);
  for (int32_t b = 0; b < static_cast<int32_t>(chain.blocks.size()); ++b) {
    for (OpId op = chain.blocks[b].first; op < chain.blocks[b].end; ++op) block_of[op] = b;
  }
  const auto blocks = static_cast<double>(chain.blocks.size());
  const auto far = static_cast<int32_t>(std::ceil(std::max(kFewestLong, kLongShare * blocks)));
  double bytes = 0;
  size_t count = 0;
  for (const StorageId id : index.storage_ids()) {
    const OpId producer = index.producer[id];
    if (!chain.is_pinned[id] || producer == kNone || producer >= index.backward_begin) continue;
    if (index.runs_once[producer] || index.op(producer).phase == Phase::prologue) continue;
    int32_t past = 0;  // blocks
    for (const OpId reader : index.consumers[id]) {
      if (reader < index.backward_begin)
        past = std::max(past, block_of[reader] - block_of[producer]);
    }
    if (past >= kFewestLong) ++count;
    if (past >= far) bytes += static_cast<double>(index.arena_bytes(id));
  }
  return 4 * count <= chain.blocks.size() ? bytes : 0;
}

bool has_dominant_block(const ProblemIndex& index, const Chain& chain) {
  double sum = 0;
  double largest = 0;
  int32_t ops = 0;
  for (const Block& block : chain.blocks) {
    double seconds = 0;
    for (OpId op = block.first; op < block.end; ++op) seconds += index.op(op).seconds;
    sum += seconds;
    if (seconds <= largest) continue;
    largest = seconds;
    ops = block.end - block.first;
  }
  return ops >= kOpsOfLargest && largest >= kLargestBlock * sum;
}

}  // namespace

bool is_poor_chain(const Workshop& shop) {
  if (!shop.has_chain()) return false;
  const auto classes = static_cast<size_t>(shop.chain.class_count);
  const double share = 2 * classes > shop.chain.blocks.size() ? kLargeShareOfUnlike : kLargeShare;
  const Problem& problem = shop.index.problem;
  const auto keep_all = static_cast<double>(loads_of(problem, given_order(problem)).load_bytes);
  const double large =
      std::max(share * mean_cut_bytes(shop.index, shop.chain), kShareOfLoad * keep_all);
  return carried_far_bytes(shop.index, shop.chain) >= std::max(1.0, large) ||
         has_dominant_block(shop.index, shop.chain);
}

}  // namespace snug::plan

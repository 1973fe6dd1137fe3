// SPDX-License-Identifier: Apache-2.0
#include "plan/chain/schedule.h"

#include <algorithm>

#include "base/id_vector.h"
#include "base/index_vector.h"
#include "plan/chain/replay.h"

namespace snug::plan {
namespace {

constexpr int32_t kMaxAttempts = 24;

// One pass over the actions with a set of available storages.
class Flattener {
 public:
  Flattener(const ProblemIndex& index, const Chain& chain, IdVector<StorageId, bool>& is_pinned)
      : index_(index),
        chain_(chain),
        replay_(index, is_pinned),
        held_(is_pinned.size(), 0),
        held_by_block_(chain.blocks.size()),
        next_backward_(index.backward_begin) {}

  void run(std::span<const ChainAction> actions) {
    for (const ChainAction& action : actions) {
      if (action.kind == ChainAction::Kind::forward) {
        forward(action);
      } else {
        backward(action.block);
      }
    }
    // What no block claimed (or a problem without blocks).
    for (const OpId op : index_.forward_ids()) {
      if (!replay_.has_run(op)) run_with_inputs(op);
    }
    for (; next_backward_ != index_.end_op(); ++next_backward_) run_with_inputs(next_backward_);
  }

  [[nodiscard]] Replay& replay() { return replay_; }

 private:
  void forward(const ChainAction& action) {
    const Block& block = chain_.blocks[action.block];
    if (!replay_.has_run(block.first)) {
      for (OpId op = block.first; op < block.end; ++op) run_with_inputs(op);
    } else {
      std::vector<StorageId> wanted = action.hold;
      if (action.needs_output)
        wanted.insert(wanted.end(), block.output.begin(), block.output.end());
      replay_.make_available(wanted);
    }
    hold(action.block, action.hold);
    discard_block(block);
    for (const StorageId input : block.input) {
      if (!contains(block.output, input)) discard(input);
    }
  }

  void backward(int32_t b) {
    const Block& block = chain_.blocks[b];
    for (; next_backward_ < block.backward_end; ++next_backward_) run_with_inputs(next_backward_);
    hold(b, {});
    discard_block(block);
    for (const StorageId output : block.output) discard(output);
  }

  void hold(int32_t block, const std::vector<StorageId>& storages) {
    auto& mine = held_by_block_[block];
    for (const StorageId id : mine) --held_[id];
    mine = storages;
    for (const StorageId id : mine) ++held_[id];
  }

  void discard(StorageId id) {
    if (held_[id] == 0 && chain_.block_of[id] >= 0) replay_.drop(id);
  }

  void discard_block(const Block& block) {
    for (OpId op = block.first; op < block.end; ++op) {
      for (const StorageId output : index_.op(op).outputs) {
        if (!contains(block.output, output)) discard(output);
      }
    }
  }

  void run_with_inputs(OpId op) {
    replay_.make_available(index_.op(op).inputs);
    replay_.run(op);
  }

  const ProblemIndex& index_;
  const Chain& chain_;
  Replay replay_;
  IdVector<StorageId, int32_t> held_;
  IndexVector<std::vector<StorageId>> held_by_block_;
  OpId next_backward_;
};

}  // namespace

std::optional<std::vector<OpId>> flatten(const ProblemIndex& index, const Chain& chain,
                                         std::span<const ChainAction> actions) {
  IdVector<StorageId, bool> is_pinned = chain.is_pinned;
  for (int32_t attempt = 0; attempt < kMaxAttempts; ++attempt) {
    Flattener flattener(index, chain, is_pinned);
    flattener.run(actions);
    Replay& replay = flattener.replay();
    if (replay.is_stuck()) return std::nullopt;
    if (!replay.is_stale()) return std::move(replay.schedule());
  }
  return std::nullopt;
}

}  // namespace snug::plan

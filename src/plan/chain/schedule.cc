// SPDX-License-Identifier: Apache-2.0
#include "plan/chain/schedule.h"

#include <algorithm>

#include "base/id_vector.h"
#include "base/stop.h"

namespace snug::plan {
namespace {

constexpr int32_t kMaxAttempts = 24;

// One pass over the actions with a set of available storages.
class Flattener {
 public:
  Flattener(const ProblemIndex& index, const Chain& chain, IdVector<bool>& is_pinned)
      : index_(index),
        chain_(chain),
        is_pinned_(is_pinned),
        is_available_(is_pinned.size(), false),
        held_(is_pinned.size(), 0),
        held_by_block_(chain.blocks.size()),
        has_run_(static_cast<size_t>(index.op_count()), false),
        writes_(is_pinned.size(), 0),
        is_marked_(static_cast<size_t>(index.op_count()), false),
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
    for (OpId op = 0; op < index_.backward_begin; ++op) {
      if (!has_run_[op]) run_with_inputs(op);
    }
    for (; next_backward_ < index_.op_count(); ++next_backward_) run_with_inputs(next_backward_);
  }

  [[nodiscard]] bool is_stale() const { return is_stale_; }
  [[nodiscard]] bool is_stuck() const { return is_stuck_; }
  [[nodiscard]] std::vector<OpId>& schedule() { return schedule_; }

 private:
  void forward(const ChainAction& action) {
    const Block& block = chain_.blocks[action.block];
    if (!has_run_[block.first]) {
      for (OpId op = block.first; op < block.end; ++op) run_with_inputs(op);
    } else {
      std::vector<StorageId> wanted = action.hold;
      if (action.needs_output)
        wanted.insert(wanted.end(), block.output.begin(), block.output.end());
      make_available(wanted);
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
    const auto position = static_cast<size_t>(id);
    if (held_[position] == 0 && !is_pinned_[position] && chain_.block_of[position] >= 0) {
      is_available_[position] = false;
    }
  }

  void discard_block(const Block& block) {
    for (OpId op = block.first; op < block.end; ++op) {
      for (const StorageId output : index_.op(op).outputs) {
        if (!contains(block.output, output)) discard(output);
      }
    }
  }

  void run_with_inputs(OpId op) {
    make_available(index_.op(op).inputs);
    run_op(op);
  }

  // Marks the closure of what is missing, then runs it in the given order.
  void make_available(const std::vector<StorageId>& wanted) {
    stop_point();
    stack_.assign(wanted.begin(), wanted.end());
    closure_.clear();
    while (!stack_.empty()) {
      const StorageId id = stack_.back();
      stack_.pop_back();
      const OpId producer = index_.producer[id];
      if (producer < 0 || is_available_[id] || is_marked_[producer]) continue;
      is_marked_[producer] = true;
      closure_.push_back(producer);
      const bool is_rerun = has_run_[producer];
      if (is_rerun && (index_.runs_once[producer] || !sees_own_version(producer))) {
        is_stale_ = true;
        for (const StorageId output : index_.op(producer).outputs) is_pinned_[output] = true;
      }
      for (const StorageId input : index_.op(producer).inputs) stack_.push_back(input);
    }
    std::sort(closure_.begin(), closure_.end());
    for (const OpId op : closure_) {
      run_op(op);
      is_marked_[op] = false;
    }
  }

  [[nodiscard]] bool sees_own_version(OpId op) const {
    for (const auto& [id, writes] : index_.versions[op]) {
      if (writes_[id] != writes) return false;
    }
    return true;
  }

  void run_op(OpId op) {
    const bool is_first = !has_run_[op];
    if (is_first && !sees_own_version(op)) is_stuck_ = true;
    schedule_.push_back(op);
    has_run_[op] = true;
    for (const StorageId output : index_.op(op).outputs) {
      is_available_[output] = true;
      if (is_first && index_.storage(output).resident) ++writes_[output];
    }
  }

  const ProblemIndex& index_;
  const Chain& chain_;
  IdVector<bool>& is_pinned_;
  IdVector<bool> is_available_;
  IdVector<int32_t> held_;
  IdVector<std::vector<StorageId>> held_by_block_;
  IdVector<bool> has_run_;
  IdVector<int32_t> writes_;
  IdVector<bool> is_marked_;
  std::vector<OpId> schedule_;
  std::vector<StorageId> stack_;
  std::vector<OpId> closure_;
  OpId next_backward_;
  bool is_stale_ = false;  // a recomputation came after a write of what it reads: pin and try again
  bool is_stuck_ = false;  // the order itself is invalid
};

}  // namespace

std::optional<std::vector<OpId>> flatten(const ProblemIndex& index, const Chain& chain,
                                         std::span<const ChainAction> actions) {
  IdVector<bool> is_pinned = chain.is_pinned;
  for (int32_t attempt = 0; attempt < kMaxAttempts; ++attempt) {
    Flattener flattener(index, chain, is_pinned);
    flattener.run(actions);
    if (flattener.is_stuck()) return std::nullopt;
    if (!flattener.is_stale()) return std::move(flattener.schedule());
  }
  return std::nullopt;
}

}  // namespace snug::plan

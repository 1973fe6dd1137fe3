// SPDX-License-Identifier: Apache-2.0
#include "plan/schedule.h"

#include <algorithm>
#include <numeric>

namespace snug::plan {
namespace {

constexpr int32_t kMaxAttempts = 24;

// One pass over the actions with a set of available storages.
class Flattener {
 public:
  Flattener(const ProblemIndex& index, const Chain& chain, std::span<const OpId> backward_order,
            std::vector<bool>& is_pinned)
      : index_(index),
        chain_(chain),
        backward_order_(backward_order),
        is_pinned_(is_pinned),
        is_available_(is_pinned.size(), false),
        held_(is_pinned.size(), 0),
        held_by_block_(chain.blocks.size()),
        has_run_(static_cast<size_t>(index.op_count()), false),
        writes_(is_pinned.size(), 0),
        is_marked_(static_cast<size_t>(index.op_count()), false) {}

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
      if (!has_run_[static_cast<size_t>(op)]) run_with_inputs(op);
    }
    for (; next_backward_ < backward_order_.size(); ++next_backward_) {
      run_with_inputs(backward_order_[next_backward_]);
    }
  }

  [[nodiscard]] bool is_stale() const { return is_stale_; }
  [[nodiscard]] bool is_stuck() const { return is_stuck_; }
  [[nodiscard]] std::vector<OpId>& schedule() { return schedule_; }

 private:
  void forward(const ChainAction& action) {
    const Block& block = chain_.blocks[static_cast<size_t>(action.block)];
    if (!has_run_[static_cast<size_t>(block.first)]) {
      for (OpId op = block.first; op < block.end; ++op) run_with_inputs(op);
    } else {
      std::vector<StorageId> wanted = action.hold;
      if (action.needs_output && block.output >= 0) wanted.push_back(block.output);
      make_available(wanted);
    }
    hold(action.block, action.hold);
    discard_block(block);
    if (block.input >= 0) discard(block.input);
    if (block.output >= 0 && action.needs_output)
      is_available_[static_cast<size_t>(block.output)] = true;
  }

  void backward(int32_t b) {
    const Block& block = chain_.blocks[static_cast<size_t>(b)];
    // All ops of the segment, and moved updates that come before the segment's end.
    size_t end = next_backward_;
    for (size_t i = next_backward_; i < backward_order_.size(); ++i) {
      const OpId op = backward_order_[i];
      if (op < block.backward_end && op >= block.backward_first) end = i + 1;
    }
    for (; next_backward_ < end; ++next_backward_) run_with_inputs(backward_order_[next_backward_]);
    hold(b, {});
    discard_block(block);
    if (block.output >= 0) discard(block.output);
  }

  void hold(int32_t block, const std::vector<StorageId>& storages) {
    auto& mine = held_by_block_[static_cast<size_t>(block)];
    for (const StorageId id : mine) --held_[static_cast<size_t>(id)];
    mine = storages;
    for (const StorageId id : mine) ++held_[static_cast<size_t>(id)];
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
        if (output != block.output) discard(output);
      }
    }
  }

  void run_with_inputs(OpId op) {
    make_available(index_.op(op).inputs);
    run_op(op);
  }

  // Marks the closure of what is missing, then runs it in the given order.
  void make_available(const std::vector<StorageId>& wanted) {
    std::vector<StorageId> stack(wanted);
    std::vector<OpId> closure;
    while (!stack.empty()) {
      const StorageId id = stack.back();
      stack.pop_back();
      const OpId producer = index_.producer[static_cast<size_t>(id)];
      if (producer < 0 || is_available_[static_cast<size_t>(id)] ||
          is_marked_[static_cast<size_t>(producer)])
        continue;
      is_marked_[static_cast<size_t>(producer)] = true;
      closure.push_back(producer);
      const bool is_rerun = has_run_[static_cast<size_t>(producer)];
      if (is_rerun &&
          (index_.runs_once[static_cast<size_t>(producer)] || !sees_own_version(producer))) {
        is_stale_ = true;
        for (const StorageId output : index_.op(producer).outputs)
          is_pinned_[static_cast<size_t>(output)] = true;
      }
      for (const StorageId input : index_.op(producer).inputs) stack.push_back(input);
    }
    std::sort(closure.begin(), closure.end());
    for (const OpId op : closure) {
      run_op(op);
      is_marked_[static_cast<size_t>(op)] = false;
    }
  }

  [[nodiscard]] bool sees_own_version(OpId op) const {
    for (const auto& [id, writes] : index_.versions[static_cast<size_t>(op)]) {
      if (writes_[static_cast<size_t>(id)] != writes) return false;
    }
    return true;
  }

  void run_op(OpId op) {
    const bool is_first = !has_run_[static_cast<size_t>(op)];
    if (is_first && !sees_own_version(op)) is_stuck_ = true;
    schedule_.push_back(op);
    has_run_[static_cast<size_t>(op)] = true;
    for (const StorageId output : index_.op(op).outputs) {
      is_available_[static_cast<size_t>(output)] = true;
      if (is_first && index_.storage(output).resident) ++writes_[static_cast<size_t>(output)];
    }
  }

  const ProblemIndex& index_;
  const Chain& chain_;
  std::span<const OpId> backward_order_;
  std::vector<bool>& is_pinned_;
  std::vector<bool> is_available_;
  std::vector<int32_t> held_;
  std::vector<std::vector<StorageId>> held_by_block_;
  std::vector<bool> has_run_;
  std::vector<int32_t> writes_;
  std::vector<bool> is_marked_;
  std::vector<OpId> schedule_;
  size_t next_backward_ = 0;
  bool is_stale_ = false;  // a recomputation came after a write of what it reads: pin and try again
  bool is_stuck_ = false;  // the order itself is invalid
};

}  // namespace

std::optional<std::vector<OpId>> flatten(const ProblemIndex& index, const Chain& chain,
                                         std::span<const ChainAction> actions,
                                         std::span<const OpId> backward_order) {
  std::vector<bool> is_pinned = chain.is_pinned;
  for (int32_t attempt = 0; attempt < kMaxAttempts; ++attempt) {
    Flattener flattener(index, chain, backward_order, is_pinned);
    flattener.run(actions);
    if (flattener.is_stuck()) return std::nullopt;
    if (!flattener.is_stale()) return std::move(flattener.schedule());
  }
  return std::nullopt;
}

std::vector<OpId> given_backward_order(const ProblemIndex& index) {
  std::vector<OpId> order(static_cast<size_t>(index.op_count() - index.backward_begin));
  std::iota(order.begin(), order.end(), index.backward_begin);
  return order;
}

std::vector<OpId> early_update_order(const ProblemIndex& index) {
  // For each update: the last op before it that makes its inputs, or reads or writes the resident
  // storage it writes or reads. It moves directly behind that one. Updates bound to updates keep
  // their relative order.
  std::vector<std::vector<OpId>> followers(static_cast<size_t>(index.op_count()));
  std::vector<OpId> last_touch(static_cast<size_t>(index.storage_count()),
                               -1);  // any reader, writer or maker
  std::vector<OpId> last_write(static_cast<size_t>(index.storage_count()), -1);
  std::vector<OpId> anchors(static_cast<size_t>(index.op_count()), -1);
  for (OpId id = 0; id < index.op_count(); ++id) {
    const Op& op = index.op(id);
    OpId anchor = -1;
    for (const StorageId input : op.inputs)
      anchor = std::max(anchor, last_write[static_cast<size_t>(input)]);
    for (const StorageId output : op.outputs)
      anchor = std::max(anchor, last_touch[static_cast<size_t>(output)]);
    const bool moves = op.phase == Phase::update && id > index.backward_begin;
    if (moves) anchors[static_cast<size_t>(id)] = std::max(anchor, index.backward_begin);
    for (const StorageId input : op.inputs) last_touch[static_cast<size_t>(input)] = id;
    for (const StorageId output : op.outputs) {
      last_touch[static_cast<size_t>(output)] = last_write[static_cast<size_t>(output)] = id;
    }
  }
  for (OpId id = index.backward_begin; id < index.op_count(); ++id) {
    const OpId anchor = anchors[static_cast<size_t>(id)];
    if (anchor >= 0) followers[static_cast<size_t>(anchor)].push_back(id);
  }
  std::vector<OpId> order;
  std::vector<OpId> stack;
  for (OpId id = index.backward_begin; id < index.op_count(); ++id) {
    if (anchors[static_cast<size_t>(id)] >= 0) continue;
    stack.push_back(id);
    while (!stack.empty()) {
      const OpId next = stack.back();
      stack.pop_back();
      order.push_back(next);
      const auto& behind = followers[static_cast<size_t>(next)];
      stack.insert(stack.end(), behind.rbegin(), behind.rend());
    }
  }
  return order;
}

}  // namespace snug::plan

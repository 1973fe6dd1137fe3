// SPDX-License-Identifier: Apache-2.0
#include "plan/chain/replay.h"

#include <algorithm>

#include "base/stop.h"

namespace snug::plan {

Replay::Replay(const ProblemIndex& index, IdVector<StorageId, bool>& is_pinned)
    : index_(index),
      is_pinned_(is_pinned),
      is_available_(is_pinned.size(), false),
      has_run_(static_cast<size_t>(index.op_count()), false),
      is_open_(static_cast<size_t>(index.op_count()), false),
      writes_(is_pinned.size(), 0) {}

bool Replay::sees_own_version(OpId op) const {
  for (const auto& [id, writes] : index_.versions[op]) {
    if (writes_[id] != writes) return false;
  }
  return true;
}

void Replay::run(OpId op) {
  const bool is_first = !has_run_[op];
  if (is_first && !sees_own_version(op)) is_stuck_ = true;
  schedule_.push_back(op);
  has_run_[op] = true;
  for (const StorageId output : index_.op(op).outputs) {
    is_available_[output] = true;
    if (is_first && index_.storage(output).resident) ++writes_[output];
  }
}

const std::vector<OpId>& Replay::make_available(const std::vector<StorageId>& wanted) {
  stop_point();
  stack_.assign(wanted.begin(), wanted.end());
  closure_.clear();
  while (!stack_.empty()) {
    const StorageId id = stack_.back();
    stack_.pop_back();
    const OpId producer = index_.producer[id];
    if (producer == kNone || is_available_[id] || is_open_[producer]) continue;
    is_open_[producer] = true;
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
    run(op);
    is_open_[op] = false;
  }
  return closure_;
}

}  // namespace snug::plan

// SPDX-License-Identifier: Apache-2.0
// A schedule as it is written: each op once in the given order, and again wherever what it made is
// needed and no longer there. Who writes it says what is dropped.
#pragma once

#include <vector>

#include "base/id_vector.h"
#include "plan/problem/index.h"

namespace snug::plan {

class Replay {
 public:
  /// `is_pinned`: storages that must not be dropped; those join that were dropped all the same and
  /// cannot be made again.
  Replay(const ProblemIndex& index, IdVector<StorageId, bool>& is_pinned);

  void run(OpId op);
  /// Runs what `wanted` needs and is not available, in the given order. Returns those ops; valid
  /// until the next call.
  const std::vector<OpId>& make_available(const std::vector<StorageId>& wanted);
  /// The storage is no longer there, unless it is pinned.
  void drop(StorageId id) {
    if (!is_pinned_[id]) is_available_[id] = false;
  }

  [[nodiscard]] bool has_run(OpId op) const { return has_run_[op]; }
  /// An op was run again after a write of what it reads: pin and try again.
  [[nodiscard]] bool is_stale() const { return is_stale_; }
  /// The given order itself is not valid.
  [[nodiscard]] bool is_stuck() const { return is_stuck_; }
  [[nodiscard]] std::vector<OpId>& schedule() { return schedule_; }

 private:
  [[nodiscard]] bool sees_own_version(OpId op) const;

  const ProblemIndex& index_;
  IdVector<StorageId, bool>& is_pinned_;
  IdVector<StorageId, bool> is_available_;
  IdVector<OpId, bool> has_run_;
  IdVector<OpId, bool> is_open_;  // ops of the closure that is being found
  IdVector<StorageId, int32_t> writes_;
  std::vector<OpId> schedule_;
  std::vector<StorageId> stack_;
  std::vector<OpId> closure_;
  bool is_stale_ = false;
  bool is_stuck_ = false;
};

}  // namespace snug::plan

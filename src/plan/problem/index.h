// SPDX-License-Identifier: Apache-2.0
// The cross references that every part of the planner needs: who makes a storage, who reads it,
// which version of a resident storage an op sees. Built once per problem; the validator does not
// use it (it must stay independent).
#pragma once

#include <utility>
#include <vector>

#include "base/index_vector.h"
#include "plan/problem/plan.h"

namespace snug::plan {

/// Lookup tables of one problem; holds a reference to it, so the problem must outlive the index.
struct ProblemIndex {
  explicit ProblemIndex(const Problem& problem_in);

  const Problem& problem;
  IndexVector<OpId> producer;                // per storage; -1 where none (resident storages)
  IndexVector<std::vector<OpId>> consumers;  // per storage, in the given order
  IndexVector<bool> runs_once;               // per op: not recomputable, or writes resident storage
  IndexVector<bool> in_keep;                 // per storage
  /// Per op: the resident storages it sees (reads or writes) and how many writers ran before it in
  /// the given order. Only storages that are written at all are listed.
  IndexVector<std::vector<std::pair<StorageId, int32_t>>> versions;
  /// The first op of phase backward or update: ops before it are the forward part, the others the
  /// backward part.
  OpId backward_begin = 0;

  [[nodiscard]] int32_t op_count() const { return static_cast<int32_t>(problem.ops.size()); }
  [[nodiscard]] int32_t storage_count() const {
    return static_cast<int32_t>(problem.storages.size());
  }
  [[nodiscard]] const Op& op(OpId id) const { return problem.ops[id]; }
  [[nodiscard]] const Storage& storage(StorageId id) const { return problem.storages[id]; }
  /// 0 for resident storages: they take nothing from the arena.
  [[nodiscard]] int64_t arena_bytes(StorageId id) const {
    return storage(id).resident ? 0 : storage(id).bytes;
  }
};

}  // namespace snug::plan

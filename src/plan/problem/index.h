// SPDX-License-Identifier: Apache-2.0
// The cross references that every part of the planner needs: who makes a storage, who reads it,
// which version of a resident storage an op sees. Built once per problem; the validator does not
// use it (it must stay independent).
#pragma once

#include <utility>
#include <vector>

#include "base/id_vector.h"
#include "plan/problem/plan.h"

namespace snug::plan {

/// Lookup tables of one problem; holds a reference to it, so the problem must outlive the index.
struct ProblemIndex {
  explicit ProblemIndex(const Problem& problem_in);

  const Problem& problem;
  IdVector<StorageId, OpId> producer;                // none: a resident storage
  IdVector<StorageId, std::vector<OpId>> consumers;  // in the given order
  IdVector<OpId, bool> runs_once;                    // not recomputable, or writes resident storage
  IdVector<StorageId, bool> in_keep;
  /// The resident storages an op sees (reads or writes) and how many writers ran before it in
  /// the given order. Only storages that are written at all are listed.
  IdVector<OpId, std::vector<std::pair<StorageId, int32_t>>> versions;
  /// The first op of phase backward or update: ops before it are the forward part, the others the
  /// backward part.
  OpId backward_begin;

  [[nodiscard]] int32_t op_count() const { return static_cast<int32_t>(problem.ops.size()); }
  [[nodiscard]] int32_t storage_count() const {
    return static_cast<int32_t>(problem.storages.size());
  }
  [[nodiscard]] IdRange<OpId> op_ids() const { return problem.ops.ids(); }
  [[nodiscard]] IdRange<OpId> forward_ids() const { return {OpId(0), backward_begin}; }
  [[nodiscard]] IdRange<OpId> backward_ids() const { return {backward_begin, end_op()}; }
  [[nodiscard]] OpId end_op() const { return problem.ops.end_id(); }
  [[nodiscard]] IdRange<StorageId> storage_ids() const { return problem.storages.ids(); }
  [[nodiscard]] const Op& op(OpId id) const { return problem.ops[id]; }
  [[nodiscard]] const Storage& storage(StorageId id) const { return problem.storages[id]; }
  /// 0 for resident storages: they take nothing from the arena.
  [[nodiscard]] int64_t arena_bytes(StorageId id) const {
    return storage(id).resident ? 0 : storage(id).bytes;
  }
};

}  // namespace snug::plan

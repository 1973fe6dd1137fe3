// SPDX-License-Identifier: Apache-2.0
// What of an op's operands is in memory whatever the schedule: all of them, but for what a row
// program may hand on.
#pragma once

#include <cstdint>

#include "base/id_vector.h"
#include "plan/problem/plan.h"

namespace snug::plan {

class OperandBound {
 public:
  /// Refers to the problem.
  explicit OperandBound(const Problem& problem);

  /// No run of the op has less in memory: operands and scratch.
  [[nodiscard]] int64_t bytes(const Op& op) const;
  /// The scratch of these.
  [[nodiscard]] int64_t scratch_bytes(const Op& op) const;
  /// Whether the storage may be in no memory while the op runs, in a row program that made it
  /// before and reads it then or later.
  [[nodiscard]] bool may_be_inside(StorageId storage, const Op& op) const {
    return may_join(op) && may_be_inside_[storage];
  }

 private:
  [[nodiscard]] static bool may_join(const Op& op) {
    return op.rowwise->form.is_given() && !op.rowwise->has_head;
  }

  const Problem& problem_;
  IdVector<StorageId, bool> may_be_inside_;  // in some program; empty where no op may join one
};

}  // namespace snug::plan

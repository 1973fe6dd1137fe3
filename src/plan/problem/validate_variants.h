// SPDX-License-Identifier: Apache-2.0
// What other ways to run ops must be like (Problem::variants).
#pragma once

#include <vector>

#include "base/id_vector.h"
#include "plan/problem/plan.h"

namespace snug::plan {

class VariantCheck {
 public:
  /// Refers to the problem, whose storages are valid. Throws where a variant is of no op.
  explicit VariantCheck(const Problem& problem);

  [[nodiscard]] std::vector<const Op*> of(OpId op) const;
  /// Throws where it differs from its op in more than a way to run may, but for its reads.
  void validate(const Op& variant) const;

 private:
  void validate_versions(const Op& op, const Op& variant) const;

  const Problem& problem_;
  IdVector<OpId, std::vector<const Op*>> variants_;  // empty where the problem has none
  IdVector<StorageId, bool> is_written_;             // resident storages
};

}  // namespace snug::plan

// SPDX-License-Identifier: Apache-2.0
#include "plan/improve/relaxed_variants.h"

#include <algorithm>

namespace snug::plan {

Problem relaxed_variants(const Problem& problem) {
  Problem relaxed = problem;
  relaxed.variants.clear();
  for (const Op& variant : problem.variants) {
    Op& op = relaxed.ops[variant.variant_of];
    std::erase_if(op.inputs, [&](StorageId input) {
      return std::find(variant.inputs.begin(), variant.inputs.end(), input) == variant.inputs.end();
    });
    op.scratch_bytes = std::min(op.scratch_bytes, variant.scratch_bytes);
  }
  return relaxed;
}

}  // namespace snug::plan

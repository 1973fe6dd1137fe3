// SPDX-License-Identifier: Apache-2.0
#include "plan/problem/validate_variants.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "base/numbers.h"
#include "plan/problem/joint.h"
#include "snug/error.h"

namespace snug::plan {
namespace {

[[noreturn]] void reject_variant(const Op& variant, const std::string& message,
                                 const std::string& hint = {}) {
  throw Error(ErrorCode::invalid_graph, variant.name, message, hint);
}

}  // namespace

VariantCheck::VariantCheck(const Problem& problem) : problem_(problem) {
  if (problem.variants.empty()) return;
  variants_.resize(problem.ops.size());
  for (const Op& variant : problem.variants) {
    if (!problem.ops.has(variant.variant_of))
      reject_variant(variant,
                     "is a variant of " + to_string(variant.variant_of) + ", which is no op");
    variants_[variant.variant_of].push_back(&variant);
  }
  is_written_.assign(problem.storages.size(), false);
  for (const Op& op : problem.ops) {
    for (const StorageId id : op.outputs) {
      if (problem.storages.has(id) && problem.storages[id].resident) is_written_[id] = true;
    }
  }
}

std::vector<const Op*> VariantCheck::of(OpId op) const {
  return variants_.empty() ? std::vector<const Op*>() : variants_[op];
}

void VariantCheck::validate(const Op& variant) const {
  const Op& op = problem_.ops[variant.variant_of];
  const std::string name = "'" + op.name + "'";
  if (makes_only_views(problem_, op))
    reject_variant(variant,
                   "is a variant of " + name + ", which makes only views and costs nothing",
                   "omit \"variants\"");
  if (!op.reuses.empty() || !variant.reuses.empty())
    reject_variant(variant, "is a variant of " + name + ", which writes in the place of an input",
                   "omit \"reuses\" or \"variants\"");
  if (variant.outputs != op.outputs || variant.phase != op.phase ||
      variant.may_recompute != op.may_recompute || variant.is_ordered != op.is_ordered ||
      variant.part != op.part)
    reject_variant(
        variant, "is a variant of " + name + " and differs in more than inputs, scratch and time");
  if (!(variant.seconds >= op.seconds)) {
    reject_variant(variant,
                   "takes " + number_text(variant.seconds) + ", less than op " + name +
                       " itself, " + number_text(op.seconds),
                   "list the fastest way as the op and the others as its variants");
  }
  for (const Op* each : {&op, &variant}) {
    if (each->fusion.kind != 0 || each->rowwise->form.is_given())
      reject_variant(
          variant, "is a variant of " + name + ", and one of both may run in a kernel with others");
  }
  validate_versions(op, variant);
}

// An op sees resident storages after the same writers in every schedule; what it sees its variants
// may read.
void VariantCheck::validate_versions(const Op& op, const Op& variant) const {
  for (const StorageId input : variant.inputs) {
    const StorageId root = root_of(problem_, input);
    const auto touches = [&](const std::vector<StorageId>& ids) {
      return std::any_of(ids.begin(), ids.end(),
                         [&](StorageId id) { return root_of(problem_, id) == root; });
    };
    if (!is_written_[root] || touches(op.inputs) || touches(op.outputs)) continue;
    reject_variant(
        variant,
        "reads '" + problem_.storages[root].name + "', which an op writes and '" + op.name +
            "' itself does not read",
        "add \"" + problem_.storages[root].name + "\" to the inputs of '" + op.name + "'");
  }
}

}  // namespace snug::plan

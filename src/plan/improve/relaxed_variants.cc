// SPDX-License-Identifier: Apache-2.0
#include "plan/improve/relaxed_variants.h"

#include <algorithm>

#include "plan/improve/operand_bound.h"
#include "plan/problem/index.h"

namespace snug::plan {
namespace {

bool lists(const std::vector<StorageId>& ids, StorageId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

void keep_common(std::vector<StorageId>& ids, const std::vector<StorageId>& others) {
  std::erase_if(ids, [&](StorageId id) { return !lists(others, id); });
}

class RunRelaxer {
 public:
  explicit RunRelaxer(const Problem& problem) : index_(problem) {
    const OperandBound in_memory(problem);
    found_.problem = problem;
    found_.problem.variants.clear();
    for (const Op& op : problem.ops) {
      found_.sure_inputs.push_back(op.inputs);
      found_.any_inputs.push_back(op.inputs);
      found_.again_seconds.push_back(least_seconds(op));
      found_.operand_bytes.push_back(in_memory.bytes(op));
    }
    for (const Op& variant : problem.variants) {
      const OpId id = variant.variant_of;
      keep_common(found_.sure_inputs[id], variant.inputs);
      found_.any_inputs[id].insert(found_.any_inputs[id].end(), variant.inputs.begin(),
                                   variant.inputs.end());
      int64_t& bytes = found_.operand_bytes[id];
      bytes = std::min(bytes, in_memory.bytes(variant));
      relax(variant);
    }
    for (const OpId id : problem.ops.ids()) add_sure_inputs(id);
  }

  RelaxedRuns take() { return std::move(found_); }

 private:
  // What the variant does without is computed within, by makers that may run again and share the
  // time that it takes more, or else is no input.
  void relax(const Op& variant) {
    const Op& op = index_.op(variant.variant_of);
    std::vector<OpId> makers;
    double seconds = 0;
    for (const StorageId input : op.inputs) {
      const OpId maker = index_.producer[input];
      if (maker == kNone || lists(variant.inputs, input)) continue;
      if (!is_within(maker, variant)) {
        std::erase(found_.problem.ops[variant.variant_of].inputs, input);
      } else if (std::find(makers.begin(), makers.end(), maker) == makers.end()) {
        makers.push_back(maker);
        seconds += index_.op(maker).seconds;
      }
    }
    const double more = variant.seconds - op.seconds;
    for (const OpId maker : makers) {
      const double share = seconds > 0 ? index_.op(maker).seconds / seconds : 0;
      double& again = found_.again_seconds[maker];
      again = std::min(again, more * share);
    }
  }

  // Where an input is computed within in some way, and read in the others, what its maker reads
  // for sure was there before in any of them.
  void add_sure_inputs(OpId id) {
    std::vector<StorageId>& sure = found_.sure_inputs[id];
    for (const StorageId input : found_.problem.ops[id].inputs) {
      const OpId maker = index_.producer[input];
      if (maker == kNone || lists(sure, input)) continue;
      for (const StorageId before : found_.sure_inputs[maker]) {
        if (!lists(sure, before)) sure.push_back(before);
      }
    }
  }

  [[nodiscard]] bool is_within(OpId maker, const Op& variant) const {
    const auto& inputs = index_.op(maker).inputs;
    return !index_.runs_once[maker] && std::all_of(inputs.begin(), inputs.end(), [&](StorageId id) {
      return index_.storage(id).resident || lists(variant.inputs, id);
    });
  }

  ProblemIndex index_;
  RelaxedRuns found_;
};

}  // namespace

Problem relaxed_variants(const Problem& problem) {
  Problem relaxed = problem;
  relaxed.variants.clear();
  for (const Op& variant : problem.variants) {
    Op& op = relaxed.ops[variant.variant_of];
    keep_common(op.inputs, variant.inputs);
    op.scratch_bytes = std::min(op.scratch_bytes, variant.scratch_bytes);
  }
  return relaxed;
}

RelaxedRuns relaxed_runs(const Problem& problem) { return RunRelaxer(problem).take(); }

}  // namespace snug::plan

// SPDX-License-Identifier: Apache-2.0
#include "solve/random_joint.h"

#include <algorithm>
#include <random>
#include <string>
#include <utility>

#include "plan/problem/validate.h"
#include "snug/error.h"

namespace snug::solve::testing {
namespace {

using plan::GraphPart;
using plan::Op;
using plan::Problem;
using plan::StorageId;

class JointMaker {
 public:
  JointMaker(uint64_t seed, const JointShape& shape) : random_(seed), shape_(shape) {}

  Problem make() {
    problem_.alignment = 1;
    resident_ = problem_.storages.add({"w", 0, true});
    for (int32_t i = 0; i < shape_.forward_ops; ++i) {
      add_op(Phase::forward);
      if (chance(2)) add_view(Phase::forward);
    }
    const size_t forward_made = made_.size();
    add_tangent();
    for (int32_t i = 1; i < shape_.backward_ops; ++i) {
      add_op(chance(5) ? Phase::forward : Phase::backward);
      if (chance(2)) add_view(chance(2) ? Phase::forward : Phase::backward);
    }
    problem_.keep.push_back(made_.back());
    if (chance(3)) keep(pick(made_));
    if (shape_.has_boundary) add_boundary(forward_made);
    return std::move(problem_);
  }

 private:
  uint64_t below(uint64_t limit) { return random_() % limit; }
  bool chance(uint64_t one_in) { return below(one_in) == 0; }
  StorageId pick(const std::vector<StorageId>& ids) { return ids[below(ids.size())]; }
  void keep(StorageId id) {
    if (std::find(problem_.keep.begin(), problem_.keep.end(), id) == problem_.keep.end())
      problem_.keep.push_back(id);
  }
  StorageId storage(const char* prefix, int64_t bytes, StorageId view_of = kNone) {
    plan::Storage made{prefix + std::to_string(problem_.storages.size()), bytes, false};
    made.view_of = view_of;
    return problem_.storages.add(std::move(made));
  }
  StorageId view_of(StorageId id) {
    ++views_;
    return storage("v", 0,
                   problem_.storages[id].view_of == kNone ? id : problem_.storages[id].view_of);
  }
  Op named(Phase phase) {
    Op op;
    op.name = (phase == Phase::forward ? "f" : "b") + std::to_string(problem_.ops.size());
    op.phase = phase;
    return op;
  }

  void add_op(Phase phase) {
    Op op = named(phase);
    for (uint64_t wanted = below(3) + (phase == Phase::backward ? 1 : 0);
         wanted > 0 && !made_.empty(); --wanted) {
      const StorageId input = chance(2) ? made_.back() : pick(made_);
      if (std::find(op.inputs.begin(), op.inputs.end(), input) == op.inputs.end())
        op.inputs.push_back(input);
    }
    if (chance(3)) op.inputs.push_back(resident_);
    op.seconds = static_cast<double>(1 + below(5));
    op.scratch_bytes = chance(3) ? static_cast<int64_t>(below(4)) : 0;
    op.may_recompute = phase == Phase::forward ? !chance(6) : chance(3);
    op.outputs = {storage("s", static_cast<int64_t>(below(6)))};
    if (chance(8)) op.outputs.push_back(storage("s", static_cast<int64_t>(below(4))));
    if (views_ < shape_.views && chance(6)) op.outputs.push_back(view_of(op.outputs.front()));
    if (chance(4)) {
      op.is_ordered = true;
      op.may_recompute = false;
    }
    if (shape_.has_boundary && chance(5))
      op.part = chance(2) ? GraphPart::forward : GraphPart::backward;
    if (!op.inputs.empty() && chance(5))
      op.reuses.emplace_back(op.outputs.front(), op.inputs.front());
    const std::vector<StorageId> before = made_;
    made_.insert(made_.end(), op.outputs.begin(), op.outputs.end());
    if (chance(8)) op.outputs.push_back(resident_);
    while (problem_.variants.size() < static_cast<size_t>(shape_.variants) && op.reuses.empty() &&
           chance(2))
      add_variant(op, before);
    problem_.ops.push_back(std::move(op));
  }

  // Reads something else, mostly instead of what the op reads.
  void add_variant(const Op& op, const std::vector<StorageId>& made) {
    Op variant = op;
    variant.name += "v" + std::to_string(problem_.variants.size());
    variant.variant_of = problem_.ops.end_id();
    std::erase_if(variant.inputs, [&](StorageId) { return !chance(3); });
    for (uint64_t wanted = below(3); wanted > 0 && !made.empty(); --wanted) {
      const StorageId input = pick(made);
      if (std::find(variant.inputs.begin(), variant.inputs.end(), input) == variant.inputs.end())
        variant.inputs.push_back(input);
    }
    variant.seconds += static_cast<double>(below(4));
    variant.scratch_bytes = chance(3) ? static_cast<int64_t>(below(4)) : 0;
    problem_.variants.push_back(std::move(variant));
  }

  void add_tangent() {
    Op op = named(Phase::backward);
    op.may_recompute = false;
    op.outputs = {storage("t", static_cast<int64_t>(1 + below(3)))};
    made_.push_back(op.outputs.front());
    problem_.ops.push_back(std::move(op));
  }

  void add_view(Phase phase) {
    if (views_ >= shape_.views) return;
    const StorageId of = chance(5) ? resident_ : pick(made_);
    Op op = named(phase);
    op.inputs = {of};
    op.outputs = {view_of(of)};
    made_.push_back(op.outputs.front());
    problem_.ops.push_back(std::move(op));
  }

  void add_boundary(size_t forward_made) {
    plan::GraphBoundary& boundary = problem_.boundary.emplace();
    for (size_t i = 0; i < forward_made; ++i) {
      if (chance(3)) boundary.forward_outputs.push_back(made_[i]);
    }
    const auto bytes = [&] { return chance(2) ? static_cast<int64_t>(below(9)) : 0; };
    boundary.between_bytes = bytes();
    boundary.forward_base_bytes = bytes();
    boundary.backward_base_bytes = bytes();
  }

  std::mt19937_64 random_;
  const JointShape& shape_;
  Problem problem_;
  StorageId resident_;
  std::vector<StorageId> made_;
  int32_t views_ = 0;
};

}  // namespace

Problem random_joint_graph(uint64_t seed, const JointShape& shape) {
  // Most of what is drawn is wrong somewhere.
  for (uint64_t attempt = 0;; ++attempt) {
    Problem problem = JointMaker(seed * 1000003 + attempt, shape).make();
    try {
      plan::validate(problem);
      return problem;
    } catch (const Error&) {
      continue;
    }
  }
}

}  // namespace snug::solve::testing

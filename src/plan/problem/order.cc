// SPDX-License-Identifier: Apache-2.0
#include "plan/problem/order.h"

#include <algorithm>

#include "base/id_vector.h"
#include "base/stop.h"
#include "plan/problem/index.h"
#include "plan/problem/liveness.h"

namespace snug::plan {
namespace {

// The ops from index.backward_begin on. Every op has a root: itself, or for an update the last op
// that stays in place among all it depends on, through other updates too: the makers of its inputs,
// and all that touch a resident storage that it writes. It moves directly behind that root; updates
// with one root keep their order.
std::vector<OpId> backward_order(const ProblemIndex& index) {
  const int32_t storages = index.storage_count();
  IdVector<StorageId, OpId> touch_root(storages);  // largest root of any reader, writer or maker
  IdVector<StorageId, OpId> write_root(storages);  // of writers and makers
  IdVector<OpId, std::vector<OpId>> behind(index.op_count());
  std::vector<OpId> order;
  for (const OpId id : index.op_ids()) {
    stop_point();
    const Op& op = index.op(id);
    OpId root = id;
    if (op.phase == Phase::update && id > index.backward_begin) {
      root = index.backward_begin;
      for (const StorageId input : op.inputs) root = std::max(root, write_root[input]);
      for (const StorageId output : op.outputs) root = std::max(root, touch_root[output]);
      behind[root].push_back(id);
    }
    for (const StorageId input : op.inputs) {
      OpId& touched = touch_root[input];
      touched = std::max(touched, root);
    }
    for (const StorageId output : op.outputs) {
      write_root[output] = std::max(write_root[output], root);
      touch_root[output] = std::max(touch_root[output], root);
    }
  }
  for (const OpId id : index.backward_ids()) {
    if (index.op(id).phase == Phase::update && id > index.backward_begin) continue;
    order.push_back(id);
    const auto& followers = behind[id];
    order.insert(order.end(), followers.begin(), followers.end());
  }
  return order;
}

}  // namespace

std::vector<OpId> prompt_update_order(const Problem& problem) {
  std::vector<OpId> order = given_order(problem);
  const ProblemIndex index(problem);
  const std::vector<OpId> tail = backward_order(index);
  std::copy(tail.begin(), tail.end(), order.end() - static_cast<std::ptrdiff_t>(tail.size()));
  return order;
}

OrderedProblem with_prompt_updates(const Problem& problem) {
  // Member by member: compilers destroy a half-made aggregate twice where a later one throws.
  OrderedProblem ordered;
  ordered.original = prompt_update_order(problem);
  ordered.problem.storages = problem.storages;
  ordered.problem.keep = problem.keep;
  ordered.problem.alignment = problem.alignment;
  ordered.problem.kept_seconds_per_byte = problem.kept_seconds_per_byte;
  ordered.problem.ops.reserve(problem.ops.size());
  for (const OpId id : ordered.original) {
    stop_point();
    ordered.problem.ops.push_back(problem.ops[id]);
  }
  return ordered;
}

std::vector<OpId> in_original_ids(const OrderedProblem& ordered,
                                  const std::vector<OpId>& schedule) {
  std::vector<OpId> result;
  result.reserve(schedule.size());
  for (const OpId op : schedule) result.push_back(ordered.original[op]);
  return result;
}

}  // namespace snug::plan

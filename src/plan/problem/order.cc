// SPDX-License-Identifier: Apache-2.0
#include "plan/problem/order.h"

#include <algorithm>

#include "base/id_vector.h"
#include "plan/problem/index.h"
#include "plan/problem/liveness.h"

namespace snug::plan {
namespace {

// The ops from index.backward_begin on. Every op has a root: itself, or for an update the last op
// that stays in place among all it depends on, through other updates too: the makers of its inputs,
// and all that touch a resident storage that it writes. It moves directly behind that root; updates
// with one root keep their order.
std::vector<OpId> backward_order(const ProblemIndex& index) {
  const auto storages = static_cast<size_t>(index.storage_count());
  IdVector<OpId> touch_root(storages, -1);  // largest root of any reader, writer or maker
  IdVector<OpId> write_root(storages, -1);  // of writers and makers
  IdVector<std::vector<OpId>> behind(index.op_count());
  std::vector<OpId> order;
  for (OpId id = 0; id < index.op_count(); ++id) {
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
      const auto position = static_cast<size_t>(output);
      write_root[position] = std::max(write_root[position], root);
      touch_root[position] = std::max(touch_root[position], root);
    }
  }
  for (OpId id = index.backward_begin; id < index.op_count(); ++id) {
    if (index.op(id).phase == Phase::update && id > index.backward_begin) continue;
    order.push_back(id);
    const auto& followers = behind[id];
    order.insert(order.end(), followers.begin(), followers.end());
  }
  return order;
}

}  // namespace

OrderedProblem with_prompt_updates(const Problem& problem) {
  OrderedProblem ordered{problem, given_order(problem)};
  const ProblemIndex index(problem);
  const std::vector<OpId> tail = backward_order(index);
  std::copy(tail.begin(), tail.end(), ordered.original.begin() + index.backward_begin);
  for (size_t i = 0; i < ordered.original.size(); ++i)
    ordered.problem.ops[i] = problem.ops[ordered.original[i]];
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

// SPDX-License-Identifier: Apache-2.0
#include "plan/order.h"

#include <algorithm>

#include "plan/index.h"
#include "plan/liveness.h"

namespace snug::plan {
namespace {

// The ops from index.backward_begin on.
std::vector<OpId> backward_order(const ProblemIndex& index) {
  // For each update: the last op before it that makes its inputs, or reads or writes the resident
  // storage it writes or reads. It moves directly behind that one. Updates bound to updates keep
  // their relative order.
  std::vector<std::vector<OpId>> followers(static_cast<size_t>(index.op_count()));
  std::vector<OpId> last_touch(static_cast<size_t>(index.storage_count()),
                               -1);  // any reader, writer or maker
  std::vector<OpId> last_write(static_cast<size_t>(index.storage_count()), -1);
  std::vector<OpId> anchors(static_cast<size_t>(index.op_count()), -1);
  for (OpId id = 0; id < index.op_count(); ++id) {
    const Op& op = index.op(id);
    OpId anchor = -1;
    for (const StorageId input : op.inputs)
      anchor = std::max(anchor, last_write[static_cast<size_t>(input)]);
    for (const StorageId output : op.outputs)
      anchor = std::max(anchor, last_touch[static_cast<size_t>(output)]);
    const bool moves = op.phase == Phase::update && id > index.backward_begin;
    if (moves) anchors[static_cast<size_t>(id)] = std::max(anchor, index.backward_begin);
    for (const StorageId input : op.inputs) last_touch[static_cast<size_t>(input)] = id;
    for (const StorageId output : op.outputs) {
      last_touch[static_cast<size_t>(output)] = last_write[static_cast<size_t>(output)] = id;
    }
  }
  for (OpId id = index.backward_begin; id < index.op_count(); ++id) {
    const OpId anchor = anchors[static_cast<size_t>(id)];
    if (anchor >= 0) followers[static_cast<size_t>(anchor)].push_back(id);
  }
  std::vector<OpId> order;
  std::vector<OpId> stack;
  for (OpId id = index.backward_begin; id < index.op_count(); ++id) {
    if (anchors[static_cast<size_t>(id)] >= 0) continue;
    stack.push_back(id);
    while (!stack.empty()) {
      const OpId next = stack.back();
      stack.pop_back();
      order.push_back(next);
      const auto& behind = followers[static_cast<size_t>(next)];
      stack.insert(stack.end(), behind.rbegin(), behind.rend());
    }
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
    ordered.problem.ops[i] = problem.ops[static_cast<size_t>(ordered.original[i])];
  return ordered;
}

std::vector<OpId> in_original_ids(const OrderedProblem& ordered,
                                  const std::vector<OpId>& schedule) {
  std::vector<OpId> result;
  result.reserve(schedule.size());
  for (const OpId op : schedule) result.push_back(ordered.original[static_cast<size_t>(op)]);
  return result;
}

}  // namespace snug::plan

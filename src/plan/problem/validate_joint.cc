// SPDX-License-Identifier: Apache-2.0
#include "plan/problem/validate_joint.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/id_vector.h"
#include "plan/problem/joint.h"
#include "snug/error.h"

namespace snug::plan {
namespace {

[[noreturn]] void reject_joint(const std::string& where, const std::string& message,
                               const std::string& hint = {}) {
  throw Error(ErrorCode::invalid_graph, where, message, hint);
}

bool is_view(const Problem& problem, StorageId id) { return problem.storages[id].view_of != kNone; }

bool lists(const std::vector<StorageId>& ids, StorageId id) {
  return std::find(ids.begin(), ids.end(), id) != ids.end();
}

// An op that makes views and nothing else: free of cost, run again at will.
void validate_view_op(const Problem& problem, const Op& op) {
  const StorageId root = root_of(problem, op.outputs.front());
  const std::string name = "'" + problem.storages[root].name + "'";
  const std::string what = "makes views of " + name + " and ";
  const std::string in_place = "a view costs nothing; an op that writes in place names " + name +
                               " in its outputs, not a view of it";
  if (op.seconds != 0) reject_joint(op.name, what + "has a cost", in_place);
  if (op.scratch_bytes != 0) reject_joint(op.name, what + "has scratch", in_place);
  if (!op.may_recompute)
    reject_joint(op.name, what + "may not run again", "omit \"recompute\": views are made at will");
  if (op.is_ordered)
    reject_joint(op.name, what + "is ordered", "omit \"ordered\": views are made at will");
  if (op.part != GraphPart::any)
    reject_joint(op.name, what + "is of one part",
                 "omit \"part\": views are made where they are read");
  for (const StorageId output : op.outputs) {
    const StorageId other = root_of(problem, output);
    if (other != root)
      reject_joint(op.name, what + "of '" + problem.storages[other].name + "'",
                   "make them in two ops");
  }
  for (const StorageId input : op.inputs) {
    if (root_of(problem, input) != root)
      reject_joint(op.name,
                   what + "reads '" + problem.storages[input].name + "', which is no part of it",
                   in_place);
  }
  if (op.inputs.empty())
    reject_joint(op.name, what + "does not read it", "list it, or a view of it, in the inputs");
}

void validate_parts(const Problem& problem, OpId id, OpId behind) {
  const Op& op = problem.ops[id];
  if (op.part == GraphPart::forward && id >= behind) {
    reject_joint(
        op.name,
        "is of the forward part and listed behind the boundary, which lies in front of op '" +
            problem.ops[behind].name + "'",
        "list it in front of that op, or omit \"part\"");
  }
  if (op.part == GraphPart::backward && id < behind) {
    reject_joint(
        op.name,
        "is of the backward part and listed in front of the boundary, which lies in front of op '" +
            problem.ops[behind].name + "'",
        "list it behind the boundary, or omit \"part\"");
  }
}

void validate_forward_outputs(const Problem& problem, OpId behind) {
  const std::string where = "boundary.forward_outputs";
  IdVector<StorageId, bool> is_made(problem.storages.size(), false);
  IdVector<StorageId, const Op*> overwritten_by(problem.storages.size(), nullptr);
  for (const OpId each : IdRange(OpId(0), behind)) {
    const Op& op = problem.ops[each];
    for (const StorageId output : op.outputs) is_made[output] = true;
    for (const auto& [output, input] : op.reuses) overwritten_by[input] = &op;
  }
  for (const StorageId id : problem.boundary->forward_outputs) {
    if (!problem.storages.has(id)) reject_joint(where, to_string(id) + " is not a storage");
    const Storage& storage = problem.storages[id];
    if (storage.resident) continue;
    if (!is_made[id]) {
      reject_joint(where,
                   "'" + storage.name +
                       "' is made by no op in front of the boundary, which lies in front of op '" +
                       problem.ops[behind].name + "', the first of phase loss, backward or update",
                   "list the op that makes it before that one, or omit \"" + storage.name + "\"");
    }
    if (const Op* other = overwritten_by[root_of(problem, id)]) {
      reject_joint(where, "op '" + other->name + "' writes in the place of '" + storage.name +
                              "' in front of the boundary");
    }
  }
}

}  // namespace

void validate_views(const Problem& problem) {
  for (const StorageId id : problem.storages.ids()) {
    const Storage& storage = problem.storages[id];
    if (storage.view_of == kNone) continue;
    if (!problem.storages.has(storage.view_of))
      reject_joint(storage.name,
                   "is a view of " + to_string(storage.view_of) + ", which is no storage");
    if (is_view(problem, storage.view_of))
      reject_joint(storage.name, "is a view of a view, not of the storage in which both lie");
    if (storage.resident)
      reject_joint(storage.name, "is resident and a view", "omit it in \"resident\"");
    if (storage.bytes != 0)
      reject_joint(storage.name, "is a view and has bytes of its own", "omit \"bytes\"");
  }
}

void validate_joint_op(const Problem& problem, const Op& op) {
  if (op.is_ordered && op.may_recompute)
    reject_joint(op.name, "is ordered and may run again",
                 "omit \"recompute\": ordered ops run once");
  if (op.part != GraphPart::any && !problem.boundary)
    reject_joint(op.name, "is of one part and the problem has no boundary", "omit \"part\"");
  for (const auto& [output, input] : op.reuses) {
    for (const StorageId id : {output, input}) {
      if (is_view(problem, id))
        reject_joint(op.name, "reuses the view '" + problem.storages[id].name + "'",
                     "name the storage in which it lies, \"" +
                         problem.storages[root_of(problem, id)].name + "\"");
    }
  }
  if (makes_only_views(problem, op)) return validate_view_op(problem, op);
  for (const StorageId id : op.outputs) {
    const StorageId root = root_of(problem, id);
    if (root == id || lists(op.outputs, root)) continue;
    const std::string& name = problem.storages[root].name;
    reject_joint(op.name,
                 "makes the view '" + problem.storages[id].name +
                     "' beside other storages, and not '" + name + "', in which it lies",
                 "make views in ops of their own; an op that writes in place names '" + name +
                     "' in its outputs, not a view of it");
  }
}

void validate_boundary(const Problem& problem) {
  if (!problem.boundary) return;
  const GraphBoundary& boundary = *problem.boundary;
  const std::pair<const char*, int64_t> sizes[] = {
      {"boundary.between_bytes", boundary.between_bytes},
      {"boundary.forward_base_bytes", boundary.forward_base_bytes},
      {"boundary.backward_base_bytes", boundary.backward_base_bytes}};
  for (const auto& [where, bytes] : sizes) {
    if (bytes < 0 || bytes % problem.alignment != 0)
      reject_joint(where, "is " + std::to_string(bytes) + ", no multiple of the alignment " +
                              std::to_string(problem.alignment) + " from 0");
  }
  const OpId behind = first_behind_boundary(problem);
  if (behind == problem.ops.end_id())
    reject_joint("boundary", "no op of phase loss, backward or update lies behind it",
                 "omit \"boundary\"");
  for (const OpId id : problem.ops.ids()) validate_parts(problem, id, behind);
  validate_forward_outputs(problem, behind);
}

}  // namespace snug::plan

// SPDX-License-Identifier: Apache-2.0
#include "solve/remat_write.h"

#include <nlohmann/json.hpp>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/id_vector.h"
#include "plan/problem/liveness.h"

namespace snug::solve {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kPhases[] = {"prologue", "forward", "backward", "update"};

/// Makes ids of names, each once.
class Ids {
 public:
  std::string make(const std::string& name) {
    std::string id = name;
    for (int64_t& count = counts_[name]; !taken_.insert(id).second;)
      id = name + "#" + std::to_string(++count + 1);
    return id;
  }

 private:
  std::unordered_map<std::string, int64_t> counts_;
  std::unordered_set<std::string> taken_;
};

using StorageNames = IdVector<plan::StorageId, std::string>;
using OpNames = IdVector<plan::OpId, std::string>;

StorageNames storage_ids(const plan::Problem& problem) {
  Ids ids;
  StorageNames made;
  made.reserve(problem.storages.size());
  for (const plan::Storage& storage : problem.storages) made.push_back(ids.make(storage.name));
  return made;
}

OpNames op_ids(const plan::Problem& problem) {
  Ids ids;
  OpNames made;
  made.reserve(problem.run_count());
  const auto make = [&](const plan::Op& op) {
    made.push_back(ids.make(op.scope.empty() ? op.name : op.scope.str() + "/" + op.name));
  };
  for (const plan::Op& op : problem.ops) make(op);
  for (const plan::Op& variant : problem.variants) make(variant);
  return made;
}

Json named(const std::vector<plan::StorageId>& storages, const StorageNames& ids) {
  Json list = Json::array();
  for (const plan::StorageId id : storages) list.push_back(ids[id]);
  return list;
}

Json json_of(const plan::Op& op, const std::string& id, const StorageNames& storages) {
  Json json = {{"id", id},
               {"phase", kPhases[static_cast<size_t>(op.phase)]},
               {"cost", op.seconds},
               {"inputs", named(op.inputs, storages)},
               {"outputs", named(op.outputs, storages)},
               {"recompute", op.may_recompute}};
  if (op.scratch_bytes > 0) json["scratch_bytes"] = op.scratch_bytes;
  for (const auto& [output, input] : op.reuses) json["reuses"][storages[output]] = storages[input];
  if (op.is_ordered) json["ordered"] = true;
  if (op.part != plan::GraphPart::any)
    json["part"] = op.part == plan::GraphPart::forward ? "forward" : "backward";
  return json;
}

Json variant_json(const plan::Op& variant, const std::string& id, const StorageNames& storages) {
  Json json = {{"id", id}, {"cost", variant.seconds}, {"inputs", named(variant.inputs, storages)}};
  if (variant.scratch_bytes > 0) json["scratch_bytes"] = variant.scratch_bytes;
  return json;
}

Json json_of(const plan::Storage& storage, const std::string& id, const StorageNames& storages) {
  if (storage.view_of != kNone) return {{"id", id}, {"view_of", storages[storage.view_of]}};
  return {{"id", id}, {"bytes", storage.bytes}};
}

Json json_of(const plan::GraphBoundary& boundary, const StorageNames& storages) {
  return {{"forward_outputs", named(boundary.forward_outputs, storages)},
          {"between_bytes", boundary.between_bytes},
          {"forward_base_bytes", boundary.forward_base_bytes},
          {"backward_base_bytes", boundary.backward_base_bytes}};
}

// One entry a line; a whole program is a large file.
std::string lines(const std::vector<Json>& entries) {
  std::string text = "[";
  for (const Json& entry : entries) text += (text.size() > 1 ? ",\n  " : "\n  ") + entry.dump();
  return text + "]";
}

}  // namespace

std::string remat_problem_json(const plan::Problem& problem) {
  const StorageNames storages = storage_ids(problem);
  const OpNames ops = op_ids(problem);
  std::vector<Json> listed_storages, listed_ops;
  Json resident = Json::array();
  for (const plan::StorageId id : problem.storages.ids()) {
    const plan::Storage& storage = problem.storages[id];
    if (storage.resident) resident.push_back(storages[id]);
    listed_storages.push_back(json_of(storage, storages[id], storages));
  }
  for (const plan::OpId id : problem.ops.ids())
    listed_ops.push_back(json_of(problem.ops[id], ops[id], storages));
  for (const plan::OpId id : problem.variant_ids())
    listed_ops[static_cast<size_t>(problem.op_of(id).number())]["variants"].push_back(
        variant_json(problem.run(id), ops[id], storages));
  return "{\"storages\": " + lines(listed_storages) + ",\n\"resident\": " + resident.dump() +
         ",\n\"keep\": " + named(problem.keep, storages).dump() +
         (problem.boundary ? ",\n\"boundary\": " + json_of(*problem.boundary, storages).dump()
                           : "") +
         ",\n\"ops\": " + lines(listed_ops) + "}\n";
}

std::string remat_schedule_json(const plan::Problem& problem,
                                std::span<const plan::OpId> schedule) {
  const OpNames ids = op_ids(problem);
  const plan::Liveness live = plan::analyse(problem, schedule);
  IdVector<plan::OpId, int64_t> runs(problem.run_count(), 0);
  std::vector<Json> listed;
  for (const plan::OpId id : schedule) {
    listed.push_back(ids[id]);
    ++runs[id];
  }
  double cost = 0;
  for (const plan::OpId id : runs.ids())
    cost += static_cast<double>(runs[id]) * problem.run(id).seconds;
  const double kept = static_cast<double>(live.kept_bytes) * problem.kept_seconds_per_byte;
  const Json facts = {{"peak_bytes", live.load_bytes},
                      {"cost", cost},
                      {"kept_bytes", live.kept_bytes},
                      {"kept_cost", kept}};
  std::string head = facts.dump();
  head.pop_back();
  return head + ",\n\"schedule\": " + lines(listed) + "}\n";
}

}  // namespace snug::solve

// SPDX-License-Identifier: Apache-2.0
#include "solve/remat_file.h"

#include <algorithm>
#include <initializer_list>
#include <unordered_map>
#include <utility>

#include "base/id_vector.h"
#include "base/stop.h"
#include "io/file.h"
#include "io/json_file.h"
#include "io/nearest.h"
#include "plan/problem/joint.h"
#include "plan/problem/validate.h"
#include "snug/error.h"

namespace snug::solve {
namespace {

using io::JsonValue;

constexpr int64_t kMaxFileBytes = int64_t{64} << 20;
constexpr int64_t kMaxBytes = int64_t{1} << 50;  // sums of them stay exact
constexpr double kMaxCost = 1e30;                // sums of them, and their ratios, stay finite

std::string read_id(const JsonValue& value) {
  std::string id = value.as_string();
  if (id.empty()) value.fail("must not be empty");
  return id;
}

JsonValue list_at(const JsonValue& value, std::string_view key) {
  JsonValue list = value.at(key);
  if (!list.is_array()) list.fail("must be a list");
  return list;
}

// A field that is passed over could be what the peak depends on.
void allow_only(const JsonValue& object, const char* what,
                std::initializer_list<std::string_view> known) {
  for (const std::string& key : object.keys()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::vector<std::string> names(known.begin(), known.end());
    const std::string nearest = io::nearest_name(key, names);
    std::string list;
    for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
    object.find_or_null(key)->fail(std::string("is no field of ") + what,
                                   nearest.empty()
                                       ? "say it with those that there are (docs/solve.md): " + list
                                       : "did you mean '" + nearest + "'?");
  }
}

Phase phase_of(const JsonValue& value) {
  const std::string name = value.as_string();
  if (const std::optional<Phase> found = find_phase(name)) return *found;
  if (name == "loss") return Phase::backward;
  if (name == "optimizer") return Phase::update;
  value.fail("is no phase: \"" + name + "\"",
             "prologue, forward, loss, backward, update and optimizer are");
}

class ProblemReader {
 public:
  plan::Problem read(const JsonValue& root) {
    if (!root.is_object()) root.fail("must be an object with \"storages\" and \"ops\"");
    allow_only(root, "a problem", {"storages", "resident", "keep", "ops", "boundary"});
    problem_.alignment = 1;
    if (const auto resident = root.find("resident")) read_residents(*resident);
    const JsonValue storages = list_at(root, "storages");
    for (int64_t i = 0; i < storages.size(); ++i) read_storage(storages.at(i));
    resolve_views();
    const JsonValue ops = list_at(root, "ops");
    if (ops.size() == 0) ops.fail("must not be empty");
    for (int64_t i = 0; i < ops.size(); ++i) read_op(ops.at(i));
    for (const auto& [op, list] : variants_) read_variants(op, list);
    if (const auto keep = root.find("keep")) problem_.keep = storages_of(*keep);
    if (const auto boundary = root.find("boundary")) read_boundary(*boundary);
    plan::validate(problem_);
    return std::move(problem_);
  }

 private:
  void read_residents(const JsonValue& list) {
    if (!list.is_array()) list.fail("must be a list");
    for (int64_t i = 0; i < list.size(); ++i) {
      const std::string id = read_id(list.at(i));
      if (!add_storage(id, 0, true)) list.at(i).fail("names \"" + id + "\" a second time");
    }
  }

  void read_storage(const JsonValue& value) {
    const JsonValue name = value.at("id");
    allow_only(value, "a storage", {"id", "bytes", "view_of"});
    const std::string id = read_id(name);
    const std::optional<JsonValue> base = value.find_or_null("view_of");
    const std::optional<JsonValue> given = value.find_or_null("bytes");
    const int64_t bytes = base && !given ? 0 : value.at("bytes").as_int(0, kMaxBytes);
    const auto found = storage_ids_.find(id);
    const bool is_resident =
        found != storage_ids_.end() && problem_.storages[found->second].resident;
    if (base) {
      if (bytes != 0)
        given->fail("are those of a view, which has none of its own", "omit \"bytes\"");
      if (is_resident) {
        base->fail("makes \"" + id + "\" a view, and \"resident\" names it too",
                   "omit it in \"resident\": the base decides where a view lies");
      }
      views_.push_back({problem_.storages.end_id(), *base});
    }
    if (is_resident && sized_residents_.emplace(id, true).second) return;
    if (!add_storage(id, bytes, false)) name.fail("is the id of two storages: \"" + id + "\"");
  }

  bool add_storage(const std::string& id, int64_t bytes, bool is_resident) {
    if (!storage_ids_.emplace(id, problem_.storages.end_id()).second) return false;
    problem_.storages.push_back({id, bytes, is_resident});
    return true;
  }

  // A view of a view lies in what that one lies in.
  void resolve_views() {
    for (const auto& [id, base] : views_) problem_.storages[id].view_of = storage_of(base);
    IdVector<plan::StorageId, bool> is_walked(problem_.storages.size(), false);
    IdVector<plan::StorageId, bool> is_resolved(problem_.storages.size(), false);
    const auto base_of = [&](plan::StorageId id) { return problem_.storages[id].view_of; };
    for (const auto& [first, place] : views_) {
      std::vector<plan::StorageId> path;
      plan::StorageId at = first;
      for (; base_of(at) != kNone && !is_walked[at]; at = base_of(at)) {
        is_walked[at] = true;
        path.push_back(at);
      }
      if (base_of(at) != kNone) {
        if (!is_resolved[at])
          place.fail("leads back to \"" + problem_.storages[at].name + "\" itself",
                     "name the storage in which the view lies");
        at = base_of(at);
      }
      for (const plan::StorageId id : path) {
        problem_.storages[id].view_of = at;
        is_resolved[id] = true;
      }
    }
  }

  void read_boundary(const JsonValue& value) {
    if (!value.is_object()) value.fail("must be an object");
    allow_only(value, "a boundary",
               {"forward_outputs", "between_bytes", "forward_base_bytes", "backward_base_bytes"});
    plan::GraphBoundary& boundary = problem_.boundary.emplace();
    if (const auto outputs = value.find("forward_outputs"))
      boundary.forward_outputs = storages_of(*outputs);
    const auto read = [&](const char* name, int64_t& bytes) {
      if (const auto found = value.find(name)) bytes = found->as_int(0, kMaxBytes);
    };
    read("between_bytes", boundary.between_bytes);
    read("forward_base_bytes", boundary.forward_base_bytes);
    read("backward_base_bytes", boundary.backward_base_bytes);
  }

  plan::StorageId storage_of(const JsonValue& value) const {
    const std::string id = read_id(value);
    const auto found = storage_ids_.find(id);
    if (found == storage_ids_.end()) {
      value.fail("names \"" + id + "\", which is neither in \"storages\" nor in \"resident\"");
    }
    return found->second;
  }

  // Repeats in the file are one operand.
  std::vector<plan::StorageId> storages_of(const JsonValue& list) const {
    if (!list.is_array()) list.fail("must be a list");
    std::vector<plan::StorageId> ids;
    for (int64_t i = 0; i < list.size(); ++i) {
      const plan::StorageId id = storage_of(list.at(i));
      if (std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
    }
    return ids;
  }

  void read_op(const JsonValue& value) {
    stop_point();
    plan::Op op;
    allow_only(value, "an op",
               {"id", "phase", "cost", "inputs", "outputs", "scratch_bytes", "reuses", "recompute",
                "ordered", "part", "variants"});
    read_way(value, op);
    if (const auto phase = value.find("phase")) op.phase = phase_of(*phase);
    op.outputs = storages_of(value.at("outputs"));
    if (const auto reuses = value.find("reuses")) {
      if (!reuses->is_object()) reuses->fail("must be an object: output to input");
      for (const std::string& output : reuses->keys()) {
        const auto found = storage_ids_.find(output);
        if (found == storage_ids_.end())
          reuses->fail("names \"" + output + "\", which is no storage");
        op.reuses.emplace_back(found->second, storage_of(reuses->at(output)));
      }
    }
    read_runs(value, op);
    if (const auto variants = value.find("variants"))
      variants_.emplace_back(problem_.ops.end_id(), *variants);
    problem_.ops.push_back(std::move(op));
  }

  // What every way to run an op has of its own.
  void read_way(const JsonValue& value, plan::Op& op) {
    const JsonValue name = value.at("id");
    op.name = read_id(name);
    if (!op_ids_.emplace(op.name, true).second)
      name.fail("is the id of two ops: \"" + op.name + "\"");
    const JsonValue cost = value.at("cost");
    op.seconds = cost.as_double();
    if (op.seconds < 0) cost.fail("must not be negative");
    if (op.seconds > kMaxCost) cost.fail("is above 1e30", "divide all costs by a common factor");
    op.inputs = storages_of(value.at("inputs"));
    op.scratch_bytes = 0;
    if (const auto scratch = value.find("scratch_bytes"))
      op.scratch_bytes = scratch->as_int(0, kMaxBytes);
  }

  void read_variants(plan::OpId op, const JsonValue& list) {
    if (!list.is_array()) list.fail("must be a list");
    for (int64_t i = 0; i < list.size(); ++i) {
      const JsonValue value = list.at(i);
      if (!value.is_object()) value.fail("must be an object");
      allow_only(value, "a variant", {"id", "cost", "inputs", "scratch_bytes"});
      plan::Op variant = problem_.ops[op];
      read_way(value, variant);
      variant.variant_of = op;
      problem_.variants.push_back(std::move(variant));
    }
  }

  // When and how often it runs. Views are made again at will.
  void read_runs(const JsonValue& value, plan::Op& op) const {
    const bool is_view = plan::makes_only_views(problem_, op);
    op.is_ordered = value.get_bool("ordered", false);
    op.may_recompute = is_view || (op.phase == Phase::forward && !op.is_ordered);
    if (const auto recompute = value.find("recompute")) {
      op.may_recompute = recompute->as_bool();
      if (op.may_recompute && op.is_ordered)
        recompute->fail("must not be true beside \"ordered\": such an op runs once",
                        "omit one of both");
      if (!op.may_recompute && is_view)
        recompute->fail("must not be false where an op makes only views, which cost nothing",
                        "omit \"recompute\"");
    }
    const auto part = value.find("part");
    if (!part) return;
    const std::string name = part->as_string();
    if (name != "forward" && name != "backward")
      part->fail("is no part: \"" + name + "\"", "forward and backward are");
    op.part = name == "forward" ? plan::GraphPart::forward : plan::GraphPart::backward;
  }

  struct ViewPlace {
    plan::StorageId id;
    JsonValue base;
  };

  plan::Problem problem_;
  std::vector<ViewPlace> views_;
  std::vector<std::pair<plan::OpId, JsonValue>> variants_;
  std::unordered_map<std::string, plan::StorageId> storage_ids_;
  std::unordered_map<std::string, bool> sized_residents_;  // listed in "storages" as well
  std::unordered_map<std::string, bool> op_ids_;
};

}  // namespace

plan::Problem parse_remat_problem(std::string_view text, const std::string& name) {
  return ProblemReader().read(io::parse_json(text, name));
}

plan::Problem load_remat_problem(const std::string& path) {
  return ProblemReader().read(io::load_json(path, kMaxFileBytes));
}

ScheduleFile load_remat_schedule(const std::string& path) {
  const JsonValue root = io::load_json(path, kMaxFileBytes);
  const JsonValue list = root.is_object() ? root.at("schedule") : root;
  // What `solve remat --output` and `plan --save-schedule` write beside it is found again.
  if (root.is_object())
    allow_only(root, "a schedule", {"schedule",
                                    "fits",
                                    "budget_bytes",
                                    "keep_all_peak_bytes",
                                    "peak_bytes",
                                    "cost",
                                    "base_cost",
                                    "overhead",
                                    "lower_bound_cost",
                                    "lower_bound_peak_bytes",
                                    "lower_bound_op",
                                    "proof",
                                    "gap",
                                    "is_optimal",
                                    "is_stopped",
                                    "seconds",
                                    "kept_bytes",
                                    "kept_cost",
                                    "forward_peak_bytes",
                                    "backward_peak_bytes",
                                    "crossing_bytes",
                                    "crossing",
                                    "boundary_step"});
  if (!list.is_array())
    list.fail("must be a list of op ids, or an object with such a \"schedule\"");
  ScheduleFile file;
  file.ops = list.as_strings();
  if (!root.is_object()) return file;
  if (const auto step = root.find("boundary_step"))
    file.boundary_step = step->as_int(0, static_cast<int64_t>(file.ops.size()));
  return file;
}

}  // namespace snug::solve

// SPDX-License-Identifier: Apache-2.0
#include "plan/problem/json.h"

#include <nlohmann/json.hpp>

#include "base/bounded_json.h"
#include "snug/error.h"

namespace snug::plan {
namespace {

using Json = nlohmann::json;

// A million steps; no list of a problem or a plan lies deeper.
constexpr JsonBounds kJsonBounds = {.max_depth = 8, .max_values = 20'000'000};
constexpr const char* kPhases[] = {"prologue", "forward", "backward", "update"};

[[noreturn]] void reject(const std::string& what) {
  throw Error(ErrorCode::bad_data, "plan JSON", what, "write it with Snug's own to_json");
}

// Field access with the field's name in every error.
template <class T>
T field(const Json& object, const char* name) {
  if (!object.is_object()) reject(std::string("expected an object with '") + name + "'");
  const auto found = object.find(name);
  if (found == object.end()) reject(std::string("'") + name + "' is missing");
  try {
    if constexpr (std::is_same_v<T, bool>) {
      if (!found->is_boolean()) reject(std::string("'") + name + "' is not true or false");
    } else if constexpr (std::is_integral_v<T>) {
      if (!found->is_number_integer()) reject(std::string("'") + name + "' is not an integer");
      // nlohmann converts silently; a value that does not come back is out of range.
      const T value = found->get<T>();
      if (Json(value) != *found) reject(std::string("'") + name + "' is out of range");
      return value;
    }
    return found->get<T>();
  } catch (const Json::exception&) {
    reject(std::string("'") + name + "' has the wrong type");
  }
}

template <class T>
std::vector<T> integers(const Json& object, const char* name) {
  const Json list = field<Json>(object, name);
  if (!list.is_array()) reject(std::string("'") + name + "' is not a list");
  std::vector<T> values;
  for (const Json& each : list) {
    if (!each.is_number_integer() || Json(each.get<T>()) != each) {
      reject(std::string("'") + name + "' holds something else than integers in range");
    }
    values.push_back(each.get<T>());
  }
  return values;
}

Json list_field(const Json& object, const char* name) {
  Json list = field<Json>(object, name);
  if (!list.is_array()) reject(std::string("'") + name + "' is not a list");
  return list;
}

Json parse(std::string_view text) {
  try {
    return parse_bounded_json(text, kJsonBounds);
  } catch (const BadJson& error) {
    reject(std::string("the text is not JSON: ") + error.what());
  }
}

Phase phase_from(const std::string& name) {
  for (size_t i = 0; i < std::size(kPhases); ++i) {
    if (name == kPhases[i]) return static_cast<Phase>(i);
  }
  reject("'" + name + "' is not a phase");
}

}  // namespace

std::string to_json(const Problem& problem) {
  Json storages = Json::array();
  for (const Storage& each : problem.storages) {
    storages.push_back({{"name", each.name}, {"bytes", each.bytes}, {"resident", each.resident}});
    if (each.is_marked) storages.back()["is_marked"] = true;
  }
  Json ops = Json::array();
  for (const Op& op : problem.ops) {
    ops.push_back({{"name", op.name},
                   {"scope", op.scope.str()},
                   {"phase", kPhases[static_cast<size_t>(op.phase)]},
                   {"seconds", op.seconds},
                   {"inputs", op.inputs},
                   {"outputs", op.outputs},
                   {"scratch_bytes", op.scratch_bytes},
                   {"may_recompute", op.may_recompute},
                   {"is_expensive", op.is_expensive},
                   {"signature", op.signature},
                   {"reuses", op.reuses}});
    if (!op.parts.empty()) ops.back()["parts"] = op.parts;
  }
  return Json{{"storages", storages},
              {"ops", ops},
              {"keep", problem.keep},
              {"alignment", problem.alignment},
              {"kept_seconds_per_byte", problem.kept_seconds_per_byte}}
      .dump();
}

Problem problem_from_json(std::string_view text) {
  const Json json = parse(text);
  Problem problem;
  for (const Json& each : list_field(json, "storages")) {
    problem.storages.push_back(
        {.name = field<std::string>(each, "name"),
         .bytes = field<int64_t>(each, "bytes"),
         .resident = field<bool>(each, "resident"),
         .is_marked = each.contains("is_marked") && field<bool>(each, "is_marked")});
  }
  for (const Json& each : list_field(json, "ops")) {
    Op op;
    op.name = field<std::string>(each, "name");
    op.scope = field<std::string>(each, "scope");
    op.phase = phase_from(field<std::string>(each, "phase"));
    op.seconds = field<double>(each, "seconds");
    op.inputs = integers<StorageId>(each, "inputs");
    op.outputs = integers<StorageId>(each, "outputs");
    op.scratch_bytes = field<int64_t>(each, "scratch_bytes");
    op.may_recompute = field<bool>(each, "may_recompute");
    op.is_expensive = field<bool>(each, "is_expensive");
    op.signature = field<uint64_t>(each, "signature");
    for (const Json& pair : list_field(each, "reuses")) {
      const Json named{{"reuses", pair}};
      const auto ids = integers<StorageId>(named, "reuses");
      if (ids.size() != 2) reject("'reuses' holds something else than pairs");
      op.reuses.emplace_back(ids[0], ids[1]);
    }
    if (each.contains("parts")) op.parts = integers<int32_t>(each, "parts");
    problem.ops.push_back(std::move(op));
  }
  problem.keep = integers<StorageId>(json, "keep");
  problem.alignment = field<int64_t>(json, "alignment");
  problem.kept_seconds_per_byte = field<double>(json, "kept_seconds_per_byte");
  return problem;
}

std::string to_json(const Plan& plan) {
  Json steps = Json::array();
  for (const Step& step : plan.steps) {
    steps.push_back({{"op", step.op},
                     {"inputs", step.input_offsets},
                     {"outputs", step.output_offsets},
                     {"scratch", step.scratch_offset}});
  }
  Json ranges = Json::array();
  for (size_t i = 0; i < plan.live_ranges.size(); ++i) {
    const LiveRange& range = plan.live_ranges[i];
    ranges.push_back({{"storage", range.storage},
                      {"first", range.first},
                      {"last", range.last},
                      {"bytes", range.bytes},
                      {"is_scratch", range.is_scratch},
                      {"offset", plan.offsets[i]}});
  }
  return Json{{"strategy", plan.strategy},     {"steps", steps},
              {"live_ranges", ranges},         {"arena_bytes", plan.arena_bytes},
              {"load_bytes", plan.load_bytes}, {"peak_step", plan.peak_step},
              {"seconds", plan.seconds}}
      .dump();
}

Plan plan_from_json(std::string_view text) {
  const Json json = parse(text);
  Plan plan;
  plan.strategy = field<std::string>(json, "strategy");
  for (const Json& each : list_field(json, "steps")) {
    plan.steps.push_back({field<OpId>(each, "op"), integers<int64_t>(each, "inputs"),
                          integers<int64_t>(each, "outputs"), field<int64_t>(each, "scratch")});
  }
  for (const Json& each : list_field(json, "live_ranges")) {
    plan.live_ranges.push_back({field<int32_t>(each, "storage"), field<int32_t>(each, "first"),
                                field<int32_t>(each, "last"), field<int64_t>(each, "bytes"),
                                field<bool>(each, "is_scratch")});
    plan.offsets.push_back(field<int64_t>(each, "offset"));
  }
  plan.arena_bytes = field<int64_t>(json, "arena_bytes");
  plan.load_bytes = field<int64_t>(json, "load_bytes");
  plan.peak_step = field<int32_t>(json, "peak_step");
  plan.seconds = field<double>(json, "seconds");
  return plan;
}

}  // namespace snug::plan

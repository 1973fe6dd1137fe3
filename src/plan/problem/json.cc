// SPDX-License-Identifier: Apache-2.0
#include "plan/problem/json.h"

#include <limits>
#include <nlohmann/json.hpp>

#include "base/check.h"
#include "plan/problem/joint.h"

namespace snug::plan {
namespace {

using Json = nlohmann::json;

// A million steps; no list of a problem or a plan lies deeper.
constexpr io::JsonBounds kJsonBounds = {.max_depth = 8, .max_values = 20'000'000};

template <class T>
std::vector<T> integers(const io::JsonValue& list) {
  if (!list.is_array()) list.fail("is not a list");
  std::vector<T> values;
  for (int64_t i = 0; i < list.size(); ++i)
    values.push_back(static_cast<T>(
        list.at(i).as_int(std::numeric_limits<T>::min(), std::numeric_limits<T>::max())));
  return values;
}

template <class Id>
std::vector<Id> ids(const io::JsonValue& list) {
  std::vector<Id> values;
  for (const int32_t number : integers<int32_t>(list)) values.emplace_back(number);
  return values;
}

template <class Id>
std::vector<int32_t> numbers_of(const std::vector<Id>& ids) {
  std::vector<int32_t> numbers;
  for (const Id id : ids) numbers.push_back(id.number());
  return numbers;
}

std::vector<std::pair<int32_t, int32_t>> numbers_of(
    const std::vector<std::pair<StorageId, StorageId>>& pairs) {
  std::vector<std::pair<int32_t, int32_t>> numbers;
  for (const auto& [a, b] : pairs) numbers.emplace_back(a.number(), b.number());
  return numbers;
}

int32_t number_at(const io::JsonValue& object, const char* name) {
  constexpr int64_t kLargest = std::numeric_limits<int32_t>::max();
  return static_cast<int32_t>(object.at(name).as_int(-kLargest - 1, kLargest));
}

// Calls visit(element) for each.
template <class Visit>
void for_each(const io::JsonValue& list, const Visit& visit) {
  if (!list.is_array()) list.fail("is not a list");
  for (int64_t i = 0; i < list.size(); ++i) visit(list.at(i));
}

Phase phase_from(const io::JsonValue& value) {
  const std::string name = value.as_string();
  if (const std::optional<Phase> found = find_phase(name)) return *found;
  value.fail("is no phase: '" + name + "'", "prologue, forward, backward or update");
}

Json rowwise_json(const RowwiseOp& op) {
  return {{"rows", op.form.grid.rows},         {"step", op.form.grid.step},
          {"grain", op.form.grid.grain},       {"inputs", op.form.inputs},
          {"outputs", op.form.outputs},        {"scratch_bytes", op.form.scratch_bytes},
          {"threads", op.form.threads},        {"has_head", op.has_head},
          {"saved_seconds", op.saved_seconds}, {"apart_seconds", op.apart_seconds}};
}

RowwiseOp rowwise_from(const io::JsonValue& json) {
  return {.form = {.grid = {.rows = json.get_int("rows"),
                            .step = json.get_int("step"),
                            .grain = json.get_int("grain")},
                   .inputs = integers<int64_t>(json.at("inputs")),
                   .outputs = integers<int64_t>(json.at("outputs")),
                   .scratch_bytes = json.get_int("scratch_bytes"),
                   .threads = number_at(json, "threads")},
          .has_head = json.get_bool("has_head"),
          .saved_seconds = json.get_double("saved_seconds"),
          .apart_seconds = json.get_double("apart_seconds", 0)};
}

Json op_json(const Op& op) {
  Json json{{"name", op.name},
            {"scope", op.scope.str()},
            {"phase", to_string(op.phase)},
            {"seconds", op.seconds},
            {"inputs", numbers_of(op.inputs)},
            {"outputs", numbers_of(op.outputs)},
            {"scratch_bytes", op.scratch_bytes},
            {"may_recompute", op.may_recompute},
            {"is_expensive", op.is_expensive},
            {"signature", op.signature},
            {"reuses", numbers_of(op.reuses)}};
  if (!op.parts.empty()) json["parts"] = op.parts;
  if (op.rowwise->form.is_given()) json["rowwise"] = rowwise_json(*op.rowwise);
  if (op.fusion.kind != 0) {
    json["fusion"] = {{"kind", op.fusion.kind},
                      {"most", op.fusion.most},
                      {"seconds", op.fusion.seconds},
                      {"scratch_bytes", op.fusion.scratch_bytes}};
  }
  if (op.variant_of != kNone) json["variant_of"] = op.variant_of.number();
  return json;
}

Op op_from(const io::JsonValue& json) {
  Op op;
  op.name = json.get_string("name");
  op.scope = json.get_string("scope");
  op.phase = phase_from(json.at("phase"));
  op.seconds = json.get_double("seconds");
  op.inputs = ids<StorageId>(json.at("inputs"));
  op.outputs = ids<StorageId>(json.at("outputs"));
  op.scratch_bytes = json.get_int("scratch_bytes");
  op.may_recompute = json.get_bool("may_recompute");
  op.is_expensive = json.get_bool("is_expensive");
  op.signature = json.at("signature").as_unsigned();
  for_each(json.at("reuses"), [&](const io::JsonValue& pair) {
    const auto both = ids<StorageId>(pair);
    if (both.size() != 2) pair.fail("is no pair of storages");
    op.reuses.emplace_back(both[0], both[1]);
  });
  if (json.has("parts")) op.parts = integers<int32_t>(json.at("parts"));
  if (json.has("fusion")) {
    const io::JsonValue fusion = json.at("fusion");
    op.fusion = {.kind = fusion.at("kind").as_unsigned(),
                 .most = number_at(fusion, "most"),
                 .seconds = fusion.get_double("seconds"),
                 .scratch_bytes = fusion.get_int("scratch_bytes")};
  }
  if (json.has("rowwise")) op.rowwise = rowwise_from(json.at("rowwise"));
  if (json.has("variant_of")) op.variant_of = OpId(number_at(json, "variant_of"));
  return op;
}

}  // namespace

std::string to_json(const Problem& problem) {
  SNUG_CHECK(is_plain(problem), "the problem of a saved plan is plain");
  Json storages = Json::array();
  for (const Storage& each : problem.storages) {
    storages.push_back({{"name", each.name}, {"bytes", each.bytes}, {"resident", each.resident}});
    if (each.is_marked) storages.back()["is_marked"] = true;
  }
  Json ops = Json::array();
  for (const Op& op : problem.ops) ops.push_back(op_json(op));
  Json json{{"storages", storages},
            {"ops", ops},
            {"keep", numbers_of(problem.keep)},
            {"alignment", problem.alignment},
            {"kept_seconds_per_byte", problem.kept_seconds_per_byte}};
  for (const Op& variant : problem.variants) json["variants"].push_back(op_json(variant));
  return json.dump();
}

Problem problem_from_json(std::string_view text) {
  const io::JsonValue json = io::parse_json(text, "plan JSON", kJsonBounds);
  Problem problem;
  for_each(json.at("storages"), [&](const io::JsonValue& each) {
    problem.storages.push_back({.name = each.get_string("name"),
                                .bytes = each.get_int("bytes"),
                                .resident = each.get_bool("resident"),
                                .is_marked = each.get_bool("is_marked", false)});
  });
  for_each(json.at("ops"),
           [&](const io::JsonValue& each) { problem.ops.push_back(op_from(each)); });
  if (json.has("variants")) {
    for_each(json.at("variants"),
             [&](const io::JsonValue& each) { problem.variants.push_back(op_from(each)); });
  }
  problem.keep = ids<StorageId>(json.at("keep"));
  problem.alignment = json.get_int("alignment");
  problem.kept_seconds_per_byte = json.get_double("kept_seconds_per_byte");
  return problem;
}

std::string to_json(const Plan& plan) {
  Json steps = Json::array();
  for (const Step& step : plan.steps) {
    steps.push_back({{"op", step.op.number()},
                     {"inputs", step.input_offsets},
                     {"outputs", step.output_offsets},
                     {"scratch", step.scratch_offset}});
    if (step.fused == Fused::sums) steps.back()["is_fused"] = true;
    if (step.fused == Fused::rows) steps.back()["is_in_row_program"] = true;
    if (step.saved_seconds != 0) steps.back()["saved_seconds"] = step.saved_seconds;
  }
  Json ranges = Json::array();
  for (size_t i = 0; i < plan.live_ranges.size(); ++i) {
    const LiveRange& range = plan.live_ranges[i];
    ranges.push_back(
        {{"storage", (range.is_scratch() ? range.scratch_of.number() : range.storage.number())},
         {"first", range.first},
         {"last", range.last},
         {"bytes", range.bytes},
         {"is_scratch", range.is_scratch()},
         {"offset", plan.offsets[i]}});
  }
  return Json{{"strategy", plan.strategy},     {"steps", steps},
              {"live_ranges", ranges},         {"arena_bytes", plan.arena_bytes},
              {"load_bytes", plan.load_bytes}, {"peak_step", plan.peak_step},
              {"seconds", plan.seconds}}
      .dump();
}

Plan plan_from_json(std::string_view text) {
  return plan_from_json(io::parse_json(text, "plan JSON", kJsonBounds));
}

Plan plan_from_json(const io::JsonValue& json) {
  Plan plan;
  plan.strategy = json.get_string("strategy");
  for_each(json.at("steps"), [&](const io::JsonValue& each) {
    const bool is_in_rows = each.get_bool("is_in_row_program", false);
    const bool is_sum = each.get_bool("is_fused", false);
    if (is_in_rows && is_sum) each.fail("is a sum and in a row program");
    plan.steps.push_back({OpId(number_at(each, "op")), integers<int64_t>(each.at("inputs")),
                          integers<int64_t>(each.at("outputs")), each.get_int("scratch"),
                          is_in_rows ? Fused::rows : (is_sum ? Fused::sums : Fused::no),
                          each.get_double("saved_seconds", 0)});
  });
  for_each(json.at("live_ranges"), [&](const io::JsonValue& each) {
    const int32_t id = number_at(each, "storage");  // of the op where it is scratch
    const bool is_scratch = each.get_bool("is_scratch");
    plan.live_ranges.push_back({StorageId(is_scratch ? -1 : id), number_at(each, "first"),
                                number_at(each, "last"), each.get_int("bytes"),
                                OpId(is_scratch ? id : -1)});
    plan.offsets.push_back(each.get_int("offset"));
  });
  plan.arena_bytes = json.get_int("arena_bytes");
  plan.load_bytes = json.get_int("load_bytes");
  plan.peak_step = number_at(json, "peak_step");
  plan.seconds = json.get_double("seconds");
  return plan;
}

}  // namespace snug::plan

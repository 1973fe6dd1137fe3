// SPDX-License-Identifier: Apache-2.0
#include "error_text.h"

#include <optional>

#include "answer.h"

namespace snug::c_api {
namespace {

template <class T>
Json json_of(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json json_of(const WayToFit& way) {
  Json keys = Json::object();
  for (const auto& [key, value] : way.keys) keys[key] = value;
  return {{"keys", keys},
          {"least_bytes", way.least_bytes},
          {"step_seconds", json_of(way.step_seconds)},
          {"changes_result", way.changes_result},
          {"text", way.text}};
}

void add_facts(const RefusalFacts& facts, Json& json) {
  json["proof"] = facts.proof;
  json["smallest_bytes"] = json_of(facts.smallest_bytes);
  json["bound_bytes"] = json_of(facts.bound_bytes);
  json["ways"] = Json::array();
  for (const WayToFit& way : facts.ways) json["ways"].push_back(json_of(way));
}

}  // namespace

std::string error_text(const Error& error) {
  Json json = {{"code", to_string(error.code())},
               {"where", error.where()},
               {"message", error.message()},
               {"hint", error.hint()},
               {"text", error.what()}};
  if (const auto* refusal = dynamic_cast<const DoesNotFit*>(&error))
    add_facts(refusal->facts(), json);
  if (const auto* reported = dynamic_cast<const ReportedRefusal*>(&error))
    json["report"] = Json::parse(reported->report());
  return dumped({{"error", json}});
}

}  // namespace snug::c_api

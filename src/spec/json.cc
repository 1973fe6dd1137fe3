// SPDX-License-Identifier: Apache-2.0
#include "spec/json.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "base/lengths_json.h"
#include "spec/kinds.h"

namespace snug::spec {
Json json_of(bool value) { return value; }
Json json_of(int64_t value) { return value; }
Json json_of(double value) { return value; }
Json json_of(const std::string& value) { return value; }
Json json_of(const std::optional<bool>& value) { return value ? Json(*value) : Json(nullptr); }
Json json_of(const std::vector<std::string>& values) { return values; }
Json json_of(const NamedNumbers& values) { return values; }

Json json_of(const std::vector<ParameterGroup>& groups) {
  Json list = Json::array();
  for (const ParameterGroup& group : groups) {
    Json one = {{"match", group.match}};
    if (group.learning_rate) one["learning_rate"] = *group.learning_rate;
    if (group.weight_decay) one["weight_decay"] = *group.weight_decay;
    list.push_back(std::move(one));
  }
  return list;
}

Json json_of(const std::vector<StateBits>& rules) {
  Json list = Json::array();
  for (const StateBits& rule : rules) list.push_back({{"match", rule.match}, {"bits", rule.bits}});
  return list;
}

Json json_of(const std::vector<PrecisionRule>& rules) {
  Json list = Json::array();
  for (const PrecisionRule& rule : rules)
    list.push_back({{"match", rule.match}, {"dtype", rule.dtype}});
  return list;
}

Json json_of(const std::vector<FusionRule>& rules) {
  Json list = Json::array();
  for (const FusionRule& rule : rules)
    list.push_back({{"match", rule.match}, {"level", rule.level}});
  return list;
}

Json json_of(const std::vector<Lengths>& lengths) {
  Json list = Json::array();
  for (const Lengths& each : lengths) list.push_back(lengths_json<Json>(each));
  return list;
}

// What older checkpoints do not have is there where it is given.
Json json_of(const LoraOptions& options) {
  Json json = {{"match", options.match},
               {"r", options.r},
               {"alpha", options.alpha},
               {"dropout", options.dropout}};
  LoraOptions rest = options;
  rest.match.clear();
  const LoraOptions plain{.r = options.r, .alpha = options.alpha, .dropout = options.dropout};
  if (rest == plain) return json;
  rest = options;
  if (!rest.is_on()) rest.match = {"*"};  // without adapters nothing else is printed
  json["peft"] = lora().print(rest);
  return json;
}

Json json_of(const MemorySpec& memory) { return json_of(to_string(memory)); }
Json json_of(ScheduleKind kind) { return json_of(schedule().print(kind)); }
Json json_of(DrawNumbering numbering) {
  return json_of(std::string(numbering == DrawNumbering::operands ? "operands" : "building"));
}

}  // namespace snug::spec

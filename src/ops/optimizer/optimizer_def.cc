// SPDX-License-Identifier: Apache-2.0
#include "ops/optimizer/optimizer_def.h"

#include <cmath>

#include "base/check.h"

namespace snug {

double HyperValues::at(std::string_view name) const {
  for (const Entry& entry : entries_) {
    if (entry.first == name) return entry.second;
  }
  SNUG_CHECK(false, "no hyper-parameter " + std::string(name));
  return 0;
}

void HyperValues::set(const std::string& name, double value) {
  for (Entry& entry : entries_) {
    if (entry.first != name) continue;
    entry.second = value;
    return;
  }
  entries_.emplace_back(name, value);
}

std::vector<StateSpec> states_like(const Shape& shape, const std::vector<std::string>& roles) {
  std::vector<StateSpec> states;
  for (const std::string& role : roles) states.push_back({.role = role, .shape = shape});
  return states;
}

FedValues feed_rate(const HyperValues&, double learning_rate, int64_t) {
  return {learning_rate, 0, 0, 0};
}

FedValues feed_corrections(const HyperValues& settings, double learning_rate, int64_t step) {
  const auto t = static_cast<double>(step);
  return {learning_rate, 1 - std::pow(settings.at("beta1"), t),
          1 - std::pow(settings.at("beta2"), t), 0};
}

double no_share(const HyperValues&) { return 0; }
std::string nothing_refused(const HyperValues&) { return {}; }

std::string nesterov_alone_refused(const HyperValues& settings) {
  if (settings.at("nesterov") != 0 && settings.at("momentum") == 0)
    return "nesterov needs a momentum above 0";
  return {};
}

const HyperParameter* parameter_of_key(const Optimizer& optimizer, std::string_view key) {
  for (const HyperParameter& each : *optimizer.parameters) {
    if (each.key == key) return &each;
  }
  return nullptr;
}

}  // namespace snug

// SPDX-License-Identifier: Apache-2.0
// A machine profile as JSON text. What is not a whole profile of this machine is none.
#include <nlohmann/json.hpp>

#include "backend/cpu/measure_profile.h"

namespace snug {
namespace {

constexpr int kFormat = 4;  // counts up with the set of measured ops too
constexpr const char* kParts[] = {"per_call", "per_flop", "per_byte"};

bool read_part(const nlohmann::json& rate, const char* name, double& part) {
  const auto field = rate.find(name);
  if (field == rate.end() || !field->is_number()) return false;
  part = field->get<double>();
  return part >= 0 && part <= 1;  // seconds; no kernel is that slow
}

}  // namespace

std::string write_profile(const MachineProfile& profile) {
  nlohmann::json rates = nlohmann::json::object();
  for (const auto& [op, rate] : profile.rates) {
    rates[op] = {
        {kParts[0], rate.per_call}, {kParts[1], rate.per_flop}, {kParts[2], rate.per_byte}};
  }
  return nlohmann::json{{"format", kFormat}, {"machine", profile.machine}, {"rates", rates}}.dump(
             1) +
         "\n";
}

bool read_profile(const std::string& text, const std::string& machine, MachineProfile& profile) {
  const nlohmann::json document = nlohmann::json::parse(text, nullptr, false);
  if (!document.is_object()) return false;
  const auto format = document.find("format");
  const auto name = document.find("machine");
  const auto rates = document.find("rates");
  if (format == document.end() || !format->is_number_integer() || *format != kFormat) return false;
  if (name == document.end() || !name->is_string() || *name != machine) return false;
  if (rates == document.end() || !rates->is_object() || !rates->contains("")) return false;
  MachineProfile read{.machine = machine, .rates = {}};
  for (const auto& [op, parts] : rates->items()) {
    KernelRate rate;
    if (!parts.is_object() || !read_part(parts, kParts[0], rate.per_call) ||
        !read_part(parts, kParts[1], rate.per_flop) ||
        !read_part(parts, kParts[2], rate.per_byte)) {
      return false;
    }
    read.rates[op] = rate;
  }
  profile = std::move(read);
  return true;
}

}  // namespace snug

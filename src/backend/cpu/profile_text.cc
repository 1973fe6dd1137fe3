// SPDX-License-Identifier: Apache-2.0
// A machine profile as JSON text. What is not a whole profile of this machine is none.
#include <nlohmann/json.hpp>

#include "backend/cpu/measure_profile.h"

namespace snug {
namespace {

constexpr int kFormat = 6;  // counts up with the set of measured ops too
struct Part {
  const char* name;
  double KernelRate::*value;
};
constexpr Part kParts[] = {{"per_call", &KernelRate::per_call},
                           {"per_flop", &KernelRate::per_flop},
                           {"per_byte", &KernelRate::per_byte},
                           {"far_per_byte", &KernelRate::far_per_byte},
                           {"uncertainty", &KernelRate::uncertainty}};

bool read_rate(const nlohmann::json& parts, KernelRate& rate) {
  if (!parts.is_object()) return false;
  for (const Part& part : kParts) {
    const auto field = parts.find(part.name);
    if (field == parts.end() || !field->is_number()) return false;
    double& value = rate.*part.value;
    value = field->get<double>();
    // Seconds, and a share; no kernel is that slow.
    if (!(value >= 0 && value <= 1)) return false;
  }
  return true;
}

}  // namespace

std::string write_profile(const MachineProfile& profile) {
  nlohmann::json rates = nlohmann::json::object();
  for (const auto& [op, rate] : profile.rates) {
    for (const Part& part : kParts) rates[op][part.name] = rate.*part.value;
  }
  return nlohmann::json{{"format", kFormat},
                        {"machine", profile.machine},
                        {"cache_bytes", profile.cache_bytes},
                        {"rates", rates}}
             .dump(1) +
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
  const auto cache = document.find("cache_bytes");
  if (cache == document.end() || !cache->is_number_unsigned() || *cache == 0 ||
      *cache > uint64_t{1} << 40)
    return false;
  MachineProfile read{.machine = machine, .rates = {}, .cache_bytes = cache->get<int64_t>()};
  for (const auto& [op, parts] : rates->items()) {
    KernelRate rate;
    if (!read_rate(parts, rate)) return false;
    read.rates[op] = rate;
  }
  profile = std::move(read);
  return true;
}

}  // namespace snug

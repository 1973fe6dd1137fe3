// SPDX-License-Identifier: Apache-2.0
// A machine profile as JSON text. What is not a whole profile of this machine is none.
#include <nlohmann/json.hpp>

#include "backend/cpu/measure_profile.h"
#include "io/json_file.h"
#include "snug/error.h"

namespace snug {
namespace {

// Counts up with the set of measured ops, too, and where kernels become much faster.
constexpr int kFormat = 19;
struct Part {
  const char* name;
  double KernelRate::*value;
};
constexpr Part kParts[] = {{"per_call", &KernelRate::per_call},
                           {"per_flop", &KernelRate::per_flop},
                           {"per_byte", &KernelRate::per_byte},
                           {"far_per_byte", &KernelRate::far_per_byte},
                           {"uncertainty", &KernelRate::uncertainty},
                           {"saved_share", &KernelRate::saved_share},
                           {"reached_per_flop", &KernelRate::reached_per_flop}};

// Seconds, and shares; no kernel is as slow as 1.
double share_in(const io::JsonValue& parts, const char* name) {
  const double value = parts.get_double(name);
  if (!(value >= 0 && value <= 1)) parts.at(name).fail("is no rate and no share");
  return value;
}

KernelRate read_rate(const io::JsonValue& parts) {
  KernelRate rate;
  for (const Part& part : kParts) rate.*part.value = share_in(parts, part.name);
  return rate;
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
                        {"waited_share", profile.waited_share},
                        {"measurements", profile.measurements},
                        {"rates", rates}}
             .dump(1) +
         "\n";
}

bool read_profile(const std::string& text, const std::string& machine, MachineProfile& profile) {
  try {
    const io::JsonValue document = io::parse_json(text, "machine profile");
    (void)document.at("format").as_int(kFormat, kFormat);
    if (document.get_string("machine") != machine) return false;
    MachineProfile read{.machine = machine,
                        .rates = {},
                        .cache_bytes = document.at("cache_bytes").as_int(1, int64_t{1} << 40),
                        .waited_share = share_in(document, "waited_share"),
                        .measurements = document.at("measurements").as_int(1, kMostMeasurements)};
    const io::JsonValue rates = document.at("rates");
    for (const std::string& op : rates.keys()) read.rates[op] = read_rate(rates.at(op));
    if (read.rates.count("") == 0) return false;
    profile = std::move(read);
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace snug

// SPDX-License-Identifier: Apache-2.0
// The formula of a prediction and the built-in rates. Measuring is in measure_profile.cc, the cache
// in profile_cache.cc.
#include "backend/cpu/machine_profile.h"

#include <algorithm>
#include <cmath>

#include "ops/registry.h"

namespace snug {
namespace {

double seconds_at(const KernelRate& rate, double per_byte, const Cost& cost) {
  return std::max(0.0, rate.per_call + rate.per_flop * cost.flops +
                           per_byte * (cost.bytes_read + cost.bytes_written));
}

}  // namespace

const KernelRate* MachineProfile::rate_of(const std::string& kind) const {
  auto rate = rates.find(kind);
  if (rate == rates.end()) rate = rates.find(kind.substr(0, kind.find('.')));
  if (rate == rates.end()) rate = rates.find("");
  return rate == rates.end() ? nullptr : &rate->second;
}

double MachineProfile::seconds(const std::string& kind, const Cost& cost) const {
  const KernelRate* rate = rate_of(kind);
  return rate == nullptr ? 0 : seconds_at(*rate, rate->per_byte, cost);
}

double MachineProfile::saved_seconds(const std::string& kind, const Cost& cost) const {
  const KernelRate* rate = rate_of(kind);
  return rate == nullptr ? 0 : rate->saved_share * seconds_at(*rate, rate->per_byte, cost);
}

double MachineProfile::far_seconds(const std::string& kind, const Cost& cost) const {
  const KernelRate* rate = rate_of(kind);
  return rate == nullptr ? 0
                         : seconds_at(*rate, std::max(rate->per_byte, rate->far_per_byte), cost);
}

double MachineProfile::uncertainty(const std::string& kind) const {
  const KernelRate* rate = rate_of(kind);
  return rate == nullptr ? 0 : rate->uncertainty;
}

double MachineProfile::share_from_memory(double bytes) const {
  // Operands of half the last cache are still there from the op before, operands of twice its size
  // are not; between them by the logarithm.
  const double ratio = bytes / static_cast<double>(std::max<int64_t>(cache_bytes, 1));
  return ratio <= 0.5 ? 0 : std::min(1.0, 0.5 * std::log2(2 * ratio));
}

double MachineProfile::kept_seconds_per_byte() const {
  // As two bytes of an element-wise op; a little less, so that an output of such an op never looks
  // cheaper to make again than to keep.
  constexpr double kBytes = 1.8;
  const auto rate = rates.find("");
  return rate == rates.end() ? 0 : kBytes * rate->second.per_byte;
}

std::string rate_kind(const NodeSpec& spec) {
  const Timing& timing = spec.op->timing;
  std::string kind = timing.kind == nullptr ? *spec.op->name
                                            : timing.kind({spec.inputs, spec.outputs, spec.attrs});
  for (const InputTypes::Given& type : spec.inputs) {
    if (!type || !is_half(type->dtype)) continue;
    if (kind.ends_with(to_string(type->dtype))) return kind;
    return with_suffix(std::move(kind), kHalfKind);
  }
  return kind;
}

std::string with_suffix(std::string kind, std::string_view suffix) {
  if (suffix.empty()) return kind;
  kind += kind.find('.') == std::string::npos ? '.' : '_';
  return kind += suffix;
}

MachineProfile default_profile() {
  MachineProfile profile{
      .machine = "default",
      .rates = {{"", {.per_call = 2e-6, .per_flop = 0, .per_byte = 1.0 / 15e9}}}};
  for (const OpDef* op : op_registry().all()) {
    const UsualRate* usual = op->timing.usual;
    if (usual == nullptr) continue;
    profile.rates[*op->name] = {
        .per_call = usual->per_call, .per_flop = usual->per_flop, .per_byte = usual->per_byte};
  }
  for (auto& [kind, rate] : profile.rates) rate.uncertainty = 0.5;  // not of this machine
  return profile;
}

}  // namespace snug

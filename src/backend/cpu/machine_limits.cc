// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/machine_limits.h"

#include <algorithm>
#include <string>

#include "ops/registry.h"

namespace snug {
namespace {

// Whether ops that map rows by a matrix have the rate.
bool is_product(const std::string& kind) {
  return std::ranges::any_of(op_registry().all(), [&](const OpDef* op) {
    return op->linear_operand && (kind == *op->name || kind.starts_with(*op->name + "."));
  });
}

// The best of all shapes that were measured in the type.
double fastest_product(const MachineProfile& profile, DType type) {
  double fastest = 0;
  for (const auto& [kind, rate] : profile.rates) {
    const bool is_bf16 = kind.find("bf16") != std::string::npos;
    const bool is_f16 = !is_bf16 && kind.find("f16") != std::string::npos;
    const DType of_rate = is_bf16 ? DType::bf16 : is_f16 ? DType::f16 : DType::f32;
    const double reached = rate.reached_per_flop;
    if (of_rate != type || reached <= 0 || !is_product(kind)) continue;
    fastest = fastest == 0 ? reached : std::min(fastest, reached);
  }
  return fastest;
}

}  // namespace

double MachineLimits::arithmetic_seconds(double flops, DType type) const {
  return flops * (type == DType::bf16  ? per_flop_of_bf16
                  : type == DType::f16 ? per_flop_of_f16
                                       : per_flop);
}

double MachineLimits::memory_seconds(double bytes, double share_from_memory) const {
  return bytes * (per_byte + share_from_memory * (far_per_byte - per_byte));
}

MachineLimits limits_of(const MachineProfile& profile) {
  MachineLimits limits{.per_flop = fastest_product(profile, DType::f32)};
  const auto or_f32 = [&](double per_flop) { return per_flop > 0 ? per_flop : limits.per_flop; };
  limits.per_flop_of_bf16 = or_f32(fastest_product(profile, DType::bf16));
  limits.per_flop_of_f16 = or_f32(fastest_product(profile, DType::f16));
  const auto typical = profile.rates.find("");
  if (typical == profile.rates.end()) return limits;
  limits.per_byte = typical->second.per_byte;
  limits.far_per_byte = std::max(limits.per_byte, typical->second.far_per_byte);
  return limits;
}

}  // namespace snug

// SPDX-License-Identifier: Apache-2.0
// How fast this machine computes and moves at best, as its profile measured it: what the time of an
// op is held against.
#pragma once

#include "backend/cpu/machine_profile.h"

namespace snug {

/// Seconds that no kernel is much below: the fastest products, and the additions that the profile
/// takes for all ops which only move their operands.
struct MachineLimits {
  double per_flop = 0;          // of f32
  double per_flop_of_bf16 = 0;  // of products in this type; where none was measured, as in f32
  double per_flop_of_f16 = 0;   // likewise
  double per_byte = 0;          // where operands lie in the caches as they do in a usual step
  double far_per_byte = 0;      // in memory

  [[nodiscard]] double arithmetic_seconds(double flops, DType type) const;
  /// `share_from_memory`: of the bytes (Backend::share_from_memory).
  [[nodiscard]] double memory_seconds(double bytes, double share_from_memory) const;
};

[[nodiscard]] MachineLimits limits_of(const MachineProfile& profile);

}  // namespace snug

// SPDX-License-Identifier: Apache-2.0
// How a weight starts: a pure function of (seed, name of the weight, element).
#pragma once

#include <cmath>
#include <cstdint>

namespace snug {

/// `deviation` times a normal variate, within `cutoff` deviations where that is above 0; uniform
/// within `bound` of 0 where that is above 0; or `constant` everywhere. One row may be zero (the
/// padding token's embedding).
struct InitRule {
  double deviation = 0;
  double constant = 0;
  int64_t zero_row = -1;  // -1: none
  double bound = 0;
  double cutoff = 0;
  bool operator==(const InitRule&) const = default;

  [[nodiscard]] static InitRule zeros() { return {}; }
  [[nodiscard]] static InitRule ones() { return {.constant = 1}; }
  [[nodiscard]] static InitRule normal(double deviation) { return {.deviation = deviation}; }
  [[nodiscard]] static InitRule uniform(double bound) { return {.bound = bound}; }
  /// Keeps the variance of what goes through, times `gain` (2 before a relu; He et al. 2015, eq.
  /// 10).
  [[nodiscard]] static InitRule fan_in(int64_t inputs, double gain = 1) {
    return {.deviation = std::sqrt(gain / static_cast<double>(inputs))};
  }
};

}  // namespace snug

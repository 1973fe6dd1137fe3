// SPDX-License-Identifier: Apache-2.0
// GELU (Hendrycks and Gimpel 2016) in double, x Phi(x), or with the logistic function in place of
// the normal distribution's: what the ops gelu and geglu are compared with.
#pragma once

#include <cmath>
#include <numbers>
#include <string>

#include "ops/op_rules.h"
#include "snug/error.h"

namespace snug {

struct Gelu {
  double value;
  double slope;
};

/// At x; `is_tanh` is the attribute approximate = "tanh".
[[nodiscard]] inline Gelu gelu_at(double x, bool is_tanh) {
  if (!is_tanh) {
    const double phi = 0.5 * std::erfc(-x / std::numbers::sqrt2);  // no cancellation below 0
    const double density = std::exp(-0.5 * x * x) * std::numbers::inv_sqrtpi / std::numbers::sqrt2;
    return {x * phi, phi + x * density};
  }
  // x / 2 (1 + tanh u) is x sigmoid(2 u), without cancellation.
  constexpr double kCubic = 0.044715;
  const double k = 2 * std::numbers::sqrt2 * std::numbers::inv_sqrtpi;
  const double s = 1 / (1 + std::exp(-k * (x + kCubic * x * x * x)));
  return {x * s, s + x * s * (1 - s) * k * (1 + 3 * kCubic * x * x)};
}

[[nodiscard]] inline bool is_tanh_gelu(const Attrs& attrs) {
  return attrs.text("approximate") == "tanh";
}

inline void check_approximation(const InferArgs& args) {
  const std::string& approximate = args.attrs.text("approximate");
  if (approximate == "none" || approximate == "tanh") return;
  throw Error(ErrorCode::invalid_graph, args.where,
              "approximate must be \"none\" or \"tanh\", not \"" + approximate + "\"");
}

}  // namespace snug

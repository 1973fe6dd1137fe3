// SPDX-License-Identifier: Apache-2.0
// Compares gradients that autodiff builds with central differences of the reference backend, in
// double.
//
// Design: the cotangent is random, so that no sum hides an error. Up to 64 elements are compared
// one by one, more along 8 random directions. Comparisons are written so that NaN fails. The
// checker is handed the gradient, so that a test can hand it a wrong one.
#pragma once

#include <string>
#include <vector>

#include "backend/reference/reference.h"

namespace snug {

inline constexpr double kGradientTolerance = 1e-6;

/// Central differences of <cotangent, output> by one value of a graph.
class FiniteDifference {
 public:
  /// Evaluates the graph 2 times an element or direction. `feeds` covers all residents of the
  /// graph.
  FiniteDifference(const Graph& graph, RefValues feeds, ValueId output,
                   const std::vector<double>& cotangent, ValueId wrt);

  /// Relative L2 distance of this gradient; 0 means equal. NaN where it is not finite.
  [[nodiscard]] double error_of(const std::vector<double>& gradient) const;
  /// L2 norm of the differences.
  [[nodiscard]] double norm() const;

 private:
  std::vector<std::vector<double>> directions_;  // empty: the unit vectors
  std::vector<double> slopes_;                   // by direction
};

/// Empty where the checker accepts the gradient and rejects it when it is scaled by 1.01, when its
/// largest element is dropped and when its sign is flipped; otherwise what went wrong.
[[nodiscard]] std::string check_gradient(const FiniteDifference& difference,
                                         const std::vector<double>& gradient);

/// N(0, 1) from a seed.
[[nodiscard]] std::vector<double> random_normal(int64_t count, uint64_t seed);

}  // namespace snug

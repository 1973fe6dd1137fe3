// SPDX-License-Identifier: Apache-2.0
// Initial weights as a pure function of (seed, parameter name, element): the same for every model
// that has the parameter, every order of filling and every thread count.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "graph/types.h"

namespace snug::nn {

/// How a parameter starts: `deviation` times a normal variate, or `constant` everywhere where the
/// deviation is 0. One row may be zero (the padding token's embedding).
struct InitRule {
  double deviation = 0;
  double constant = 0;
  int64_t zero_row = -1;  // -1: none
  bool operator==(const InitRule&) const = default;
};

/// Fills the row-major weight of this shape.
void initialize(std::span<float> weight, const Shape& shape, const InitRule& rule,
                const std::string& parameter, uint64_t seed, int threads = 1);

}  // namespace snug::nn

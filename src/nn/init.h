// SPDX-License-Identifier: Apache-2.0
// Initial weights as a pure function of (seed, parameter name, element): the same for every model
// that has the parameter, every order of filling and every thread count.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "snug/init.h"
#include "snug/types.h"

namespace snug::nn {

/// Fills the row-major weight of this shape, or rows of it: `first` is the first element of
/// `weight` among all.
void initialize(std::span<float> weight, const Shape& shape, const InitRule& rule,
                const std::string& parameter, uint64_t seed, int threads = 1, int64_t first = 0);

}  // namespace snug::nn

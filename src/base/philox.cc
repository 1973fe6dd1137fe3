// SPDX-License-Identifier: Apache-2.0
#include "base/philox.h"

#include <cmath>
#include <numbers>

namespace snug {

double PhiloxStream::normal() {
  const double radius = std::sqrt(-2.0 * std::log(uniform()));
  return radius * std::cos(2.0 * std::numbers::pi * uniform());
}

}  // namespace snug

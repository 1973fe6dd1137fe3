// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string>

namespace snug::report {

/// "+12.3 %", with its sign and no minus before a zero.
[[nodiscard]] inline std::string signed_percent(double share, int digits = 1) {
  const double steps = std::pow(10.0, digits);
  return fmt::format("{:+.{}f} %", std::nearbyint(100 * steps * share) / steps + 0.0, digits);
}

}  // namespace snug::report

// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fmt/format.h>

#include <cmath>
#include <string>

namespace snug {

/// "+12.3 %", with its sign and no minus before a zero.
[[nodiscard]] inline std::string signed_percent(double share) {
  return fmt::format("{:+.1f} %", std::nearbyint(1000 * share) / 10 + 0.0);
}

}  // namespace snug

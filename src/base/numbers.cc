// SPDX-License-Identifier: Apache-2.0
#include "base/numbers.h"

#include <array>
#include <cstdint>

namespace snug {

std::string number_text(double value) {
  if (std::trunc(value) == value && std::fabs(value) < 1e15)
    return std::to_string(static_cast<int64_t>(value));
  std::array<char, 40> text{};
  const auto result = std::to_chars(text.begin(), text.end(), plain_nan(value));
  return {text.data(), result.ptr};
}

}  // namespace snug

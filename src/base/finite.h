// SPDX-License-Identifier: Apache-2.0
// Looks for infinities and NaN in values.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/half.h"

namespace snug {

/// Index of the first element that is infinite or NaN; -1 where all are finite. One pass at the
/// speed of memory.
[[nodiscard]] int64_t first_not_finite(std::span<const float> values);
[[nodiscard]] int64_t first_not_finite(std::span<const double> values);
[[nodiscard]] int64_t first_not_finite(std::span<const Bf16> values);
[[nodiscard]] int64_t first_not_finite(std::span<const F16> values);

struct NotFinite {
  std::string name;  // of the tensor
  int64_t element = 0;
  double value = 0;
  [[nodiscard]] std::string text() const;  // "'classifier.bias' is nan at element 2"
};
/// Throws Error{numeric} at `where`, the folder or file that the weights come from.
[[noreturn]] void refuse_not_finite(const std::string& where, const NotFinite& found);
/// Does so where one of the values is not finite, which are a tensor's from its element `first`.
void require_finite(const std::string& where, const std::string& name,
                    std::span<const float> values, int64_t first = 0);

}  // namespace snug

// SPDX-License-Identifier: Apache-2.0
// Looks for infinities and NaN in what a run holds.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "session/engine.h"

namespace snug::train {

/// Index of the first element that is infinite or NaN; -1 where all are finite. One pass at the
/// speed of memory.
[[nodiscard]] int64_t first_not_finite(std::span<const float> values);

struct NotFinite {
  std::string name;
  int64_t element = 0;
  float value = 0;
  [[nodiscard]] std::string text() const;  // "'classifier.bias' is nan at element 2"
};
/// The first weight, buffer or optimizer state with such an element, in order of name.
[[nodiscard]] std::optional<NotFinite> find_not_finite(const Engine& engine);

}  // namespace snug::train

// SPDX-License-Identifier: Apache-2.0
// Names in a message.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

namespace snug {

inline constexpr size_t kListed = 8;

/// "a, b, c", or the first so many and how many there are.
[[nodiscard]] inline std::string joined(const std::vector<std::string>& names, size_t limit) {
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), limit); ++i)
    text += (i == 0 ? "" : ", ") + names[i];
  if (names.size() > limit) text += ", ... (" + std::to_string(names.size()) + " in all)";
  return text;
}

}  // namespace snug

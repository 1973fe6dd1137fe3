// SPDX-License-Identifier: Apache-2.0
// Numbers in texts of users and files.
#pragma once

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>

namespace snug {

/// The number that the text is from its first character to its last; nothing for any other text and
/// for what T does not hold. No locale, no spaces, no plus sign.
template <class T>
[[nodiscard]] std::optional<T> number_in(std::string_view text) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [stop, status] = std::from_chars(text.data(), end, value);
  return status == std::errc() && stop == end ? std::optional(value) : std::nullopt;
}

}  // namespace snug

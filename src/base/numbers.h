// SPDX-License-Identifier: Apache-2.0
// Numbers in texts of users and files, and as text; whatever locale the host has set.
#pragma once

#include <charconv>
#include <cmath>
#include <optional>
#include <string>
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

/// The value; a NaN without its sign, which says nothing and would be printed ("-nan").
[[nodiscard]] inline double plain_nan(double value) {
  return std::isnan(value) ? std::fabs(value) : value;
}
/// Shortest text that reads back to the same double; whole numbers in full: 100000, not 1e+05.
[[nodiscard]] std::string number_text(double value);
/// So many digits behind the point, as printf's %.Nf. What rounds to zero has no sign.
[[nodiscard]] std::string fixed_text(double value, int digits);
/// So many digits that count, as printf's %.Ng.
[[nodiscard]] std::string digits_text(double value, int digits);
/// At least so many digits, of base 16 in capitals or not.
[[nodiscard]] std::string hex_text(unsigned value, size_t digits, bool in_capitals = false);

}  // namespace snug

// SPDX-License-Identifier: Apache-2.0
#include "base/numbers.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>

#include "base/ascii.h"

namespace snug {

std::string number_text(double value) {
  if (std::trunc(value) == value && std::fabs(value) < 1e15)
    return std::to_string(static_cast<int64_t>(value));
  std::array<char, 40> text{};
  const auto result = std::to_chars(text.begin(), text.end(), plain_nan(value));
  return {text.data(), result.ptr};
}

namespace {

std::string text_of(double value, std::chars_format format, int digits) {
  // The longest are 1e308 in full, and as many digits behind the point as are asked for.
  std::string text(static_cast<size_t>(std::numeric_limits<double>::max_exponent10 + 8 + digits),
                   '\0');
  const auto result =
      std::to_chars(text.data(), text.data() + text.size(), plain_nan(value), format, digits);
  text.resize(static_cast<size_t>(result.ptr - text.data()));
  return text;
}

}  // namespace

std::string fixed_text(double value, int digits) {
  std::string text = text_of(value, std::chars_format::fixed, digits);
  if (text.starts_with('-') && text.find_first_not_of("-0.") == std::string::npos) text.erase(0, 1);
  return text;
}

std::string digits_text(double value, int digits) {
  return text_of(value, std::chars_format::general, digits);
}

std::string hex_text(unsigned value, size_t digits, bool in_capitals) {
  std::array<char, 16> text{};
  const auto result = std::to_chars(text.begin(), text.end(), value, 16);
  std::string hex(text.data(), result.ptr);
  if (hex.size() < digits) hex.insert(0, digits - hex.size(), '0');
  if (in_capitals) std::transform(hex.begin(), hex.end(), hex.begin(), ascii::to_upper);
  return hex;
}

}  // namespace snug

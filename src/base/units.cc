// SPDX-License-Identifier: Apache-2.0
#include "base/units.h"

#include <charconv>
#include <cmath>
#include <optional>

#include "base/ascii.h"
#include "base/numbers.h"
#include "snug/error.h"

namespace snug {
namespace {

constexpr std::string_view kPrefixes = "kmgt";

/// Bytes in a unit in any case, with its B or without; nothing where it is none. A letter alone
/// ("2G") is read as powers of 1000: of what programs mean by it that is the less, so a budget is
/// never more than was meant.
std::optional<double> bytes_in(std::string_view unit) {
  std::string rest = ascii::lowered(std::string(unit));
  if (rest.ends_with('b')) rest.pop_back();
  if (rest.empty()) return 1.0;
  const size_t prefix = kPrefixes.find(rest[0]);
  if (prefix == kPrefixes.npos || (rest.size() > 1 && rest.substr(1) != "i")) return std::nullopt;
  return std::pow(rest.size() > 1 ? 1024.0 : 1000.0, static_cast<double>(prefix + 1));
}

// `round` gets the value in steps of its last digit.
template <class Round>
std::string bytes_text(int64_t bytes, Round&& round) {
  const char* const names[] = {"KiB", "MiB", "GiB", "TiB"};
  const int64_t magnitude = bytes < 0 ? -bytes : bytes;
  if (magnitude < 1024) return std::to_string(bytes) + " B";
  double value = static_cast<double>(bytes) / 1024.0;
  int unit = 0;
  while (std::fabs(value) >= 1024.0 && unit < 3) {
    value /= 1024.0;
    ++unit;
  }
  const int digits = std::fabs(value) < 10 ? 2 : 1;
  const double steps = digits == 2 ? 100 : 10;
  return fixed_text(round(value * steps) / steps, digits) + " " + names[unit];
}

}  // namespace

std::string format_bytes(int64_t bytes) {
  return bytes_text(bytes, [](double steps) { return std::nearbyint(steps); });
}

std::string format_bytes_up(int64_t bytes) {
  return bytes_text(bytes, [](double steps) { return std::ceil(steps); });
}

bool is_byte_unit(std::string_view word) { return !word.empty() && bytes_in(word).has_value(); }

std::string format_seconds(double seconds) {
  if (seconds < 1.0) return fixed_text(seconds * 1e3, 1) + " ms";
  if (seconds < 60.0) return fixed_text(seconds, 1) + " s";
  const int64_t whole = std::llround(seconds);
  const auto two_digits = [](int64_t value) {
    return (value < 10 ? "0" : "") + std::to_string(value);
  };
  if (whole < 3600) return std::to_string(whole / 60) + " min " + two_digits(whole % 60) + " s";
  return std::to_string(whole / 3600) + " h " + two_digits(whole % 3600 / 60) + " min";
}

int64_t parse_bytes(std::string_view text, std::string_view key) {
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  const std::optional<double> scale = bytes_in(unit);
  if (status == std::errc() && scale && value >= 0 && value * *scale < 9e18)
    return static_cast<int64_t>(value * *scale);
  throw Error(ErrorCode::bad_config, std::string(key),
              "'" + std::string(text) + "' is not a number of bytes",
              "write for example 900MiB, 2GiB, 1.5GB (or 1.5G: powers of 1000) or 1073741824");
}

}  // namespace snug

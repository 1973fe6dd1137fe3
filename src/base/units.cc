// SPDX-License-Identifier: Apache-2.0
#include "base/units.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <iterator>
#include <utility>

#include "snug/error.h"

namespace snug {
namespace {

constexpr std::pair<std::string_view, double> kUnits[] = {{"", 1.0},
                                                          {"B", 1.0},
                                                          {"KiB", 1024.0},
                                                          {"MiB", 1048576.0},
                                                          {"GiB", 1073741824.0},
                                                          {"TiB", 1099511627776.0},
                                                          {"KB", 1e3},
                                                          {"MB", 1e6},
                                                          {"GB", 1e9},
                                                          {"TB", 1e12}};

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
  char text[48];
  std::snprintf(text, sizeof text, "%.*f %s", digits, round(value * steps) / steps, names[unit]);
  return text;
}

}  // namespace

std::string format_bytes(int64_t bytes) {
  return bytes_text(bytes, [](double steps) { return std::nearbyint(steps); });
}

std::string format_bytes_up(int64_t bytes) {
  return bytes_text(bytes, [](double steps) { return std::ceil(steps); });
}

bool is_byte_unit(std::string_view word) {
  return !word.empty() && std::any_of(std::begin(kUnits), std::end(kUnits),
                                      [&](const auto& unit) { return unit.first == word; });
}

std::string format_seconds(double seconds) {
  char text[48];
  if (seconds < 1.0) {
    std::snprintf(text, sizeof text, "%.1f ms", seconds * 1e3);
  } else if (seconds < 60.0) {
    std::snprintf(text, sizeof text, "%.1f s", seconds);
  } else {
    const auto whole = static_cast<long long>(std::llround(seconds));
    if (whole < 3600) {
      std::snprintf(text, sizeof text, "%lld min %02lld s", whole / 60, whole % 60);
    } else {
      std::snprintf(text, sizeof text, "%lld h %02lld min", whole / 3600, whole % 3600 / 60);
    }
  }
  return text;
}

int64_t parse_bytes(std::string_view text, std::string_view key) {
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  std::string_view unit(end, static_cast<size_t>(text.data() + text.size() - end));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  for (const auto& [name, scale] : kUnits) {
    if (status == std::errc() && unit == name && value >= 0 && value * scale < 9e18) {
      return static_cast<int64_t>(value * scale);
    }
  }
  throw Error(ErrorCode::bad_config, std::string(key),
              "'" + std::string(text) + "' is not a number of bytes",
              "write for example 900MiB, 2GiB, 1.5GB or 1073741824");
}

}  // namespace snug

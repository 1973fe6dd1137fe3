// SPDX-License-Identifier: Apache-2.0
// An axis of a chart: from where to where, and which round numbers it names.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace snug::report {

enum class Quantity : uint8_t { bytes, seconds };
enum class Scale : uint8_t { linear, logarithmic };

struct Tick {
  double value = 0;
  std::string label;  // "50 MiB", "0", "1.5 s"
};

/// Ticks stand at 1, 2 or 5 times a power of ten of one unit, bytes of a logarithmic axis at powers
/// of two. All of them lie within `begin` and `end`, at least two.
struct Axis {
  double begin = 0;
  double end = 1;
  Scale scale = Scale::linear;
  std::vector<Tick> ticks;

  /// Where a value lies between begin (0) and end (1).
  [[nodiscard]] double share(double value) const;
};

/// An axis from `low` to `high`, both finite and at least 0; a logarithmic one of scale_for's
/// choice. Where both are equal there is room on both sides.
[[nodiscard]] Axis make_axis(double low, double high, Quantity quantity,
                             Scale scale = Scale::linear);

/// Logarithmic where the largest is eight times the smallest or more and most of the values would
/// lie in the first tenth of a linear axis.
[[nodiscard]] Scale scale_for(std::span<const double> values);

}  // namespace snug::report

// SPDX-License-Identifier: Apache-2.0
#include "report/axis.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "base/numbers.h"

namespace snug::report {
namespace {

constexpr int kMostTicks = 7;

struct Unit {
  double size = 1;
  const char* name = "";
};
constexpr std::array kByteUnits = {Unit{1, "B"}, Unit{1024, "KiB"}, Unit{1048576, "MiB"},
                                   Unit{1073741824, "GiB"}, Unit{1099511627776, "TiB"}};
constexpr std::array kSecondUnits = {Unit{1e-6, "us"}, Unit{1e-3, "ms"}, Unit{1, "s"},
                                     Unit{60, "min"}, Unit{3600, "h"}};

// The largest of which there is one or more.
Unit unit_of(double value, Quantity quantity) {
  const std::span<const Unit> units =
      quantity == Quantity::bytes ? std::span<const Unit>(kByteUnits) : kSecondUnits;
  Unit found = units.front();
  for (const Unit& unit : units) {
    if (value >= unit.size) found = unit;
  }
  return found;
}

// The shortest text of a number that is a small multiple of a power of ten.
std::string short_text(double value) {
  for (int digits = 0; digits < 9; ++digits) {
    std::string text = fixed_text(value, digits);
    const double scale = std::pow(10.0, digits);
    if (std::abs(std::nearbyint(value * scale) / scale - value) <= 1e-9 * std::abs(value))
      return text;
  }
  return fixed_text(value, 9);
}

std::string label_of(double value, const Unit& unit) {
  return value == 0 ? "0" : short_text(value / unit.size) + " " + unit.name;
}

// The smallest of 1, 2 and 5 times a power of ten that is no less.
double round_step(double least) {
  const double power = std::pow(10.0, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

std::vector<Tick> linear_ticks(double low, double high, Quantity quantity) {
  const Unit unit = unit_of(high, quantity);
  const double step = round_step((high - low) / unit.size / (kMostTicks - 1)) * unit.size;
  std::vector<Tick> ticks;
  for (double at = std::ceil(low / step * (1 - 1e-9)); at * step <= high * (1 + 1e-9); ++at)
    ticks.push_back({at * step, label_of(at * step, unit)});
  return ticks;
}

// Powers of two of bytes; 1, 2 and 5 of every decade of seconds.
std::vector<double> log_places(double low, double high, Quantity quantity) {
  const bool is_binary = quantity == Quantity::bytes;
  const double base = is_binary ? 2 : 10;
  std::vector<double> places;
  for (double power = std::floor(std::log(low) / std::log(base));; ++power) {
    for (const double factor : {1.0, 2.0, 5.0}) {
      if (is_binary && factor > 1) continue;
      const double place = factor * std::pow(base, power);
      if (place > high * (1 + 1e-9)) return places;
      if (place >= low * (1 - 1e-9)) places.push_back(place);
    }
  }
}

std::vector<Tick> log_ticks(double low, double high, Quantity quantity) {
  const std::vector<double> places = log_places(low, high, quantity);
  const size_t stride = (places.size() - 1) / kMostTicks + 1;
  std::vector<Tick> ticks;
  for (size_t i = 0; i < places.size(); i += stride)
    ticks.push_back({places[i], label_of(places[i], unit_of(places[i], quantity))});
  return ticks;
}

}  // namespace

double Axis::share(double value) const {
  if (scale == Scale::linear) return (value - begin) / (end - begin);
  return std::log(value / begin) / std::log(end / begin);
}

Axis make_axis(double low, double high, Quantity quantity, Scale scale) {
  if (high - low <= 1e-6 * high) {
    // One value, as a list of one price has.
    const double room = high > 0 ? 0.05 * high : 1;
    low = std::max(0.0, low - room);
    high += room;
  }
  return {.begin = low,
          .end = high,
          .scale = scale,
          .ticks = scale == Scale::linear ? linear_ticks(low, high, quantity)
                                          : log_ticks(low, high, quantity)};
}

Scale scale_for(std::span<const double> values) {
  constexpr double kHugged = 0.1;
  constexpr double kLeastRatio = 8;  // below it the ticks of such an axis are too few
  if (values.size() < 3) return Scale::linear;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  if (*low <= 0 || *high < kLeastRatio * *low) return Scale::linear;
  const double edge = *low + kHugged * (*high - *low);
  const auto near =
      std::count_if(values.begin(), values.end(), [&](double value) { return value <= edge; });
  return 2 * static_cast<size_t>(near) > values.size() ? Scale::logarithmic : Scale::linear;
}

}  // namespace snug::report

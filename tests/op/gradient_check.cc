// SPDX-License-Identifier: Apache-2.0
#include "op/gradient_check.h"

#include <algorithm>
#include <cmath>

#include "base/philox.h"

namespace snug {
namespace {

constexpr size_t kFullJacobianElements = 64;
constexpr size_t kDirections = 8;
constexpr double kStep = 1e-6;
constexpr double kDirectionStep = 1e-5;  // sums over many elements carry more rounding

double dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

double largest(const std::vector<double>& x) {
  double top = 0;
  for (double value : x) top = std::max(top, std::abs(value));
  return top;
}

}  // namespace

std::vector<double> random_normal(int64_t count, uint64_t seed) {
  PhiloxStream random(seed);
  std::vector<double> data(static_cast<size_t>(count));
  for (double& x : data) x = random.normal();
  return data;
}

FiniteDifference::FiniteDifference(const Graph& graph, RefValues feeds, ValueId output,
                                   const std::vector<double>& cotangent, ValueId wrt) {
  const std::vector<double> point = feeds.at(wrt);
  // The slope along `direction` at steps of `step`; differences of elements come before the sum,
  // against cancellation.
  const auto slope = [&](const std::vector<double>& direction, double step) {
    std::vector<double>& x = feeds[wrt];
    for (size_t i = 0; i < point.size(); ++i) x[i] = point[i] + step * direction[i];
    const std::vector<double> above = evaluate(graph, feeds).at(output);
    for (size_t i = 0; i < point.size(); ++i) x[i] = point[i] - step * direction[i];
    const std::vector<double> below = evaluate(graph, feeds).at(output);
    double sum = 0;
    for (size_t i = 0; i < above.size(); ++i) sum += cotangent[i] * (above[i] - below[i]);
    return sum / (2 * step);
  };
  if (point.size() <= kFullJacobianElements) {
    std::vector<double> unit(point.size(), 0);
    for (size_t i = 0; i < point.size(); ++i) {
      unit[i] = 1;
      slopes_.push_back(slope(unit, kStep * std::max(1.0, std::abs(point[i]))));
      unit[i] = 0;
    }
    return;
  }
  for (size_t i = 0; i < kDirections; ++i) {
    directions_.push_back(random_normal(static_cast<int64_t>(point.size()), 977 + i));
    slopes_.push_back(slope(directions_.back(), kDirectionStep));
  }
}

double FiniteDifference::norm() const { return std::sqrt(dot(slopes_, slopes_)); }

double FiniteDifference::error_of(const std::vector<double>& gradient) const {
  double distance = 0;
  for (size_t i = 0; i < slopes_.size(); ++i) {
    const double found = directions_.empty() ? gradient[i] : dot(gradient, directions_[i]);
    distance += (found - slopes_[i]) * (found - slopes_[i]);
  }
  const double scale = norm();
  return scale == 0 ? std::sqrt(distance) : std::sqrt(distance) / scale;
}

std::string check_gradient(const FiniteDifference& difference,
                           const std::vector<double>& gradient) {
  if (!(largest(gradient) > 0)) return "the gradient is zero";
  const double error = difference.error_of(gradient);
  if (!(error <= kGradientTolerance))
    return "relative error " + std::to_string(error * 1e6) + "e-6";

  std::vector<double> scaled = gradient;
  for (double& x : scaled) x *= 1.01;
  if (difference.error_of(scaled) <= kGradientTolerance)
    return "a gradient scaled by 1.01 was not noticed";
  std::vector<double> flipped = gradient;
  for (double& x : flipped) x = -x;
  if (difference.error_of(flipped) <= kGradientTolerance) return "a flipped sign was not noticed";
  std::vector<double> dropped = gradient;
  *std::max_element(dropped.begin(), dropped.end(),
                    [](double a, double b) { return std::abs(a) < std::abs(b); }) = 0;
  if (difference.error_of(dropped) <= kGradientTolerance)
    return "a dropped element was not noticed";
  return {};
}

}  // namespace snug

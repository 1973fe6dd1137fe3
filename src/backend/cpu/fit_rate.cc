// SPDX-License-Identifier: Apache-2.0
// Least squares with non-negative parts. There are three unknowns at most, so every subset of them
// is tried.
#include <array>
#include <cmath>
#include <limits>

#include "backend/cpu/measure_profile.h"

namespace snug {
namespace {

constexpr size_t kParts = 3;
using Parts = std::array<double, kParts>;

// Solves the normal equations of the chosen parts by Gauss-Jordan elimination; false where they are
// singular.
bool solve(const std::array<Parts, kParts>& matrix, const Parts& right, unsigned subset,
           Parts& solution) {
  std::array<std::array<double, kParts + 1>, kParts> rows{};
  for (size_t i = 0; i < kParts; ++i) {
    const bool used_row = (subset >> i & 1U) != 0;
    for (size_t j = 0; j < kParts; ++j) {
      const bool used = used_row && (subset >> j & 1U) != 0;
      rows[i][j] = used ? matrix[i][j] : (i == j ? 1.0 : 0.0);
    }
    rows[i][kParts] = used_row ? right[i] : 0.0;
  }
  for (size_t column = 0; column < kParts; ++column) {
    size_t pivot = column;
    for (size_t i = column + 1; i < kParts; ++i) {
      if (std::fabs(rows[i][column]) > std::fabs(rows[pivot][column])) pivot = i;
    }
    if (std::fabs(rows[pivot][column]) < 1e-12) return false;
    std::swap(rows[pivot], rows[column]);
    for (size_t i = 0; i < kParts; ++i) {
      if (i == column) continue;
      const double factor = rows[i][column] / rows[column][column];
      for (size_t j = column; j <= kParts; ++j) rows[i][j] -= factor * rows[column][j];
    }
  }
  for (size_t i = 0; i < kParts; ++i) solution[i] = rows[i][kParts] / rows[i][i];
  return true;
}

// What operands in the caches cost less and those in memory more, over all points together: the
// large ones decide.
void add_places(std::span<const RatePoint> points, KernelRate& rate) {
  double near = 0;
  double usual = 0;
  double extra = 0;
  double bytes = 0;
  double squares = 0;
  for (const RatePoint& point : points) {
    const double predicted =
        rate.per_call + rate.per_flop * point.flops + rate.per_byte * point.bytes;
    near += point.near_seconds > 0 ? point.near_seconds : point.seconds;
    usual += point.seconds;
    if (point.far_seconds > 0) extra += point.far_seconds - point.seconds;
    bytes += point.bytes;
    const double error = predicted / point.seconds - 1;
    squares += error * error + point.spread * point.spread;
  }
  if (points.empty()) return;
  rate.saved_share = std::max(0.0, 1 - near / usual);
  rate.far_per_byte = rate.per_byte + (bytes > 0 ? std::max(0.0, extra / bytes) : 0);
  rate.uncertainty = std::min(1.0, std::sqrt(squares / static_cast<double>(points.size())));
}

double reached_per_flop(std::span<const RatePoint> points) {
  double reached = 0;
  for (const RatePoint& point : points) {
    if (point.flops <= 0) continue;
    const double seconds = point.near_seconds > 0 ? point.near_seconds : point.seconds;
    const double per_flop = seconds / point.flops;
    reached = reached == 0 ? per_flop : std::min(reached, per_flop);
  }
  return reached;
}

}  // namespace

KernelRate fit_rate(std::span<const RatePoint> points, RateBasis basis) {
  // Every equation is divided by its measured time: errors count relative. Units of 1 us, 1 GFLOP
  // and 1 GB keep the unknowns of one size.
  constexpr Parts kUnits = {1e-6, 1e9, 1e9};
  std::array<Parts, kParts> matrix{};
  Parts right{};
  std::array<Parts, 64> features{};
  const size_t count = std::min(points.size(), features.size());
  for (size_t p = 0; p < count; ++p) {
    const RatePoint& point = points[p];
    features[p] = {kUnits[0] / point.seconds, point.flops / kUnits[1] / point.seconds,
                   point.bytes / kUnits[2] / point.seconds};
    for (size_t i = 0; i < kParts; ++i) {
      for (size_t j = 0; j < kParts; ++j) matrix[i][j] += features[p][i] * features[p][j];
      right[i] += features[p][i];
    }
  }
  const unsigned allowed = basis == RateBasis::flops   ? 0b011U
                           : basis == RateBasis::bytes ? 0b101U
                                                       : 0b111U;
  Parts best{};
  double best_error = std::numeric_limits<double>::infinity();
  for (unsigned subset = 1; subset < 8; ++subset) {
    Parts parts{};
    if ((subset & ~allowed) != 0 || !solve(matrix, right, subset, parts)) continue;
    if (parts[0] < 0 || parts[1] < 0 || parts[2] < 0) continue;
    double error = 0;
    for (size_t p = 0; p < count; ++p) {
      double predicted = 0;
      for (size_t i = 0; i < kParts; ++i) predicted += features[p][i] * parts[i];
      error += (predicted - 1) * (predicted - 1);
    }
    if (error < best_error) {
      best_error = error;
      best = parts;
    }
  }
  KernelRate rate{.per_call = best[0] * kUnits[0],
                  .per_flop = best[1] / kUnits[1],
                  .per_byte = best[2] / kUnits[2],
                  .reached_per_flop = reached_per_flop(points)};
  add_places(points, rate);
  return rate;
}

}  // namespace snug

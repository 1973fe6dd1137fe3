// SPDX-License-Identifier: Apache-2.0
#include "data/resample.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"

namespace snug::data {
namespace {

constexpr int kWeightBits = 22;  // 32, less 8 of a byte and 2 for sums above 1
constexpr int32_t kHalf = int32_t{1} << (kWeightBits - 1);

double support_of(Resample filter) {
  switch (filter) {
    case Resample::box:
      return 0.5;
    case Resample::bicubic:
      return 2;
    case Resample::lanczos:
      return 3;
    default:
      return 1;
  }
}

double sinc(double x) {
  if (x == 0) return 1;
  x *= std::numbers::pi;
  return std::sin(x) / x;
}

double bicubic_at(double x) {
  constexpr double kA = -0.5;
  x = std::abs(x);
  if (x < 1) return ((kA + 2) * x - (kA + 3)) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * kA : 0;
}

double hamming_at(double x) {
  x = std::abs(x);
  if (x == 0) return 1;
  if (x >= 1) return 0;
  x *= std::numbers::pi;
  return std::sin(x) / x * (0.54 + 0.46 * std::cos(x));
}

double filter_at(Resample filter, double x) {
  switch (filter) {
    case Resample::box:
      return x > -0.5 && x <= 0.5 ? 1 : 0;
    case Resample::hamming:
      return hamming_at(x);
    case Resample::bicubic:
      return bicubic_at(x);
    case Resample::lanczos:
      return x >= -3 && x < 3 ? sinc(x) * sinc(x / 3) : 0;
    default:
      return std::max(0.0, 1 - std::abs(x));
  }
}

/// The pixels that make one of the result, and their weights.
struct Window {
  int64_t first = 0;
  int64_t count = 0;
  size_t weights = 0;  // where they begin
};

struct Windows {
  std::vector<Window> all;  // by pixel of the result
  std::vector<int32_t> weights;
};

int32_t fixed_point(double weight) {
  const double scaled = weight * (1 << kWeightBits);
  return static_cast<int32_t>(scaled < 0 ? scaled - 0.5 : scaled + 0.5);
}

Windows windows_of(int64_t from, int64_t to, Resample filter) {
  const double scale = static_cast<double>(from) / static_cast<double>(to);
  const double filter_scale = std::max(scale, 1.0);
  const double support = support_of(filter) * filter_scale;
  const double step = 1 / filter_scale;
  Windows windows;
  std::vector<double> weights;
  for (int64_t pixel = 0; pixel < to; ++pixel) {
    const double center = (static_cast<double>(pixel) + 0.5) * scale;
    const auto first = std::max<int64_t>(0, static_cast<int64_t>(center - support + 0.5));
    const int64_t end = std::min(from, static_cast<int64_t>(center + support + 0.5));
    weights.clear();
    double sum = 0;
    for (int64_t x = first; x < end; ++x) {
      weights.push_back(filter_at(filter, (static_cast<double>(x) - center + 0.5) * step));
      sum += weights.back();
    }
    windows.all.push_back(
        {.first = first, .count = end - first, .weights = windows.weights.size()});
    for (const double weight : weights)
      windows.weights.push_back(fixed_point(sum == 0 ? weight : weight / sum));
  }
  return windows;
}

uint8_t byte_of(int32_t sum) {
  return static_cast<uint8_t>(std::clamp(sum >> kWeightBits, 0, 255));
}

/// Rows [first, end) alone are needed; the others stay blank.
RgbImage with_columns(const RgbImage& image, const Windows& columns, int64_t first, int64_t end) {
  RgbImage result = blank_image(static_cast<int64_t>(columns.all.size()), image.height);
  for (int64_t y = first; y < end; ++y) {
    const uint8_t* const from = image.row(y);
    uint8_t* to = result.row(y);
    for (const Window& window : columns.all) {
      const int32_t* const weights = columns.weights.data() + window.weights;
      const uint8_t* pixel = from + window.first * 3;
      int32_t sums[3] = {kHalf, kHalf, kHalf};
      for (int64_t i = 0; i < window.count; ++i, pixel += 3) {
        for (int c = 0; c < 3; ++c) sums[c] += pixel[c] * weights[i];
      }
      for (const int32_t sum : sums) *to++ = byte_of(sum);
    }
  }
  return result;
}

RgbImage with_rows(const RgbImage& image, const Windows& rows) {
  RgbImage result = blank_image(image.width, static_cast<int64_t>(rows.all.size()));
  const int64_t values = image.width * 3;
  std::vector<int32_t> sums(static_cast<size_t>(values));
  for (int64_t y = 0; y < result.height; ++y) {
    const Window& window = rows.all[static_cast<size_t>(y)];
    std::fill(sums.begin(), sums.end(), kHalf);
    for (int64_t i = 0; i < window.count; ++i) {
      const int32_t weight = rows.weights[window.weights + static_cast<size_t>(i)];
      const uint8_t* const from = image.row(window.first + i);
      for (int64_t x = 0; x < values; ++x) sums[static_cast<size_t>(x)] += from[x] * weight;
    }
    std::transform(sums.begin(), sums.end(), result.row(y), byte_of);
  }
  return result;
}

/// Positions are sums of steps, as Pillow's are: a product would round otherwise.
std::vector<int64_t> nearest_pixels(int64_t from, int64_t to) {
  const double step = static_cast<double>(from) / static_cast<double>(to);
  std::vector<int64_t> pixels;
  double at = step * 0.5;
  for (int64_t pixel = 0; pixel < to; ++pixel, at += step)
    pixels.push_back(std::min(from - 1, static_cast<int64_t>(at)));
  return pixels;
}

RgbImage with_nearest(const RgbImage& image, int64_t width, int64_t height) {
  RgbImage result = blank_image(width, height);
  const std::vector<int64_t> columns = nearest_pixels(image.width, width);
  const std::vector<int64_t> rows = nearest_pixels(image.height, height);
  uint8_t* to = result.bytes.data();
  for (const int64_t y : rows) {
    for (const int64_t x : columns) to = std::copy_n(image.row(y) + x * 3, 3, to);
  }
  return result;
}

}  // namespace

RgbImage blank_image(int64_t width, int64_t height) {
  return {.width = width,
          .height = height,
          .bytes = std::vector<uint8_t>(static_cast<size_t>(width * height * 3))};
}

RgbImage resized(const RgbImage& image, int64_t width, int64_t height, Resample filter) {
  SNUG_CHECK(image.width > 0 && image.height > 0 && width > 0 && height > 0, "an empty image");
  if (image.width == width && image.height == height) return image;
  if (filter == Resample::nearest) return with_nearest(image, width, height);
  const Windows rows = windows_of(image.height, height, filter);
  if (image.width == width) return with_rows(image, rows);
  const Windows columns = windows_of(image.width, width, filter);
  if (image.height == height) return with_columns(image, columns, 0, height);
  const Window& last = rows.all.back();
  return with_rows(with_columns(image, columns, rows.all.front().first, last.first + last.count),
                   rows);
}

}  // namespace snug::data

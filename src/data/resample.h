// SPDX-License-Identifier: Apache-2.0
// Images of other sizes, equal to Pillow's Image.resize byte for byte: the filter's support grows
// with the scale (antialiasing), weights are fixed-point numbers of 22 bits, columns are resampled
// first, and what stands between the two passes is rounded to 8 bits.
#pragma once

#include <cstdint>
#include <vector>

namespace snug::data {

/// Red, green, blue, 8 bits each: (height, width, 3).
struct RgbImage {
  int64_t width = 0;
  int64_t height = 0;
  std::vector<uint8_t> bytes{};

  [[nodiscard]] const uint8_t* row(int64_t y) const { return bytes.data() + y * width * 3; }
  [[nodiscard]] uint8_t* row(int64_t y) { return bytes.data() + y * width * 3; }
};
[[nodiscard]] RgbImage blank_image(int64_t width, int64_t height);

/// By Pillow's numbers, which preprocessor_config.json gives.
enum class Resample : uint8_t { nearest, lanczos, bilinear, bicubic, box, hamming };

/// Sizes are at least 1. Takes `width` x image.height pixels between the two passes.
[[nodiscard]] RgbImage resized(const RgbImage& image, int64_t width, int64_t height,
                               Resample filter);

}  // namespace snug::data

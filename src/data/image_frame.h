// SPDX-License-Identifier: Apache-2.0
// What stands between an image and the square that a model reads: resizing, and the middle of the
// result, as transformers' image processors do both.
#pragma once

#include <cstdint>
#include <string>

#include "data/resample.h"

namespace snug::data {

struct ImageSize {
  int64_t width = 0;
  int64_t height = 0;
  friend bool operator==(const ImageSize&, const ImageSize&) = default;
};

struct ImageFrame {
  enum class Resize : uint8_t {
    none,
    exact,         // to `size`
    shortest_edge  // the shorter side to `edge`, the other in proportion, rounded down
  };
  Resize resize = Resize::none;
  ImageSize size{};
  int64_t edge = 0;
  Resample resample = Resample::bilinear;
  ImageSize crop{};  // the middle of the result, with zeros around what is smaller; 0: all of it

  [[nodiscard]] bool crops() const { return crop.width > 0; }
  /// The sizes that an image of this size has when it is resized, and in the end.
  [[nodiscard]] ImageSize resized_to(const ImageSize& from) const;
  [[nodiscard]] ImageSize result_of(const ImageSize& from) const;
  /// The size of every result; 0 where it follows from the image.
  [[nodiscard]] ImageSize result() const;
  /// "shorter side to 256 (bicubic), middle of 224 x 224"
  [[nodiscard]] std::string text() const;
  friend bool operator==(const ImageFrame&, const ImageFrame&) = default;
};

[[nodiscard]] std::string size_text(const ImageSize& size);
[[nodiscard]] RgbImage framed(const RgbImage& image, const ImageFrame& frame);

}  // namespace snug::data

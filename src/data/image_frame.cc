// SPDX-License-Identifier: Apache-2.0
#include "data/image_frame.h"

#include <algorithm>
#include <array>
#include <utility>

namespace snug::data {
namespace {

constexpr std::array<const char*, 6> kFilterNames = {"nearest", "lanczos", "bilinear",
                                                     "bicubic", "box",     "hamming"};

struct Cut {
  int64_t from = 0;   // in the image
  int64_t to = 0;     // in the result
  int64_t count = 0;  // pixels
};

/// How one side is cut. An odd pixel is taken off at the end where the image is larger, and added
/// at the beginning where it is smaller.
Cut cut_of(int64_t side, int64_t wanted) {
  if (side >= wanted) return {.from = (side - wanted) / 2, .to = 0, .count = wanted};
  return {.from = 0, .to = (wanted - side + 1) / 2, .count = side};
}

RgbImage cropped(const RgbImage& image, const ImageSize& size) {
  RgbImage result = blank_image(size.width, size.height);
  const Cut columns = cut_of(image.width, size.width);
  const Cut rows = cut_of(image.height, size.height);
  for (int64_t y = 0; y < rows.count; ++y) {
    std::copy_n(image.row(rows.from + y) + columns.from * 3, columns.count * 3,
                result.row(rows.to + y) + columns.to * 3);
  }
  return result;
}

}  // namespace

ImageSize ImageFrame::resized_to(const ImageSize& from) const {
  if (resize == Resize::none) return from;
  if (resize == Resize::exact) return size;
  const auto [low, high] = std::minmax(from.width, from.height);
  // As Python divides: the product is exact, the quotient rounded once.
  const auto other =
      static_cast<int64_t>(static_cast<double>(edge * high) / static_cast<double>(low));
  return from.width <= from.height ? ImageSize{edge, other} : ImageSize{other, edge};
}

ImageSize ImageFrame::result_of(const ImageSize& from) const {
  return crops() ? crop : resized_to(from);
}

ImageSize ImageFrame::result() const {
  if (crops()) return crop;
  return resize == Resize::exact ? size : ImageSize{};
}

std::string ImageFrame::text() const {
  const std::string filter = std::string(" (") + kFilterNames[static_cast<size_t>(resample)] + ")";
  std::string text;
  if (resize == Resize::exact) text = "resized to " + size_text(size) + filter;
  if (resize == Resize::shortest_edge)
    text = "shorter side resized to " + std::to_string(edge) + filter;
  if (crops()) text += (text.empty() ? "" : ", ") + ("the middle of " + size_text(crop));
  return text.empty() ? "as they are" : text;
}

std::string size_text(const ImageSize& size) {
  return std::to_string(size.width) + " x " + std::to_string(size.height);
}

RgbImage framed(const RgbImage& image, const ImageFrame& frame) {
  const ImageSize size = frame.resized_to({image.width, image.height});
  if (frame.resize == ImageFrame::Resize::none)
    return frame.crops() ? cropped(image, frame.crop) : image;
  RgbImage result = resized(image, size.width, size.height, frame.resample);
  return frame.crops() ? cropped(result, frame.crop) : result;
}

}  // namespace snug::data

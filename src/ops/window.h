// SPDX-License-Identifier: Apache-2.0
// Windows that slide over the height and width of an image, for convolutions and pooling. Images
// are channels-last: (N, H, W, C). Pairs are (height, width). Padding is on both sides.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ops/op_rules.h"

namespace snug {

/// One axis of a sliding window.
struct WindowAxis {
  int64_t size = 0;    // of the image
  int64_t kernel = 1;  // taps
  int64_t stride = 1;
  int64_t padding = 0;
  int64_t dilation = 1;  // distance of two taps

  /// Number of places of the window; 0 where it does not fit once.
  [[nodiscard]] int64_t count() const {
    const int64_t room = size + 2 * padding - dilation * (kernel - 1) - 1;
    return room < 0 ? 0 : room / stride + 1;
  }
  /// The pixel under a tap of the window at `place`; outside [0, size) it is padding.
  [[nodiscard]] int64_t pixel(int64_t place, int64_t tap) const {
    return place * stride - padding + tap * dilation;
  }
  /// The taps [first, second) of the window at `place` that lie on the image.
  [[nodiscard]] std::pair<int64_t, int64_t> taps(int64_t place) const {
    const int64_t origin = pixel(place, 0);
    int64_t begin = origin < 0 ? (-origin + dilation - 1) / dilation : 0;
    int64_t end = origin >= size ? 0 : (size - origin + dilation - 1) / dilation;
    if (end > kernel) end = kernel;
    if (begin > end) begin = end;
    return {begin, end};
  }
  bool operator==(const WindowAxis&) const = default;
};

/// The pair in an attribute; fails where it is not two numbers of at least `least`.
inline std::pair<int64_t, int64_t> window_pair(const InferArgs& args, const std::string& attr,
                                               int64_t least) {
  const std::vector<int64_t>& values = args.attrs.ints(attr);
  if (values.size() != 2 || values[0] < least || values[1] < least) {
    shape_error(args, attr + " must be two numbers of at least " + std::to_string(least) +
                          ", not " + to_string(values));
  }
  return {values[0], values[1]};
}

}  // namespace snug

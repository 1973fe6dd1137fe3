// SPDX-License-Identifier: Apache-2.0
// Maximum over windows of channels-last images. (The mean over a whole image is reduce_mean.)
//
// max_pool2d(x (N, H, W, C)) {kernel, stride, padding=[0,0]} -> y (N, OH, OW, C)
//   y = the largest pixel of the window, channel by channel; padding never wins, a NaN always does.
//   padding is at most half of the kernel, so that every window sees a pixel.
//   Gradient: dx = max_pool2d_grad(x, dy). Keeps x alone: behind a relu, x is there for the relu's
//   gradient anyway, and finding the maximum again costs one more pass over it.
// max_pool2d_grad(x, dy) {kernel, stride, padding} -> dx: every dy goes to the first largest pixel
//   of its window, in row-major order (as in PyTorch). Not differentiable.
// With kernel [1,1] it takes every stride-th pixel.
#pragma once

#include <utility>

#include "graph/builder.h"
#include "ops/window.h"

namespace snug {

struct Pool2dOptions {
  std::pair<int64_t, int64_t> kernel = {2, 2};
  std::pair<int64_t, int64_t> stride = {2, 2};
  std::pair<int64_t, int64_t> padding = {0, 0};
};
[[nodiscard]] ValueId max_pool2d(GraphBuilder& builder, ValueId x, const Pool2dOptions& options);

struct Pool2dDims {
  int64_t batch = 0;
  int64_t channels = 0;
  WindowAxis height;
  WindowAxis width;
};
/// The attributes have passed the shape rule.
[[nodiscard]] Pool2dDims pool2d_dims(const Shape& x, const Attrs& attrs);

}  // namespace snug

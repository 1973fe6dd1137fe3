// SPDX-License-Identifier: Apache-2.0
// Two-dimensional convolution (cross-correlation, as in every framework). Activations are
// channels-last, weights lie as in PyTorch's files. G groups: output channels of group g see the
// input channels of group g only; G = C is a depthwise convolution.
//
// conv2d(x (N, H, W, C), w (O, C / G, KH, KW), bias? (O))
//     {stride=[1,1], padding=[0,0], dilation=[1,1], groups=1} -> y (N, OH, OW, O)
//   y[n, i, j, o] = bias[o] + sum over c, p, q of
//                   w[o, c, p, q] x[n, i SH - PH + p DH, j SW - PW + q DW, c of o's group],
//   where pixels outside the image are 0.
//   Gradient: dx = conv2d_grad_input(w, dy), dw = conv2d_grad_weight(x, dy), dbias = sum of dy over
//   N, OH, OW. Keeps x and w.
// conv2d_grad_input(w, dy) {image=[H,W], ...} -> dx (N, H, W, C). Not differentiable.
// conv2d_grad_weight(x, dy) {kernel=[KH,KW], ...} -> dw (O, C / G, KH, KW). Not differentiable.
#pragma once

#include <utility>

#include "graph/builder.h"
#include "ops/window.h"

namespace snug {

struct Conv2dOptions {
  std::pair<int64_t, int64_t> stride = {1, 1};
  std::pair<int64_t, int64_t> padding = {0, 0};
  std::pair<int64_t, int64_t> dilation = {1, 1};
  int64_t groups = 1;
  ValueId bias = kNone;
};
[[nodiscard]] ValueId conv2d(GraphBuilder& builder, ValueId x, ValueId w,
                             const Conv2dOptions& options = {});

/// The sizes of a convolution, the same for the three ops.
struct Conv2dDims {
  int64_t batch = 0;         // N
  int64_t groups = 1;        // G
  int64_t in_channels = 0;   // C
  int64_t out_channels = 0;  // O
  WindowAxis height;
  WindowAxis width;
  [[nodiscard]] int64_t in_per_group() const { return in_channels / groups; }
  [[nodiscard]] int64_t out_per_group() const { return out_channels / groups; }
  bool operator==(const Conv2dDims&) const = default;
};
/// From the shapes of x and w; they have passed a shape rule.
[[nodiscard]] Conv2dDims conv2d_dims(const Shape& x, const Shape& w, const Attrs& attrs);

}  // namespace snug

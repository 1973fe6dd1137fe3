// SPDX-License-Identifier: Apache-2.0
// The loops of winograd:conv2d, compiled once an instruction set.
//
// F(2 x 2, 3 x 3) of Lavin and Gray, "Fast Algorithms for Convolutional Neural Networks" (CVPR
// 2016), section 4: the outputs of 2 x 2 places follow from 16 products over the channels instead
// of 36,
//   Y = A^T [(G g G^T) * (B^T d B)] A
// for filters g of 3 x 3 taps and the 4 x 4 pixels d under a tile of places. Every output is a sum
// in one order over the channels, whatever the threads and the number of images.
//
// A plane is one of the 16 products of all tiles. K channels are summed, N are made; W columns are
// a panel, as wide as a tile of products. N is cut into slices of panels, so that transformed
// filters take no more memory than filters.
#pragma once

#include <cstdint>

#include "backend/cpu/product/blocking.h"

namespace snug {

constexpr int64_t kWinogradPlanes = 16;

/// The two images of a convolution: places lie on dst, the pixels under them on src.
struct WinogradShape {
  int64_t images = 0;
  int64_t src_height = 0;
  int64_t src_width = 0;
  int64_t dst_height = 0;
  int64_t dst_width = 0;
  int64_t padding_height = 0;
  int64_t padding_width = 0;
  int64_t src_channels = 0;
  int64_t dst_channels = 0;

  [[nodiscard]] int64_t tiles_across() const { return (dst_width + 1) / 2; }
  [[nodiscard]] int64_t tiles_down() const { return (dst_height + 1) / 2; }
  [[nodiscard]] int64_t tiles() const { return images * tiles_down() * tiles_across(); }
};

/// Filters (O, C, 3, 3) as planes of panels: (panels, 16, K, W).
struct WinogradFilters {
  int64_t out_channels = 0;
  int64_t in_channels = 0;
  bool is_adjoint = false;  // K is O, N is C, and taps are in the opposite order
};

/// Transformed tiles: the row of tile t in plane p begins at data + p * plane + t * row.
struct WinogradRows {
  float* data = nullptr;
  int64_t row = 0;
  int64_t plane = 0;
};

struct WinogradForward {
  const float* src = nullptr;
  Range columns;                   // of a slice: whole panels
  const float* filters = nullptr;  // planes of its panels
  const float* bias = nullptr;     // may be null
  const float* zeros = nullptr;    // src_channels of them, for pixels outside
  float* rows = nullptr;           // 16 x tiles x K floats of scratch
  float* sums = nullptr;           // 16 x tiles x W
  float* dst = nullptr;
};

/// Sums (16, panels of a slice, K, W) of products of rows of K and of the slice.
struct WinogradSums {
  WinogradRows src;
  WinogradRows dst;
  int64_t tiles = 0;
  int64_t k = 0;
  Range columns;          // of the slice
  bool is_first = false;  // else the products are added
  float* sums = nullptr;
};

struct WinogradLoops {
  /// Panels [which.begin, which.end) of all, one behind the other.
  void (*transform_filters)(const WinogradFilters& filters, const float* w, const Range& which,
                            float* panels);
  /// Columns of a slice of dst, at the tiles of a range.
  void (*multiply)(const WinogradShape& shape, const Range& tiles, const WinogradForward& launch);
  /// B^T d B of the tiles of a range; the first of them is the first row.
  void (*transform_src)(const WinogradShape& shape, const Range& tiles, const float* src,
                        const float* zeros, const WinogradRows& rows);
  /// A dY A^T of them, of the columns of a slice.
  void (*transform_dst)(const WinogradShape& shape, const Range& tiles, const Range& columns,
                        const float* dst, const float* zeros, const WinogradRows& rows);
  /// Cells [which.begin, which.end) of 16 x panels of the slice.
  void (*add_products)(const WinogradSums& sums, const Range& which);
  /// G^T s G of panels [which.begin, which.end) of the slice, into filters (O, C, 3, 3).
  void (*fold_filters)(const WinogradSums& sums, const Range& which, float* w);
};
[[nodiscard]] WinogradLoops winograd_loops();

}  // namespace snug

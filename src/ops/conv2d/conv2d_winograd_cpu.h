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

constexpr int64_t kWinogradSide = 4;  // of the pixels under a tile
constexpr int64_t kWinogradPlanes = kWinogradSide * kWinogradSide;

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

struct WinogradForward {
  const float* src = nullptr;
  IndexRange columns;              // of a slice: whole panels
  const float* filters = nullptr;  // planes of its panels
  const float* bias = nullptr;     // may be null
  const float* zeros = nullptr;    // src_channels of them, for pixels outside
  float* rows = nullptr;           // 16 x tiles x K floats of scratch
  float* sums = nullptr;           // 16 x tiles x W
  float* dst = nullptr;
};

/// Sums (16, panels of a slice, K, W) of products of rows of K and of the slice.
struct WinogradSums {
  const float* x = nullptr;
  const float* dy = nullptr;
  const float* zeros = nullptr;
  int64_t k = 0;
  IndexRange columns;  // of the slice
  float* sums = nullptr;
};
/// What one thread adds up: the planes of some rows of the 4 x 4, at some columns. It goes through
/// all tiles, and transforms some at a time.
struct WinogradShare {
  IndexRange rows;     // of the 4 x 4
  IndexRange columns;  // of the slice, counted from its first: whole panels
  int64_t tiles_at_once = 0;
  float* scratch = nullptr;  // tiles_at_once x winograd_share_floats
};

/// Floats from a row of a share to the next: an odd number of lines of the first cache, so that
/// those of a column of lines are in all of its sets.
[[nodiscard]] constexpr int64_t winograd_row_floats(int64_t channels) {
  constexpr int64_t kLine = 16;
  return (channels + kLine - 1) / kLine / 2 * 2 * kLine + kLine;
}
/// Floats that a share of so many rows of the 4 x 4 has for a tile.
[[nodiscard]] constexpr int64_t winograd_share_floats(int64_t rows, int64_t k, int64_t columns) {
  return 4 * rows * (winograd_row_floats(k) + winograd_row_floats(columns));
}

struct WinogradLoops {
  /// Panels [which.begin, which.end) of all, one behind the other.
  void (*transform_filters)(const WinogradFilters& filters, const float* w, const IndexRange& which,
                            float* panels);
  /// Columns of a slice of dst, at the tiles of a range.
  void (*multiply)(const WinogradShape& shape, const IndexRange& tiles,
                   const WinogradForward& launch);
  /// The sums of a share over all tiles.
  void (*add_products)(const WinogradShape& shape, const WinogradSums& sums,
                       const WinogradShare& share);
  /// G^T s G of panels [which.begin, which.end) of the slice, into filters (O, C, 3, 3).
  void (*fold_filters)(const WinogradSums& sums, const IndexRange& which, float* w);
};
[[nodiscard]] WinogradLoops winograd_loops();

}  // namespace snug

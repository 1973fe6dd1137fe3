// SPDX-License-Identifier: Apache-2.0
// The loops of one part of a product, compiled once an instruction set.
#pragma once

#include "backend/cpu/product/blocking.h"

namespace snug {

/// What is packed are pieces of rows that lie far apart: no processor sees by itself which come
/// next. So they are brought nearer so many rows ahead. kNearness: 3 for the first cache, 2 for the
/// second.
constexpr int64_t kRowsAhead = 6;
template <bool kWillWrite = false, int kNearness = 3>
inline void fetch_row(const void* from, int64_t bytes) {
  constexpr int64_t kLineBytes = 64;
  const auto* const at = static_cast<const std::byte*>(from);
  for (int64_t i = 0; i < bytes; i += kLineBytes) __builtin_prefetch(at + i, kWillWrite, kNearness);
}

/// The shape of the tiles that the kernels of this machine compute.
[[nodiscard]] TileShape product_tile_shape();

/// Rows and columns of dst (of dst^T where roles are exchanged) in one batch.
struct ProductPart {
  int64_t batch = 0;
  IndexRange rows;
  IndexRange columns;
};

/// `spec` as blocking has it (swapped where that says so).
using RunProductPart = void (*)(const ProductSpec& spec, const ProductBlocking& blocking,
                                const ProductLaunch& launch, const ProductPart& part,
                                float* scratch);
[[nodiscard]] RunProductPart product_part_kernel();

/// Panels [which.begin, which.end) of b.
using FillPanels = void (*)(const PanelShape& shape, const float* b, const IndexRange& which,
                            float* panels);
[[nodiscard]] FillPanels panel_kernel();

/// Adds row[j] to column j of every row of a tile.
using AddRowToTile = void (*)(const float* row, const ProductTile& tile);
[[nodiscard]] AddRowToTile product_bias_kernel();

}  // namespace snug

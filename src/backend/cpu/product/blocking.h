// SPDX-License-Identifier: Apache-2.0
// How a product is cut: pure functions of its shape, the threads and the tile of the instruction
// set. No choice changes a bit of the result (spec.h); scratch follows from it to the byte.
#pragma once

#include <cstdint>

#include "backend/cpu/product/spec.h"

namespace snug {

/// What the kernels of an instruction set hold in registers at most: rows x (2 vectors of lanes).
struct TileShape {
  int64_t rows = 0;
  int64_t lanes = 0;
};

/// The rectangle of dst that a thread computes at a time: every batch is cut into row_parts x
/// column_parts of them.
struct ProductGrid {
  int64_t row_parts = 1;
  int64_t column_parts = 1;
  bool operator==(const ProductGrid&) const = default;
};

struct ProductBlocking {
  ProductGrid grid;
  bool is_swapped = false;  // dst^T = op(b)^T op(a)^T: `spec` below has the roles exchanged
  bool packs_b = true;      // else its rows, or its panels, are read where they lie
  bool is_across = false;   // b is transposed in registers: never packed, no more than four rows
  bool copies_a = false;  // rows of a, widened or brought together; a transposed a is packed anyway
  int64_t vectors = 2;    // of a panel of b
  int64_t packed_k = 0;   // rows of b packed at once, a multiple of k_block
  int64_t k_block = 0;
  int64_t m_block = 0;
  int64_t n_block = 0;  // columns of b packed at once: whole panels
  // Scratch of one part, in floats: packed b, then a, rows that are read, held tiles.
  int64_t a_at = 0;
  int64_t rows_at = 0;
  int64_t tiles_at = 0;
  int64_t part_floats = 0;
};

/// The product with the roles of a and b exchanged.
[[nodiscard]] ProductSpec swapped(const ProductSpec& spec);

/// As many of them as have enough to do.
[[nodiscard]] int threads_worth(const ProductSpec& spec, int threads);

[[nodiscard]] ProductBlocking choose_blocking(const ProductSpec& spec, int threads,
                                              const TileShape& tile);

/// Part `index` of `count` equal ones of n, in whole grains.
struct IndexRange {
  int64_t begin = 0;
  int64_t end = 0;
};
[[nodiscard]] IndexRange part_of(int64_t n, int64_t grain, int64_t index, int64_t count);
/// The largest of them, in whole grains.
[[nodiscard]] int64_t largest_part(int64_t n, int64_t grain, int64_t count);
/// n in pieces of at most `most`, as equal as can be, each a multiple of `grain`.
[[nodiscard]] int64_t cut_evenly(int64_t n, int64_t most, int64_t grain);

}  // namespace snug

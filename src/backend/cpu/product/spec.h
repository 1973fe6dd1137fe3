// SPDX-License-Identifier: Apache-2.0
// Matrix products of our own: dst (+)= op(a) op(b) in f32, with panels of b packed and tiles of dst
// held in registers (Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication",
// ACM TOMS 34(3), 2008). Knows no ops: those that multiply describe their operands here.
//
// An element of dst is one chain of fused multiply-adds over K in order, begun with zero or with
// what dst holds. So its bits do not depend on blocks, forms, threads or the width of vectors, nor
// on where K is cut into products that accumulate.
//
// Doors for what is done on the way: an operand that is not f32 is read row by row by a callback as
// it is packed, one whose rows lie apart is found by one, and a finished tile is handed to a
// callback while it is in the first cache.
//
// Or b lies in panels already, packed once for many products (panels.h): nothing is packed then.
//
// Or both operands are bf16, and the processor's dot products of pairs multiply them (`has_pairs`,
// where has_bf16_products(), in one batch). What this file calls an element of an operand is then a
// pair of neighbours along K, in the 32 bits of a float. Both operands lie along K, (K, M) and (K,
// N), and rows are paired as they are packed.
//
// Legend: M rows of dst, N columns of dst, K the summed dimension. A stored row of a is a row of
// (M, K), or of (K, M) where it is transposed; of b, of (K, N) or (N, K). Batches lie behind one
// another, so stored rows and rows of dst are counted through all of them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace snug {

/// What is known of a product before it runs.
struct ProductSpec {
  int64_t batches = 1;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  bool reads_a = false;      // by a callback: it is not f32, or not one row behind the other
  bool reads_b = false;      // likewise
  bool accumulates = false;  // tiles begin with what dst holds
  bool holds_tiles =
      false;  // dst is not f32: tiles are begun, held in scratch and stored by callbacks
  bool has_pairs = false;     // K counts pairs of bf16
  int64_t panel_columns = 0;  // of the panels in which b lies; 0: it lies in rows
  bool operator==(const ProductSpec&) const = default;
};

/// An operand b in panels (panels.h).
struct PanelShape {
  int64_t n = 0;
  int64_t k = 0;
  bool transposed = false;  // b is (N, K), else (K, N)
  int64_t columns = 0;      // of a panel: panel_columns(), or a multiple of it
};

/// out[i] = element first + i of a stored row, in f32, for i in [0, count).
using ReadRow = void (*)(const void* source, int64_t row, int64_t first, int64_t count,
                         float* out) noexcept;

/// Where a stored row lies.
using FindRow = const float* (*)(const void* source, int64_t row) noexcept;

/// f32 at data + row * stride, or where `find` says, or what `read` gives. Of panels, `data` alone.
/// Pairs are of `rows` rows of bf16 at source, `stride` apart; zeros are next to the last of an odd
/// number.
struct ProductOperand {
  const float* data = nullptr;
  int64_t stride = 0;
  ReadRow read = nullptr;
  FindRow find = nullptr;  // of an operand that is packed row by row
  const void* source = nullptr;
  int64_t rows = 0;
};

/// Rows [row, row + rows) and columns [column, column + columns) of dst, at data + i * stride + j.
struct ProductTile {
  int64_t row = 0;
  int64_t rows = 0;
  int64_t column = 0;
  int64_t columns = 0;
  float* data = nullptr;
  int64_t stride = 0;
};
using VisitTile = void (*)(const void* context, const ProductTile& tile) noexcept;

struct ProductLaunch {
  ProductOperand a;
  ProductOperand b;
  float* dst = nullptr;           // unless tiles are held
  int64_t dst_stride = 0;         // between rows
  VisitTile begin = nullptr;      // fills a held tile; null: zeros
  VisitTile finish = nullptr;     // of a tile whose sums are complete, once each; may be null
  const void* context = nullptr;  // of both
  std::byte* scratch = nullptr;
};

}  // namespace snug

// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/product/product.h"

#include <utility>

#include "backend/cpu/product/product_kernels.h"
#include "base/threads.h"

namespace snug {

namespace {
bool is_empty(const ProductSpec& p) { return p.batches * p.m * p.n == 0; }
}  // namespace

Product::Product(const ProductSpec& spec, int threads)
    : spec_(spec),
      threads_(threads_worth(spec, threads)),
      blocking_(choose_blocking(spec, threads_, product_tile_shape())) {}

int64_t Product::scratch_bytes() const {
  if (is_empty(spec_)) return 0;
  return threads_ * blocking_.part_floats * static_cast<int64_t>(sizeof(float));
}

void Product::run(const ProductLaunch& given) const noexcept {
  if (is_empty(spec_)) return;
  const ProductBlocking& blocking = blocking_;
  const TileShape tile = product_tile_shape();
  const ProductSpec spec = blocking.is_swapped ? swapped(spec_) : spec_;
  ProductLaunch launch = given;
  if (blocking.is_swapped) std::swap(launch.a, launch.b);
  const RunProductPart kernel = product_part_kernel();
  const int64_t grid = blocking.grid.row_parts * blocking.grid.column_parts;
  const int64_t width = blocking.vectors * tile.lanes;
  parallel_parts_for(threads_, spec.batches * grid, 1, [&](int part, int64_t begin, int64_t end) {
    float* const scratch = reinterpret_cast<float*>(launch.scratch) + part * blocking.part_floats;
    for (int64_t i = begin; i < end; ++i) {
      const int64_t cell = i % grid;
      kernel(spec, blocking, launch,
             {.batch = i / grid,
              .rows = part_of(spec.m, tile.rows, cell / blocking.grid.column_parts,
                              blocking.grid.row_parts),
              .columns = part_of(spec.n, width, cell % blocking.grid.column_parts,
                                 blocking.grid.column_parts)},
             scratch);
    }
  });
}

}  // namespace snug

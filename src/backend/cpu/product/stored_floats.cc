// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/product/stored_floats.h"

#include "backend/cpu/product/product_kernels.h"

namespace snug {

ProductOperand StoredRows::operand() const {
  if (rows_.is_half()) return {.read = read, .source = this};
  return {.data = reinterpret_cast<const float*>(data_), .stride = width_};
}

void StoredRows::read(const void* source, int64_t row, int64_t first, int64_t count,
                      float* out) noexcept {
  const auto& stored = *static_cast<const StoredRows*>(source);
  fetch_row(stored.data_ + stored.rows_.bytes((row + kRowsAhead) * stored.width_ + first),
            stored.rows_.bytes(count));
  (void)stored.rows_.read(stored.data_, row * stored.width_ + first, count, out);
}

void StoredTiles::attach(const ProductSpec& spec, ProductLaunch& launch) const {
  launch.context = this;
  launch.dst = rows_.is_half() ? nullptr : reinterpret_cast<float*>(dst_);
  launch.dst_stride = width_;
  launch.begin = spec.holds_tiles && spec.accumulates ? begin : nullptr;
  launch.finish = spec.holds_tiles || bias_ != nullptr ? finish : nullptr;
}

void StoredTiles::begin(const void* context, const ProductTile& tile) noexcept {
  const auto& stored = *static_cast<const StoredTiles*>(context);
  for (int64_t i = 0; i < tile.rows; ++i) {
    (void)stored.rows_.read(stored.dst_, (tile.row + i) * stored.width_ + tile.column, tile.columns,
                            tile.data + i * tile.stride);
  }
}

void StoredTiles::finish(const void* context, const ProductTile& tile) noexcept {
  const auto& stored = *static_cast<const StoredTiles*>(context);
  if (stored.bias_ != nullptr) product_bias_kernel()(stored.bias_ + tile.column, tile);
  if (!stored.rows_.is_half()) return;
  for (int64_t i = 0; i < tile.rows; ++i) {
    // The tile below is next.
    const int64_t below = (tile.row + tile.rows + i) * stored.width_ + tile.column;
    fetch_row<true>(stored.dst_ + stored.rows_.bytes(below), stored.rows_.bytes(tile.columns));
    stored.rows_.write(tile.data + i * tile.stride, stored.dst_,
                       (tile.row + i) * stored.width_ + tile.column, tile.columns);
  }
}

}  // namespace snug

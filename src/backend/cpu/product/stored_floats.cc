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
  for (int64_t i = 0; i < tile.rows && stored.rows_.is_half(); ++i) {
    stored.rows_.write(tile.data + i * tile.stride, stored.dst_,
                       (tile.row + i) * stored.width_ + tile.column, tile.columns);
  }
}

}  // namespace snug

// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/product/amx_product.h"

#include <algorithm>

#include "backend/cpu/amx.h"
#include "backend/cpu/product/amx_kernels.h"
#include "base/threads.h"

namespace snug {
namespace {

bool is_empty(const AmxProductSpec& p) { return p.m * p.n * p.k == 0; }

int64_t whole_steps(int64_t depth) { return (depth + kAmxStep - 1) / kAmxStep; }

// A slice of K of a product, which all threads share.
class AmxSlice {
 public:
  AmxSlice(const AmxProductSpec& spec, const AmxBlocking& blocking, const AmxProductLaunch& launch,
           const IndexRange& ks)
      : spec_(spec),
        blocking_(blocking),
        launch_(launch),
        ks_(ks),
        panel_bytes_(whole_steps(ks.end - ks.begin) * kAmxStepBytes),
        kernels_(amx_kernels()),
        stores_(amx_stores(spec.stored)) {}

  /// Columns `which` of those that are packed for all, whole panels but for the last.
  void pack_columns(const IndexRange& columns, const IndexRange& which) const {
    pack(launch_.b, spec_.transpose_b, spec_.n, which, kernels_.pack_b,
         launch_.scratch + (which.begin - columns.begin) / kAmxPanelRows * panel_bytes_);
  }

  /// One part of dst of the columns that are packed.
  void run_part(int64_t index, const IndexRange& columns) const {
    const ProductGrid& grid = blocking_.grid;
    const IndexRange rows =
        part_of(spec_.m, kAmxPanelRows, index / grid.column_parts, grid.row_parts);
    const IndexRange own = part_of(columns.end - columns.begin, kAmxPanelRows,
                                   index % grid.column_parts, grid.column_parts);
    std::byte* const scratch =
        launch_.scratch + blocking_.shared_bytes + index * blocking_.part_bytes;
    auto* const sums = reinterpret_cast<float*>(scratch + blocking_.sums_at);
    for (int64_t i = rows.begin; i < rows.end; i += blocking_.m_block) {
      const IndexRange block{i, std::min(i + blocking_.m_block, rows.end)};
      pack(launch_.a, !spec_.transpose_a, spec_.m, block, kernels_.pack_a, scratch);
      for (int64_t j = own.begin; j < own.end; j += kAmxPanelRows) {
        multiply(block, {columns.begin + j, columns.begin + std::min(j + kAmxPanelRows, own.end)},
                 scratch, launch_.scratch + j / kAmxPanelRows * panel_bytes_, sums);
      }
    }
  }

 private:
  // Rows of a, or columns of b.
  void pack(const std::byte* operand, bool is_along_k, int64_t all, const IndexRange& rows,
            PackAmxPanels kernel, std::byte* to) const {
    const int64_t stride = is_along_k ? spec_.k : all;
    const int64_t at =
        is_along_k ? rows.begin * stride + ks_.begin : ks_.begin * stride + rows.begin;
    kernel({.data = reinterpret_cast<const uint16_t*>(operand) + at,
            .stride = stride,
            .is_along_k = is_along_k,
            .rows = rows.end - rows.begin,
            .depth = ks_.end - ks_.begin},
           to, panel_bytes_);
  }

  // The first tile of these rows and of one panel of columns, with all the rows.
  [[nodiscard]] AmxTile tile_of(const IndexRange& rows, const IndexRange& columns,
                                float* sums) const {
    const int64_t element = element_bytes(spec_.stored);
    const bool adds_bias = launch_.bias != nullptr && ks_.end == spec_.k;
    return {.sums = sums,
            .dst = launch_.dst + (rows.begin * spec_.n + columns.begin) * element,
            .stride_bytes = spec_.n * element,
            .rows = rows.end - rows.begin,
            .columns = columns.end - columns.begin,
            .bias = adds_bias ? launch_.bias + columns.begin : nullptr};
  }
  void begin(AmxTile tile) const {
    for (; tile.rows > 0; tile.rows -= kAmxPanelRows) {
      AmxTile one = tile;
      one.rows = std::min(tile.rows, kAmxPanelRows);
      stores_.begin(one);
      tile.sums += kAmxSums;
      tile.dst += kAmxPanelRows * tile.stride_bytes;
    }
  }

  // A block of rows and one panel of columns.
  void multiply(const IndexRange& rows, const IndexRange& columns, const std::byte* a,
                const std::byte* b, float* sums) const {
    const int64_t steps = panel_bytes_ / kAmxStepBytes;
    const int64_t steps_at_once = kAmxDepth / kAmxStep;
    AmxMultiply args{.a_bytes = panel_bytes_,
                     .count = (rows.end - rows.begin + kAmxPanelRows - 1) / kAmxPanelRows,
                     .sums = sums,
                     .loads = ks_.begin > 0 || spec_.accumulates,
                     .fetches = true,
                     .first = tile_of(rows, columns, sums)};
    if (args.loads) begin(args.first);
    for (int64_t step = 0; step < steps; step += steps_at_once) {
      args.a = a + step * kAmxStepBytes;
      args.b = b + step * kAmxStepBytes;
      args.steps = std::min(steps_at_once, steps - step);
      if (step + args.steps == steps) args.finish = stores_.finish;
      kernels_.multiply(args);
      args.loads = true;
    }
  }

  const AmxProductSpec& spec_;
  const AmxBlocking& blocking_;
  const AmxProductLaunch& launch_;
  IndexRange ks_;
  int64_t panel_bytes_;
  AmxKernels kernels_;
  AmxStores stores_;
};

}  // namespace

AmxProduct::AmxProduct(const AmxProductSpec& spec, int threads)
    : spec_(spec), blocking_(choose_amx_blocking(spec, threads)) {}

int AmxProduct::parts() const {
  return static_cast<int>(blocking_.grid.row_parts * blocking_.grid.column_parts);
}

int64_t AmxProduct::scratch_bytes() const {
  if (is_empty(spec_)) return 0;
  return blocking_.shared_bytes + parts() * blocking_.part_bytes;
}

void AmxProduct::run(const AmxProductLaunch& launch) const noexcept {
  if (is_empty(spec_)) return;
  const int threads = parts();
  for (int64_t k = 0; k < spec_.k; k += blocking_.k_slice) {
    const AmxSlice slice(spec_, blocking_, launch, {k, std::min(k + blocking_.k_slice, spec_.k)});
    for (int64_t j = 0; j < spec_.n; j += blocking_.n_block) {
      const IndexRange columns{j, std::min(j + blocking_.n_block, spec_.n)};
      parallel_for(threads, columns.end - j, kAmxPanelRows, [&](int64_t begin, int64_t end) {
        slice.pack_columns(columns, {j + begin, j + end});
      });
      parallel_for(threads, threads, 1, [&](int64_t begin, int64_t end) {
        const TileConfig tiles;
        for (int64_t part = begin; part < end; ++part) slice.run_part(part, columns);
      });
    }
  }
}

}  // namespace snug

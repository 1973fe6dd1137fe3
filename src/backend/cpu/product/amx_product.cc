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

// The blocks of one product, which all threads share.
class AmxRun {
 public:
  AmxRun(const AmxProductSpec& spec, const AmxBlocking& blocking, const AmxProductLaunch& launch)
      : spec_(spec),
        blocking_(blocking),
        launch_(launch),
        kernels_(amx_kernels()),
        stores_(amx_stores(spec.stored)) {}

  /// Columns: all of them, or those that are packed for all threads.
  void run_part(int64_t part, const IndexRange& columns) const {
    const ProductGrid& grid = blocking_.grid;
    const IndexRange rows =
        part_of(spec_.m, kAmxPanelRows, part / grid.column_parts, grid.row_parts);
    const IndexRange within = part_of(columns.end - columns.begin, kAmxPanelRows,
                                      part % grid.column_parts, grid.column_parts);
    const IndexRange own{columns.begin + within.begin, columns.begin + within.end};
    std::byte* const scratch =
        launch_.scratch + blocking_.shared_bytes + part * blocking_.part_bytes;
    if (blocking_.shares_b) {
      run_shared(rows, columns, own, scratch);
    } else {
      run_held(rows, own, scratch);
    }
  }

  /// Columns `which` of those that are packed for all.
  void pack_shared_b(const IndexRange& columns, const IndexRange& which) const {
    const int64_t column_bytes = panel_bytes({0, spec_.k}) / kAmxPanelRows;
    pack_b(which, {0, spec_.k}, launch_.scratch + (which.begin - columns.begin) * column_bytes);
  }

 private:
  static int64_t panel_bytes(const IndexRange& ks) {
    return whole_steps(ks.end - ks.begin) * kAmxStepBytes;
  }

  static int64_t panels_of(const IndexRange& rows) {
    return (rows.end - rows.begin + kAmxPanelRows - 1) / kAmxPanelRows;
  }

  void pack_a(const IndexRange& rows, const IndexRange& ks, std::byte* to) const {
    pack(launch_.a, !spec_.transpose_a, spec_.m, rows, ks, kernels_.pack_a, to);
  }
  void pack_b(const IndexRange& columns, const IndexRange& ks, std::byte* to) const {
    pack(launch_.b, spec_.transpose_b, spec_.n, columns, ks, kernels_.pack_b, to);
  }
  void pack(const std::byte* operand, bool is_along_k, int64_t all, const IndexRange& rows,
            const IndexRange& ks, PackAmxPanels kernel, std::byte* to) const {
    const int64_t stride = is_along_k ? spec_.k : all;
    const int64_t at = is_along_k ? rows.begin * stride + ks.begin : ks.begin * stride + rows.begin;
    kernel({.data = reinterpret_cast<const uint16_t*>(operand) + at,
            .stride = stride,
            .is_along_k = is_along_k,
            .rows = rows.end - rows.begin,
            .depth = ks.end - ks.begin},
           to, panel_bytes(ks));
  }

  // One part of dst of columns that are packed for all.
  void run_shared(const IndexRange& rows, const IndexRange& shared, const IndexRange& columns,
                  std::byte* scratch) const {
    const int64_t bytes = panel_bytes({0, spec_.k});
    auto* const sums = reinterpret_cast<float*>(scratch + blocking_.sums_at);
    for (int64_t i = rows.begin; i < rows.end; i += blocking_.m_block) {
      const IndexRange block{i, std::min(i + blocking_.m_block, rows.end)};
      pack_a(block, {0, spec_.k}, scratch);
      for (int64_t j = columns.begin; j < columns.end; j += kAmxPanelRows) {
        multiply_shared(block, {j, std::min(j + kAmxPanelRows, columns.end)}, scratch,
                        launch_.scratch + (j - shared.begin) / kAmxPanelRows * bytes, sums);
      }
    }
  }

  // One part of dst, both operands packed slice by slice.
  void run_held(const IndexRange& rows, const IndexRange& columns, std::byte* scratch) const {
    for (int64_t i = rows.begin; i < rows.end; i += blocking_.m_block) {
      for (int64_t j = columns.begin; j < columns.end; j += blocking_.n_block) {
        multiply_held({i, std::min(i + blocking_.m_block, rows.end)},
                      {j, std::min(j + blocking_.n_block, columns.end)}, scratch);
      }
    }
  }

  // The first tile of these rows and of one panel of columns, with all the rows.
  [[nodiscard]] AmxTile tile_of(const IndexRange& rows, const IndexRange& columns,
                                float* sums) const {
    const int64_t element = element_bytes(spec_.stored);
    return {.sums = sums,
            .dst = launch_.dst + (rows.begin * spec_.n + columns.begin) * element,
            .stride_bytes = spec_.n * element,
            .rows = rows.end - rows.begin,
            .columns = columns.end - columns.begin,
            .bias = launch_.bias == nullptr ? nullptr : launch_.bias + columns.begin};
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

  void multiply_shared(const IndexRange& rows, const IndexRange& columns, const std::byte* a,
                       const std::byte* b, float* sums) const {
    const int64_t steps = whole_steps(spec_.k);
    const int64_t steps_at_once = kAmxDepth / kAmxStep;
    AmxMultiply args{.a_bytes = steps * kAmxStepBytes,
                     .count = panels_of(rows),
                     .sums = sums,
                     .loads = spec_.accumulates,
                     .fetches = true,
                     .first = tile_of(rows, columns, sums)};
    if (spec_.accumulates) begin(args.first);
    for (int64_t step = 0; step < steps; step += steps_at_once) {
      args.a = a + step * kAmxStepBytes;
      args.b = b + step * kAmxStepBytes;
      args.steps = std::min(steps_at_once, steps - step);
      if (step + args.steps == steps) args.finish = stores_.finish;
      kernels_.multiply(args);
      args.loads = true;
    }
  }

  void multiply_held(const IndexRange& rows, const IndexRange& columns, std::byte* scratch) const {
    std::byte* const packed_b = scratch + blocking_.b_at;
    for (int64_t k = 0; k < spec_.k; k += blocking_.k_slice) {
      const IndexRange ks{k, std::min(k + blocking_.k_slice, spec_.k)};
      pack_a(rows, ks, scratch);
      pack_b(columns, ks, packed_b);
      AmxMultiply args{.a = scratch,
                       .a_bytes = panel_bytes(ks),
                       .count = panels_of(rows),
                       .b = packed_b,
                       .steps = whole_steps(ks.end - ks.begin),
                       .sums = reinterpret_cast<float*>(scratch + blocking_.sums_at),
                       .loads = k > 0 || spec_.accumulates,
                       .finish = ks.end == spec_.k ? stores_.finish : nullptr};
      for (int64_t j = columns.begin; j < columns.end; j += kAmxPanelRows) {
        args.first = tile_of(rows, {j, std::min(j + kAmxPanelRows, columns.end)}, args.sums);
        if (k == 0 && spec_.accumulates) begin(args.first);
        kernels_.multiply(args);
        args.b += args.a_bytes;
        args.sums += args.count * kAmxSums;
      }
    }
  }

  const AmxProductSpec& spec_;
  const AmxBlocking& blocking_;
  const AmxProductLaunch& launch_;
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
  return blocking_.scratch_bytes;
}

void AmxProduct::run(const AmxProductLaunch& launch) const noexcept {
  if (is_empty(spec_)) return;
  const AmxRun run(spec_, blocking_, launch);
  const int threads = parts();
  const int64_t at_once = blocking_.shares_b ? blocking_.n_block : spec_.n;
  for (int64_t j = 0; j < spec_.n; j += at_once) {
    const IndexRange columns{j, std::min(j + at_once, spec_.n)};
    if (blocking_.shares_b) {
      parallel_for(threads, columns.end - j, kAmxPanelRows, [&](int64_t begin, int64_t end) {
        run.pack_shared_b(columns, {j + begin, j + end});
      });
    }
    parallel_for(threads, threads, 1, [&](int64_t begin, int64_t end) {
      const TileConfig tiles;
      for (int64_t part = begin; part < end; ++part) run.run_part(part, columns);
    });
  }
}

}  // namespace snug

// SPDX-License-Identifier: Apache-2.0
// The loops around a tile: blocks of columns, of K, of rows, then panels and tiles (spec.h).
#include "backend/cpu/product/product_kernels.h"

#include <cstring>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/product/product_kernels.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "backend/cpu/product/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

constexpr auto kFloatBytes = static_cast<int64_t>(sizeof(float));

// A row of (K, N) goes to one row of each panel; what the last one lacks is zero. `width`: whole
// vectors; panels are `apart` floats apart.
inline void copy_into_panels(const float* row, int64_t count, int64_t width, float* to,
                             int64_t apart) {
  const F32 d;
  const int64_t lanes = lanes_f32();
  int64_t j = 0;
  for (; j + width <= count; j += width, to += apart) {
    for (int64_t v = 0; v < width; v += lanes) hn::StoreU(hn::LoadU(d, row + j + v), d, to + v);
  }
  if (j == count) return;
  for (int64_t v = 0; v < width; ++v) to[v] = j + v < count ? row[j + v] : 0.0F;
}

inline void clear_beyond(float* panel, int64_t width, int64_t count, int64_t depth) {
  if (count == width) return;
  for (int64_t k = 0; k < depth; ++k) {
    for (int64_t j = count; j < width; ++j) panel[k * width + j] = 0;
  }
}

// Two rows of bf16; `next` may be null: zeros.
struct RowPair {
  using Wide = hn::ScalableTag<uint32_t>;
  using Narrow = hn::Rebind<uint16_t, Wide>;
  const uint16_t* row;
  const uint16_t* next;

  // A vector of pairs from column `at` on, of which `left` are there; zero what is behind them.
  [[nodiscard]] HWY_INLINE V32 load(int64_t at, int64_t left) const {
    const auto low = wide(row + at, left);
    if (next == nullptr) return hn::BitCast(F32(), low);
    return hn::BitCast(F32(), hn::Or(low, hn::ShiftLeft<16>(wide(next + at, left))));
  }

 private:
  static HWY_INLINE hn::Vec<Wide> wide(const uint16_t* from, int64_t left) {
    const Narrow narrow;
    if (left >= lanes_f32()) return hn::PromoteTo(Wide(), hn::LoadU(narrow, from));
    const auto present = hn::FirstN(narrow, static_cast<size_t>(HWY_MAX(left, 0)));
    return hn::PromoteTo(Wide(), hn::MaskedLoad(present, narrow, from));
  }
};

class PartRun {
 public:
  PartRun(const ProductSpec& spec, const ProductBlocking& blocking, const ProductLaunch& launch,
          const ProductPart& part, float* scratch)
      : spec_(spec),
        blocking_(blocking),
        launch_(launch),
        part_(part),
        scratch_(scratch),
        width_(blocking.vectors * lanes_f32()),
        a_row0_(part.batch * (spec.transpose_a ? spec.k : spec.m)),
        b_row0_(part.batch * (spec.transpose_b ? spec.n : spec.k)),
        dst_row0_(part.batch * (blocking.is_swapped ? spec.n : spec.m)) {}

  void compute() {
    const int64_t step = HWY_MAX(blocking_.packed_k, 1);
    for (int64_t j = part_.columns.begin; j < part_.columns.end; j += blocking_.n_block) {
      const IndexRange columns{j, HWY_MIN(j + blocking_.n_block, part_.columns.end)};
      int64_t k = 0;
      do {
        packed_ = {k, HWY_MIN(k + step, spec_.k)};
        pack_b(columns);
        for (int64_t i = part_.rows.begin; i < part_.rows.end; i += blocking_.m_block)
          multiply({i, HWY_MIN(i + blocking_.m_block, part_.rows.end)}, columns);
        k += step;
      } while (k < spec_.k);
    }
  }

 private:
  // Elements [first, first + count) of a stored row: where they lie, or read into `buffer`.
  static const float* row_of(const ProductOperand& from, int64_t row, int64_t first, int64_t count,
                             float* buffer) {
    if (from.find != nullptr) return from.find(from.source, row) + first;
    if (from.read == nullptr) return from.data + row * from.stride + first;
    from.read(from.source, row, first, count, buffer);
    return buffer;
  }

  static void copy_row(const ProductOperand& from, int64_t row, int64_t first, int64_t count,
                       float* to) {
    const float* const at = row_of(from, row, first, count, to);
    if (at != to) std::memcpy(to, at, static_cast<size_t>(count) * sizeof(float));
  }

  // The row that is packed some rows later, of those before `end`.
  static void fetch_row_behind(const ProductOperand& from, int64_t row, int64_t end, int64_t first,
                               int64_t count) {
    if (from.read == nullptr && row + kRowsAhead < end)
      fetch_row(row_of(from, row + kRowsAhead, first, count, nullptr), count * kFloatBytes);
  }

  // Row `row` of pairs; the one that is packed some rows later is brought nearer.
  static RowPair pair_of(const ProductOperand& from, int64_t row, int64_t first, int64_t count) {
    const auto* const at =
        static_cast<const uint16_t*>(from.source) + 2 * row * from.stride + first;
    const int64_t left = from.rows - 2 * row;
    for (int64_t ahead = 2 * kRowsAhead; ahead < HWY_MIN(2 * kRowsAhead + 2, left); ++ahead)
      fetch_row(at + ahead * from.stride, count * static_cast<int64_t>(sizeof *at));
    return {at, left > 1 ? at + from.stride : nullptr};
  }

  // Row `row` of the panel that holds a column, from that column on.
  [[nodiscard]] const float* in_panels(int64_t column, int64_t row) const {
    const int64_t width = spec_.panel_columns;
    return launch_.b.data + (column / width * spec_.k + row) * width + column % width;
  }

  // What is multiplied behind a panel over a block of K; null: nothing. Panels come from memory or
  // the last cache, and all at once while the first rows of a are multiplied with them. So the next
  // one is brought into the second cache meanwhile, a part with each strip of rows.
  [[nodiscard]] const float* next_panel(const IndexRange& columns, int64_t column,
                                        const IndexRange& ks) const {
    if (column + width_ < columns.end) return in_panels(column + width_, ks.begin);
    if (ks.end < spec_.k) return in_panels(columns.begin, ks.end);
    return columns.end < part_.columns.end ? in_panels(columns.end, 0) : nullptr;
  }

  // Panels of the columns, each (packed_k, width); what a last one lacks is zero.
  void pack_b(const IndexRange& columns) {
    if (spec_.panel_columns > 0) return;
    const int64_t depth = packed_.end - packed_.begin;
    int64_t first = columns.begin;
    if (!blocking_.packs_b) first += (columns.end - columns.begin) / width_ * width_;
    if (first >= columns.end) return;
    if (spec_.transpose_b) {
      for (int64_t j = first; j < columns.end; j += width_) pack_across(j, columns, depth);
    } else if (spec_.has_pairs) {
      pack_pairs(first, columns, depth);
    } else {
      pack_along(first, columns, depth);
    }
  }

  float* panel_of(int64_t column, const IndexRange& columns, int64_t depth) {
    if (!blocking_.packs_b) return scratch_;  // the last one alone
    return scratch_ + (column - columns.begin) * depth;
  }

  // b is (N, K).
  void pack_across(int64_t column, const IndexRange& columns, int64_t depth) {
    float* const panel = panel_of(column, columns, depth);
    const int64_t count = HWY_MIN(width_, columns.end - column);
    const int64_t row = b_row0_ + column;
    if (!spec_.reads_b) {
      const float* from = launch_.b.data + row * launch_.b.stride + packed_.begin;
      transpose_into(from, launch_.b.stride, count, depth, panel, width_);
    } else {
      float* const rows = scratch_ + blocking_.rows_at;
      for (int64_t j = 0; j < count; ++j)
        copy_row(launch_.b, row + j, packed_.begin, depth, rows + j * depth);
      transpose_into(rows, depth, count, depth, panel, width_);
    }
    clear_beyond(panel, width_, count, depth);
  }

  // b is (K, N).
  void pack_along(int64_t first, const IndexRange& columns, int64_t depth) {
    const int64_t count = columns.end - first;
    for (int64_t k = 0; k < depth; ++k) {
      const int64_t at = b_row0_ + packed_.begin + k;
      const float* row = row_of(launch_.b, at, first, count, scratch_ + blocking_.rows_at);
      fetch_row_behind(launch_.b, at, b_row0_ + spec_.k, first, count);
      float* const to = panel_of(first, columns, depth) + k * width_;
      copy_into_panels(row, count, width_, to, depth * width_);
    }
  }

  // b is (K, N), of pairs.
  void pack_pairs(int64_t first, const IndexRange& columns, int64_t depth) {
    const int64_t count = columns.end - first;
    const int64_t lanes = lanes_f32();
    for (int64_t k = 0; k < depth; ++k) {
      const RowPair pair = pair_of(launch_.b, packed_.begin + k, first, count);
      float* to = panel_of(first, columns, depth) + k * width_;
      for (int64_t j = 0; j < count; j += width_, to += depth * width_) {
        for (int64_t v = 0; v < width_; v += lanes)
          hn::StoreU(pair.load(j + v, count - j - v), F32(), to + v);
      }
    }
  }

  // Strips of rows have the greatest height or one less, as equal as can be; the first are higher.
  struct Strips {
    explicit Strips(const IndexRange& rows)
        : count((rows.end - rows.begin + kTileRows - 1) / kTileRows),
          least((rows.end - rows.begin) / HWY_MAX(count, 1)),
          higher(rows.end - rows.begin - least * count) {}
    [[nodiscard]] int64_t height(int64_t index) const { return least + (index < higher ? 1 : 0); }
    int64_t count;
    int64_t least;
    int64_t higher;  // so many have least + 1
  };

  // Rows of a for one block of K: where they lie, copied, or in strips of (k, height).
  void bring_a(const IndexRange& rows, const IndexRange& ks) {
    const int64_t depth = ks.end - ks.begin;
    float* const copy = scratch_ + blocking_.a_at;
    if (!spec_.transpose_a) {
      a_ = copy;
      a_row_ = depth;
      if (!blocking_.copies_a) {
        a_ = launch_.a.data + (a_row0_ + rows.begin) * launch_.a.stride + ks.begin;
        a_row_ = launch_.a.stride;
        return;
      }
      for (int64_t i = rows.begin; i < rows.end; ++i)
        copy_row(launch_.a, a_row0_ + i, ks.begin, depth, copy + (i - rows.begin) * depth);
      return;
    }
    a_ = copy;
    a_row_ = 1;
    if (spec_.has_pairs) return pair_strips(rows, ks, copy);
    const int64_t all = rows.end - rows.begin;
    const Strips strips(rows);
    for (int64_t k = 0; k < depth; ++k) {
      const int64_t at = a_row0_ + ks.begin + k;
      const float* from = row_of(launch_.a, at, rows.begin, all, scratch_ + blocking_.rows_at);
      fetch_row_behind(launch_.a, at, a_row0_ + spec_.k, rows.begin, all);
      float* to = copy;
      for (int64_t s = 0; s < strips.count; ++s) {
        const int64_t height = strips.height(s);
        if (height == kTileRows) {
          std::memcpy(to + k * kTileRows, from, kTileRows * sizeof(float));
        } else {
          std::memcpy(to + k * height, from, static_cast<size_t>(height) * sizeof(float));
        }
        to += depth * height;
        from += height;
      }
    }
  }

  // Strips of pairs.
  void pair_strips(const IndexRange& rows, const IndexRange& ks, float* to) {
    const F32 d;
    const int64_t depth = ks.end - ks.begin;
    const Strips strips(rows);
    for (int64_t k = 0; k < depth; ++k) {
      const RowPair pair = pair_of(launch_.a, ks.begin + k, rows.begin, rows.end - rows.begin);
      float* strip = to;
      int64_t at = 0;
      for (int64_t s = 0; s < strips.count; ++s) {
        const int64_t height = strips.height(s);
        const V32 pairs = pair.load(at, height);
        hn::BlendedStore(pairs, hn::FirstN(d, static_cast<size_t>(height)), d, strip + k * height);
        at += height;
        strip += depth * height;
      }
    }
  }

  void multiply(const IndexRange& rows, const IndexRange& columns) {
    int64_t k = packed_.begin;
    do {
      const IndexRange ks{k, HWY_MIN(k + blocking_.k_block, packed_.end)};
      bring_a(rows, ks);
      for (int64_t j = columns.begin; j < columns.end; j += width_)
        multiply_panel(rows, columns, j, ks);
      k += HWY_MAX(blocking_.k_block, 1);
    } while (k < packed_.end);
  }

  void multiply_panel(const IndexRange& rows, const IndexRange& columns, int64_t column,
                      const IndexRange& ks) {
    const int64_t depth = ks.end - ks.begin;
    const int64_t count = HWY_MIN(width_, columns.end - column);
    TileArgs tile{.k = depth};
    const bool is_across = blocking_.is_across && count == width_;
    if (spec_.panel_columns > 0) {
      tile.b = in_panels(column, ks.begin);
      tile.b_stride = spec_.panel_columns;
    } else if (is_across) {
      tile.b = launch_.b.data + (b_row0_ + column) * launch_.b.stride + ks.begin;
      tile.b_stride = launch_.b.stride;
    } else if (blocking_.packs_b || count < width_) {
      tile.b = panel_of(column, columns, packed_.end - packed_.begin) +
               (ks.begin - packed_.begin) * width_;
      tile.b_stride = width_;
    } else {
      tile.b = launch_.b.data + (b_row0_ + ks.begin) * launch_.b.stride + column;
      tile.b_stride = launch_.b.stride;
    }
    const bool begins = spec_.holds_tiles ? launch_.begin != nullptr : spec_.accumulates;
    loads_ = ks.begin > 0 || begins;
    is_first_ = ks.begin == 0;
    is_last_ = ks.end == spec_.k;
    const Strips strips(rows);
    const float* const next = spec_.panel_columns > 0 ? next_panel(columns, column, ks) : nullptr;
    tile.next = next;
    tile.next_step = (spec_.panel_columns + strips.count - 1) / strips.count;
    const auto find = [&](int64_t height) {
      if (spec_.has_pairs) return find_pair_tile(height, loads_);
      return is_across
                 ? find_tile_across(height, loads_)
                 : find_tile(height, blocking_.vectors, loads_, spec_.transpose_a, next != nullptr);
    };
    const RunTile low = find(strips.least);
    const RunTile high = strips.higher == 0 ? low : find(strips.least + 1);
    tile.a_row = a_row_;
    IndexRange range{rows.begin, rows.begin};
    for (int64_t s = 0; s < strips.count; ++s) {
      range = {range.end, range.end + strips.height(s)};
      tile.a = a_ + (range.begin - rows.begin) * (spec_.transpose_a ? depth : a_row_);
      tile.a_step = strips.height(s);
      const RunTile run = s < strips.higher ? high : low;
      if (tile.next != nullptr) tile.next = next + s * tile.next_step * depth;
      if (spec_.holds_tiles) {
        hold_tile(tile, run, range, {column, column + count}, rows, columns);
      } else {
        store_tile(tile, run, range, {column, column + count});
      }
    }
  }

  void finish(const ProductTile& tile) const {
    if (is_last_ && launch_.finish != nullptr) launch_.finish(launch_.context, tile);
  }

  // The tile of these rows and columns over a block of K, summed up in scratch.
  void hold_tile(TileArgs& args, RunTile run, const IndexRange& rows, const IndexRange& columns,
                 const IndexRange& block_rows, const IndexRange& block_columns) const {
    ProductTile tile{.row = dst_row0_ + rows.begin,
                     .rows = rows.end - rows.begin,
                     .column = columns.begin,
                     .columns = columns.end - columns.begin,
                     .stride = blocking_.n_block};
    tile.data = scratch_ + blocking_.tiles_at + (rows.begin - block_rows.begin) * tile.stride +
                (columns.begin - block_columns.begin);
    if (is_first_ && launch_.begin != nullptr) launch_.begin(launch_.context, tile);
    args.c = tile.data;
    args.c_stride = tile.stride;
    run(args);
    finish(tile);
  }

  // The same, summed up in dst.
  void store_tile(TileArgs& args, RunTile run, const IndexRange& rows,
                  const IndexRange& columns) const {
    if (blocking_.is_swapped) {
      const ProductTile tile = tile_of_dst(columns, rows);
      HWY_ALIGN float beside[kBesideFloats];
      args.c = beside;
      args.c_stride = width_;
      if (loads_) transpose_into(tile.data, tile.stride, tile.rows, tile.columns, beside, width_);
      run(args);
      transpose_into(beside, width_, tile.columns, tile.rows, tile.data, tile.stride);
      finish(tile);
      return;
    }
    const ProductTile tile = tile_of_dst(rows, columns);
    if (tile.columns == width_) {
      args.c = tile.data;
      args.c_stride = tile.stride;
      run(args);
    } else {
      run_beside(args, run, tile);
    }
    finish(tile);
  }

  ProductTile tile_of_dst(const IndexRange& rows, const IndexRange& columns) const {
    const int64_t row = dst_row0_ + rows.begin;
    return {row,
            rows.end - rows.begin,
            columns.begin,
            columns.end - columns.begin,
            launch_.dst + row * launch_.dst_stride + columns.begin,
            launch_.dst_stride};
  }

  // A tile that is not whole vectors wide.
  void run_beside(TileArgs& args, RunTile run, const ProductTile& tile) const {
    HWY_ALIGN float beside[kBesideFloats];
    const auto bytes = static_cast<size_t>(tile.columns) * sizeof(float);
    for (int64_t i = 0; loads_ && i < tile.rows; ++i)
      std::memcpy(beside + i * width_, tile.data + i * tile.stride, bytes);
    args.c = beside;
    args.c_stride = width_;
    run(args);
    for (int64_t i = 0; i < tile.rows; ++i)
      std::memcpy(tile.data + i * tile.stride, beside + i * width_, bytes);
  }

  // Floats of the largest tile: kTileRows by 2 vectors, 3 by 4 or 1 by 8.
  static constexpr size_t kBesideFloats = 2 * kTileRows * hn::MaxLanes(F32());

  const ProductSpec& spec_;
  const ProductBlocking& blocking_;
  const ProductLaunch& launch_;
  const ProductPart& part_;
  float* scratch_;
  int64_t width_;
  int64_t a_row0_;
  int64_t b_row0_;
  int64_t dst_row0_;
  IndexRange packed_;  // rows of K that are packed
  const float* a_ = nullptr;
  int64_t a_row_ = 0;
  bool loads_ = false;     // tiles begin with what there is
  bool is_first_ = false;  // block of K
  bool is_last_ = false;
};

void run_product_part(const ProductSpec& spec, const ProductBlocking& blocking,
                      const ProductLaunch& launch, const ProductPart& part, float* scratch) {
  PartRun(spec, blocking, launch, part, scratch).compute();
}

void fill_panels(const PanelShape& shape, const float* from, const IndexRange& which,
                 float* panels) {
  const int64_t width = shape.columns;
  const int64_t apart = shape.k * width;
  if (shape.transposed) {
    for (int64_t i = which.begin; i < which.end; ++i) {
      const int64_t count = HWY_MIN(width, shape.n - i * width);
      float* const panel = panels + i * apart;
      transpose_into(from + i * width * shape.k, shape.k, count, shape.k, panel, width);
      clear_beyond(panel, width, count, shape.k);
    }
    return;
  }
  // As many as can be written side by side.
  constexpr int64_t kAtOnce = 8;
  for (int64_t i = which.begin; i < which.end; i += kAtOnce) {
    const int64_t first = i * width;
    const int64_t count = HWY_MIN(HWY_MIN(i + kAtOnce, which.end) * width, shape.n) - first;
    for (int64_t k = 0; k < shape.k; ++k) {
      const float* const row = from + k * shape.n + first;
      fetch_row(row + kRowsAhead * shape.n, count * kFloatBytes);
      copy_into_panels(row, count, width, panels + i * apart + k * width, apart);
    }
  }
}

void add_row_to_tile(const float* row, const ProductTile& tile) {
  const auto add = [](V32 a, V32 b) HWY_ATTR { return hn::Add(a, b); };
  for (int64_t i = 0; i < tile.rows; ++i) {
    float* const line = tile.data + i * tile.stride;
    map_vectors(line, line, row, tile.columns, add);
  }
}

TileShape tile_shape() { return {kTileRows, lanes_f32()}; }

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace snug {

HWY_EXPORT(run_product_part);
HWY_EXPORT(fill_panels);
HWY_EXPORT(add_row_to_tile);
HWY_EXPORT(tile_shape);

TileShape product_tile_shape() { return HWY_DYNAMIC_DISPATCH(tile_shape)(); }
AddRowToTile product_bias_kernel() { return HWY_DYNAMIC_DISPATCH(add_row_to_tile); }
FillPanels panel_kernel() { return HWY_DYNAMIC_DISPATCH(fill_panels); }
RunProductPart product_part_kernel() { return HWY_DYNAMIC_DISPATCH(run_product_part); }

}  // namespace snug
#endif

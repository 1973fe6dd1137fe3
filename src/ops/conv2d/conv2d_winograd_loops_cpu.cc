// SPDX-License-Identifier: Apache-2.0
#include "ops/conv2d/conv2d_winograd_cpu.h"

#include "backend/cpu/product/product_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/conv2d/conv2d_winograd_loops_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "backend/cpu/product/tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

constexpr int64_t kSide = kWinogradSide;
constexpr int64_t kTaps = 9;     // of a filter
constexpr int64_t kAtOnce = 16;  // channels whose filters are transformed at a time
constexpr int64_t kMaxWidth = 2 * hn::MaxLanes(F32());

HWY_INLINE int64_t panel_width() { return 2 * lanes_f32(); }

// A column (or a row) through each of the matrices.
HWY_INLINE void by_b(V32 d0, V32 d1, V32 d2, V32 d3, V32* out, int64_t step) {
  out[0] = hn::Sub(d0, d2);
  out[step] = hn::Add(d1, d2);
  out[2 * step] = hn::Sub(d2, d1);
  out[3 * step] = hn::Sub(d1, d3);
}
HWY_INLINE void by_g(V32 g0, V32 g1, V32 g2, V32* out, int64_t step) {
  const V32 half = hn::Set(F32(), 0.5F);
  const V32 ends = hn::Mul(half, hn::Add(g0, g2));
  const V32 middle = hn::Mul(half, g1);
  out[0] = g0;
  out[step] = hn::Add(ends, middle);
  out[2 * step] = hn::Sub(ends, middle);
  out[3 * step] = g2;
}
HWY_INLINE void by_g_transposed(V32 s0, V32 s1, V32 s2, V32 s3, V32* out, int64_t step) {
  const V32 half = hn::Set(F32(), 0.5F);
  const V32 sum = hn::Mul(half, hn::Add(s1, s2));
  out[0] = hn::Add(s0, sum);
  out[step] = hn::Mul(half, hn::Sub(s1, s2));
  out[2 * step] = hn::Add(sum, s3);
}
HWY_INLINE void by_a(V32 y0, V32 y1, V32* out, int64_t step) {
  out[0] = y0;
  out[step] = hn::Add(y0, y1);
  out[2 * step] = hn::Sub(y0, y1);
  out[3 * step] = hn::Neg(y1);
}
HWY_INLINE void by_a_transposed(V32 m0, V32 m1, V32 m2, V32 m3, V32* out, int64_t step) {
  out[0] = hn::Add(hn::Add(m0, m1), m2);
  out[step] = hn::Sub(hn::Sub(m1, m2), m3);
}

// Where a tile lies. Goes from tile to tile: to divide for each would take longer than to multiply
// few channels.
class TilePlace {
 public:
  TilePlace(const WinogradShape& shape, int64_t tile)
      : row(tile / shape.tiles_across() % shape.tiles_down() * 2),
        column(tile % shape.tiles_across() * 2),
        image(tile / shape.tiles_across() / shape.tiles_down()),
        end_row_(2 * shape.tiles_down()),
        end_column_(2 * shape.tiles_across()) {}
  void advance() {
    column += 2;
    if (column < end_column_) return;
    column = 0;
    row += 2;
    if (row < end_row_) return;
    row = 0;
    ++image;
  }

  int64_t row;  // of its first place
  int64_t column;
  int64_t image;

 private:
  int64_t end_row_;
  int64_t end_column_;
};

// A square of pixels that lie in the image.
struct InnerPixels {
  const float* first;
  int64_t down;    // from a line to the next
  int64_t across;  // from a pixel to the next
  HWY_INLINE const float* at(int64_t i, int64_t j) const { return first + i * down + j * across; }
};

// One at an edge: `zeros` for the pixels outside.
template <int64_t kCount>
struct EdgePixels {
  const float* pixels[kCount * kCount];
  HWY_INLINE const float* at(int64_t i, int64_t j) const { return pixels[i * kCount + j]; }
};

// Brings the pixels nearer that the tile below is the first to read: loops over few channels would
// wait for each of them. Behind the last line of an image lies the next one.
template <int64_t kCount>
HWY_INLINE void fetch_below(const float* first, int64_t down, int64_t channels) {
  const float* const below = first + kCount * down + (kCount - 2) / 2 * channels;
  const auto bytes = 2 * channels * static_cast<int64_t>(sizeof(float));
  fetch_row<false, 2>(below, bytes);
  fetch_row<false, 2>(below + down, bytes);
}

// visit(pixels) with the square of kCount x kCount pixels at a row and a column of the image, which
// may begin and end outside of it.
template <int64_t kCount, class Visit>
HWY_INLINE void visit_pixels(const float* image, int64_t height, int64_t width, int64_t channels,
                             int64_t row, int64_t column, const float* zeros, const Visit& visit) {
  const int64_t down = width * channels;
  const float* const first = image + row * down + column * channels;
  fetch_below<kCount>(first, down, channels);
  if (row >= 0 && row + kCount <= height && column >= 0 && column + kCount <= width)
    return visit(InnerPixels{first, down, channels});
  EdgePixels<kCount> edge;
  for (int64_t i = 0; i < kCount; ++i) {
    for (int64_t j = 0; j < kCount; ++j) {
      const bool is_inside =
          row + i >= 0 && row + i < height && column + j >= 0 && column + j < width;
      edge.pixels[i * kCount + j] = is_inside ? first + i * down + j * channels : zeros;
    }
  }
  visit(edge);
}

// The 4 x 4 pixels of src under a tile.
template <class Visit>
HWY_INLINE void visit_pixels_under(const WinogradShape& shape, const TilePlace& place,
                                   const float* src, const float* zeros, const Visit& visit) {
  visit_pixels<kSide>(src + place.image * shape.src_height * shape.src_width * shape.src_channels,
                      shape.src_height, shape.src_width, shape.src_channels,
                      place.row - shape.padding_height, place.column - shape.padding_width, zeros,
                      visit);
}

// B^T d B of the tiles of a range, as rows (16, tiles, K). By transform_rows_of_src, a row at a
// time, forward convolutions of 16 channels took 7 % longer.
void transform_src(const WinogradShape& shape, const IndexRange& tiles, const float* src,
                   const float* zeros, float* rows) {
  const F32 d;
  const int64_t channels = shape.src_channels;
  const int64_t plane = (tiles.end - tiles.begin) * channels;
  TilePlace place(shape, tiles.begin);
  for (int64_t t = tiles.begin; t < tiles.end; ++t, place.advance()) {
    float* const to = rows + (t - tiles.begin) * channels;
    visit_pixels_under(shape, place, src, zeros, [&](const auto& pixels) HWY_ATTR {
      for (int64_t c = 0; c < channels; c += lanes_f32()) {
        V32 half[kWinogradPlanes];
        for (int64_t j = 0; j < kSide; ++j) {
          by_b(hn::LoadU(d, pixels.at(0, j) + c), hn::LoadU(d, pixels.at(1, j) + c),
               hn::LoadU(d, pixels.at(2, j) + c), hn::LoadU(d, pixels.at(3, j) + c), half + j,
               kSide);
        }
        for (int64_t i = 0; i < kSide; ++i) {
          const V32* const line = half + i * kSide;
          V32 out[kSide];
          by_b(line[0], line[1], line[2], line[3], out, 1);
          for (int64_t j = 0; j < kSide; ++j)
            hn::StoreU(out[j], d, to + (i * kSide + j) * plane + c);
        }
      }
    });
  }
}

// Rows of B^T d B of the tiles of a range: four planes each, whose rows are winograd_row_floats(K)
// long.
void transform_rows_of_src(const WinogradShape& shape, const IndexRange& tiles, const float* src,
                           const float* zeros, const IndexRange& rows, float* to, int64_t plane) {
  const F32 d;
  const int64_t channels = shape.src_channels;
  TilePlace place(shape, tiles.begin);
  for (int64_t t = tiles.begin; t < tiles.end; ++t, place.advance()) {
    visit_pixels_under(shape, place, src, zeros, [&](const auto& pixels) HWY_ATTR {
      for (int64_t row = rows.begin; row < rows.end; ++row) {
        // The two of four lines of pixels that the row of B^T has: first - second, or their sum.
        const int64_t first = row == 0 ? 0 : row == 2 ? 2 : 1;
        const int64_t second = row == 3 ? 3 : row == 2 ? 1 : 2;
        float* const planes = to + (row - rows.begin) * kSide * plane;
        for (int64_t c = 0; c < channels; c += lanes_f32()) {
          V32 line[kSide];
          for (int64_t j = 0; j < kSide; ++j) {
            const V32 a = hn::LoadU(d, pixels.at(first, j) + c);
            const V32 b = hn::LoadU(d, pixels.at(second, j) + c);
            line[j] = row == 1 ? hn::Add(a, b) : hn::Sub(a, b);
          }
          V32 out[kSide];
          by_b(line[0], line[1], line[2], line[3], out, 1);
          for (int64_t j = 0; j < kSide; ++j) hn::StoreU(out[j], d, planes + j * plane + c);
        }
      }
    });
    to += winograd_row_floats(channels);
  }
}

// Rows of A dY A^T, of some columns.
void transform_rows_of_dst(const WinogradShape& shape, const IndexRange& tiles,
                           const IndexRange& columns, const float* dst, const float* zeros,
                           const IndexRange& rows, float* to, int64_t plane) {
  const F32 d;
  const int64_t channels = shape.dst_channels;
  const int64_t count = columns.end - columns.begin;
  TilePlace place(shape, tiles.begin);
  for (int64_t t = tiles.begin; t < tiles.end; ++t, place.advance()) {
    const auto transform = [&](const auto& pixels) HWY_ATTR {
      for (int64_t c = 0; c < count; c += lanes_f32()) {
        V32 columns_of[2][kSide];
        for (int64_t j = 0; j < 2; ++j) {
          by_a(hn::LoadU(d, pixels.at(0, j) + columns.begin + c),
               hn::LoadU(d, pixels.at(1, j) + columns.begin + c), columns_of[j], 1);
        }
        for (int64_t row = rows.begin; row < rows.end; ++row) {
          V32 out[kSide];
          by_a(columns_of[0][row], columns_of[1][row], out, 1);
          float* const planes = to + (row - rows.begin) * kSide * plane;
          for (int64_t j = 0; j < kSide; ++j) hn::StoreU(out[j], d, planes + j * plane + c);
        }
      }
    };
    visit_pixels<2>(dst + place.image * shape.dst_height * shape.dst_width * channels,
                    shape.dst_height, shape.dst_width, channels, place.row, place.column, zeros,
                    transform);
    to += winograd_row_floats(count);
  }
}

// A panel of the sums of 16 planes (16, tiles, W) becomes places of dst.
void store_places(const WinogradShape& shape, const IndexRange& tiles, const float* sums,
                  int64_t column, const float* bias, float* dst) {
  const F32 d;
  const int64_t width = panel_width();
  const int64_t plane = (tiles.end - tiles.begin) * width;
  TilePlace place(shape, tiles.begin);
  for (int64_t t = tiles.begin; t < tiles.end; ++t, place.advance()) {
    const bool has_row = place.row + 1 < shape.dst_height;
    const bool has_column = place.column + 1 < shape.dst_width;
    float* const to =
        dst +
        ((place.image * shape.dst_height + place.row) * shape.dst_width + place.column) *
            shape.dst_channels +
        column;
    const int64_t down = shape.dst_width * shape.dst_channels;
    for (int64_t v = 0; v < width; v += lanes_f32()) {
      const float* const from = sums + (t - tiles.begin) * width + v;
      V32 half[2 * kSide];
      for (int64_t j = 0; j < kSide; ++j) {
        by_a_transposed(hn::LoadU(d, from + j * plane), hn::LoadU(d, from + (kSide + j) * plane),
                        hn::LoadU(d, from + (2 * kSide + j) * plane),
                        hn::LoadU(d, from + (3 * kSide + j) * plane), half + j, kSide);
      }
      const V32 shift = bias == nullptr ? hn::Zero(d) : hn::LoadU(d, bias + column + v);
      for (int64_t i = 0; i < 2; ++i) {
        if (i == 1 && !has_row) break;
        const V32* const line = half + i * kSide;
        V32 out[2];
        by_a_transposed(line[0], line[1], line[2], line[3], out, 1);
        hn::StoreU(hn::Add(out[0], shift), d, to + i * down + v);
        if (has_column)
          hn::StoreU(hn::Add(out[1], shift), d, to + i * down + shape.dst_channels + v);
      }
    }
  }
}

void multiply(const WinogradShape& shape, const IndexRange& tiles, const WinogradForward& launch) {
  const int64_t width = panel_width();
  const int64_t count = tiles.end - tiles.begin;
  const int64_t k = shape.src_channels;
  transform_src(shape, tiles, launch.src, launch.zeros, launch.rows);
  TileArgs tile{.k = k, .a_row = k, .b_stride = width, .c_stride = width};
  for (int64_t column = launch.columns.begin; column < launch.columns.end; column += width) {
    const float* const panel =
        launch.filters + (column - launch.columns.begin) * kWinogradPlanes * k;
    for (int64_t p = 0; p < kWinogradPlanes; ++p) {
      tile.b = panel + p * k * width;
      for (int64_t t = 0; t < count; t += kTileRows) {
        const int64_t rows = HWY_MIN(kTileRows, count - t);
        tile.a = launch.rows + (p * count + t) * k;
        tile.c = launch.sums + (p * count + t) * width;
        find_tile<false, false, false>(rows, 2)(tile);
      }
    }
    store_places(shape, tiles, launch.sums, column, launch.bias, launch.dst);
  }
}

void add_products(const WinogradShape& shape, const WinogradSums& s, const WinogradShare& share) {
  const int64_t width = panel_width();
  const int64_t tiles = shape.tiles();
  const int64_t panels = (s.columns.end - s.columns.begin) / width;
  const int64_t src_row = winograd_row_floats(s.k);
  const int64_t dst_row = winograd_row_floats(share.columns.end - share.columns.begin);
  const int64_t src_plane = share.tiles_at_once * src_row;
  const int64_t dst_plane = share.tiles_at_once * dst_row;
  const IndexRange planes{share.rows.begin * kSide, share.rows.end * kSide};
  float* const src = share.scratch;
  float* const dst = src + (planes.end - planes.begin) * src_plane;
  const IndexRange columns{s.columns.begin + share.columns.begin,
                           s.columns.begin + share.columns.end};
  const int64_t strips = hwy::DivCeil(s.k, kTileRows);  // of rows as equal as they can be
  for (int64_t first = 0; first < tiles; first += share.tiles_at_once) {
    const IndexRange some{first, HWY_MIN(first + share.tiles_at_once, tiles)};
    transform_rows_of_src(shape, some, s.x, s.zeros, share.rows, src, src_plane);
    transform_rows_of_dst(shape, some, columns, s.dy, s.zeros, share.rows, dst, dst_plane);
    TileArgs tile{
        .k = some.end - some.begin, .a_step = src_row, .b_stride = dst_row, .c_stride = width};
    for (int64_t p = planes.begin; p < planes.end; ++p) {
      for (int64_t column = share.columns.begin; column < share.columns.end; column += width) {
        const int64_t panel = p * panels + column / width;
        tile.b = dst + (p - planes.begin) * dst_plane + column - share.columns.begin;
        for (int64_t i = 0; i < strips; ++i) {
          const int64_t c = s.k * i / strips;
          tile.a = src + (p - planes.begin) * src_plane + c;
          tile.c = s.sums + (panel * s.k + c) * width;
          find_tile(s.k * (i + 1) / strips - c, 2, first > 0, true, false)(tile);
        }
      }
    }
  }
}

// 9 vectors of taps, `apart` floats from one to the next, become 16.
void transform_taps(const float* taps, int64_t apart, bool is_opposite, float* out, int64_t plane) {
  const F32 d;
  const auto tap = [&](int64_t i, int64_t j) HWY_ATTR {
    const int64_t at = i * 3 + j;
    return hn::LoadU(d, taps + (is_opposite ? kTaps - 1 - at : at) * apart);
  };
  V32 half[3 * kSide];
  for (int64_t j = 0; j < 3; ++j) by_g(tap(0, j), tap(1, j), tap(2, j), half + j, 3);
  for (int64_t i = 0; i < kSide; ++i) {
    V32 line[kSide];
    by_g(half[i * 3], half[i * 3 + 1], half[i * 3 + 2], line, 1);
    for (int64_t j = 0; j < kSide; ++j) hn::StoreU(line[j], d, out + (i * kSide + j) * plane);
  }
}

// Not inlined: GCC 12 warns of overflows in loops that constant sizes leave nothing to do.
HWY_NOINLINE void transpose(const float* src, int64_t src_stride, int64_t rows, int64_t columns,
                            float* dst, int64_t dst_stride) {
  transpose_into(src, src_stride, rows, columns, dst, dst_stride);
}

void transform_filters(const WinogradFilters& filters, const float* w, const IndexRange& which,
                       float* panels) {
  const int64_t width = panel_width();
  const int64_t filter_floats = filters.in_channels * kTaps;
  const int64_t k = filters.is_adjoint ? filters.out_channels : filters.in_channels;
  const int64_t at_once = filters.is_adjoint ? 1 : kAtOnce;
  HWY_ALIGN float taps[kAtOnce * kTaps * kMaxWidth];  // (channels at once, 9, W)
  for (int64_t panel = which.begin; panel < which.end; ++panel) {
    for (int64_t c = 0; c < k; c += at_once) {
      if (filters.is_adjoint) {
        transpose(w + c * filter_floats + panel * width * kTaps, kTaps, width, kTaps, taps, width);
      } else {
        transpose(w + panel * width * filter_floats + c * kTaps, filter_floats, width,
                  at_once * kTaps, taps, width);
      }
      for (int64_t i = 0; i < at_once; ++i) {
        for (int64_t v = 0; v < width; v += lanes_f32()) {
          transform_taps(taps + i * kTaps * width + v, width, filters.is_adjoint,
                         panels + ((panel - which.begin) * kWinogradPlanes * k + c + i) * width + v,
                         k * width);
        }
      }
    }
  }
}

// 16 vectors of sums become those of 9 taps.
void fold_taps(const float* sums, int64_t plane, float* taps, int64_t apart) {
  const F32 d;
  V32 half[3 * kSide];
  for (int64_t j = 0; j < kSide; ++j) {
    by_g_transposed(hn::LoadU(d, sums + j * plane), hn::LoadU(d, sums + (kSide + j) * plane),
                    hn::LoadU(d, sums + (2 * kSide + j) * plane),
                    hn::LoadU(d, sums + (3 * kSide + j) * plane), half + j, kSide);
  }
  for (int64_t i = 0; i < 3; ++i) {
    const V32* const line = half + i * kSide;
    V32 out[3];
    by_g_transposed(line[0], line[1], line[2], line[3], out, 1);
    for (int64_t j = 0; j < 3; ++j) hn::StoreU(out[j], d, taps + (i * 3 + j) * apart);
  }
}

void fold_filters(const WinogradSums& s, const IndexRange& which, float* w) {
  const int64_t width = panel_width();
  const int64_t filter_floats = s.k * kTaps;
  const int64_t plane = (s.columns.end - s.columns.begin) * s.k;
  HWY_ALIGN float taps[kAtOnce * kTaps * kMaxWidth];  // (channels at once, 9, W)
  for (int64_t panel = which.begin; panel < which.end; ++panel) {
    for (int64_t c = 0; c < s.k; c += kAtOnce) {
      for (int64_t i = 0; i < kAtOnce; ++i) {
        for (int64_t v = 0; v < width; v += lanes_f32()) {
          fold_taps(s.sums + (panel * s.k + c + i) * width + v, plane, taps + i * kTaps * width + v,
                    width);
        }
      }
      transpose(taps, width, kAtOnce * kTaps, width,
                w + (s.columns.begin + panel * width) * filter_floats + c * kTaps, filter_floats);
    }
  }
}

WinogradLoops loops() { return {transform_filters, multiply, add_products, fold_filters}; }

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace snug {

HWY_EXPORT(loops);
WinogradLoops winograd_loops() { return HWY_DYNAMIC_DISPATCH(loops)(); }

}  // namespace snug
#endif

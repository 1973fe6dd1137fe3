// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/product/blocking.h"

#include <algorithm>
#include <numeric>

#include "base/units.h"

namespace snug {
namespace {

// Measured on caches of 32 KiB, 512 KiB and 32 MiB; others are as large or larger. Floats.
constexpr int64_t kDeep = 384;           // rows of a packed panel: 24 KiB of the first cache
constexpr int64_t kDeepSwapped = 1024;   // tiles are transposed once a block of K
constexpr int64_t kShallow = 256;        // rows of b read where they lie
constexpr int64_t kBlockOfA = 48 << 10;  // of the second cache
constexpr int64_t kPacked = 512 << 10;   // of the last cache
constexpr int64_t kRowsOfABlock = 128;
constexpr int64_t kHeld = 64 << 10;
constexpr int64_t kMostColumns = 2048;
constexpr int64_t kLeastColumns = 64;
constexpr int64_t kWidestVectors = 8;
constexpr int64_t kLine = 16;  // floats
// Packing an element of b takes as long as using it for some ten rows. With no more than these,
// rows of b are read where they lie; where they are multiples of a page apart, and so in one set of
// the first cache, with no more than those.
constexpr int64_t kRowsInPlace = 64;
constexpr int64_t kFewRows = 8;
constexpr int64_t kPageFloats = 1024;
// With so many, b is transposed in registers instead of into panels.
constexpr int64_t kRowsAcross = 4;
// With fewer rows, roles are exchanged, so that the few rows are packed and not all of b.
constexpr int64_t kSwappedRows = 64;
// Rows of a in one place take the first cache's sets in turn, and few pages.
constexpr int64_t kWorthCopying = 128;
// Where b was packed before, so many columns are summed over all of K before the next ones begin:
// dst then stays in the second cache beside the rows of a, and nothing else is in the first.
constexpr int64_t kDeepOfPanels = 512;
constexpr int64_t kColumnsOfPanels = 512;
constexpr double kFlopsWorthAThread = 1 << 16;

// With some number of rows.
bool may_swap(const ProductSpec& p) {
  return !p.transpose_a && p.transpose_b && !p.reads_a && !p.reads_b && !p.holds_tiles &&
         p.panel_columns == 0;
}
bool is_worth_swapping(const ProductSpec& p, const TileShape& tile) {
  const int64_t unused = round_up(p.m, 2 * tile.lanes) - p.m;
  return may_swap(p) && p.n > p.m && p.m > kFewRows && p.m <= kSwappedRows && unused * 5 <= p.m;
}

// Panels and what is read in place are not packed. Rows of pairs have to be.
bool is_in_place(const ProductSpec& p) {
  if (p.panel_columns > 0) return true;
  if (p.has_pairs) return false;
  const int64_t most = p.n % kPageFloats == 0 ? kFewRows : kRowsInPlace;
  return !p.transpose_b && !p.reads_b && p.m <= most;
}

// Vectors of a panel: few rows have wide tiles, but no wider than the columns.
int64_t vectors_for(const ProductSpec& p, int64_t m, const TileShape& tile) {
  if (p.panel_columns > 0 || p.has_pairs) return 2;
  const int64_t most = m > 3 ? 2 : m > 1 ? 4 : kWidestVectors;
  int64_t vectors = 2;
  while (2 * vectors <= most && vectors * tile.lanes < p.n) vectors *= 2;
  return vectors;
}

// Columns of b packed at once. Where one block of rows is all that reads them, they are used while
// they are in the first caches.
int64_t most_columns(const ProductSpec& p) {
  if (p.m > kRowsOfABlock) return kMostColumns;
  return p.transpose_b ? kLeastColumns : 4 * kLeastColumns;
}

bool brings_a(const ProductSpec& p) { return p.transpose_a || p.reads_a || p.n >= kWorthCopying; }

// Whole tiles that the largest part computes, and what every part packs for itself.
ProductGrid choose_grid(const ProductSpec& p, int threads, const TileShape& tile, int64_t width) {
  ProductGrid best;
  if (p.batches >= 8 * threads) return best;
  const int64_t parts = threads / std::gcd<int64_t>(p.batches, threads);
  const double of_b = p.panel_columns > 0 ? 0 : p.reads_b ? 64 : p.transpose_b ? 16 : 8;
  const double of_a = p.reads_a || p.transpose_a ? 16 : 4;
  double least = 0;
  for (int64_t rows = 1; rows <= parts; ++rows) {
    if (parts % rows != 0) continue;
    const auto m = static_cast<double>(std::min(p.m, largest_part(p.m, tile.rows, rows)));
    const auto n = static_cast<double>(std::min(p.n, largest_part(p.n, width, parts / rows)));
    const double work = m * n + of_b * n + of_a * m;
    if (least == 0 || work < least) {
      least = work;
      best = {rows, parts / rows};
    }
  }
  return best;
}

// Scratch of a part. Never less for a product of more rows, columns or a longer sum: the planner
// takes it that shorter rows of a batch fit where the longest do.
void lay_out(const ProductSpec& p, const TileShape& tile, ProductBlocking& b) {
  const int64_t widest = vectors_for(p, 1, tile) * tile.lanes;
  const int64_t deep = p.panel_columns > 0 ? kDeepOfPanels : may_swap(p) ? kDeepSwapped : kDeep;
  const int64_t depth = std::min(round_up(p.k, 8), deep);
  const int64_t packed_depth = p.holds_tiles ? round_up(p.k, 8) : depth;
  const int64_t least = std::max(kLeastColumns, widest);
  const int64_t columns = std::min(round_up(p.n, widest), round_up(most_columns(p), widest));
  int64_t at = packed_depth * std::min(columns, least);
  at = std::max(at, std::min(packed_depth * columns, kPacked));
  if (p.panel_columns > 0) at = 0;
  b.a_at = at = round_up(at, kLine);
  const int64_t rows = round_up(p.m, tile.rows);
  if (brings_a(p)) at += std::min(rows * depth, std::max(kBlockOfA, tile.rows * depth));
  b.rows_at = at = round_up(at, kLine);
  int64_t read = 0;
  if (p.reads_b) read = p.transpose_b ? widest * packed_depth : kMostColumns;
  if (p.reads_a && p.transpose_a) read = std::max(read, rows);
  b.tiles_at = at = round_up(at + read, kLine);
  if (p.holds_tiles) at += std::min(rows * round_up(p.n, widest), kHeld);
  b.part_floats = round_up(at, kLine);
}

}  // namespace

IndexRange part_of(int64_t n, int64_t grain, int64_t index, int64_t count) {
  const int64_t grains = (n + grain - 1) / grain;
  return {std::min(n, grains * index / count * grain),
          std::min(n, grains * (index + 1) / count * grain)};
}

int64_t largest_part(int64_t n, int64_t grain, int64_t count) {
  return ((n + grain - 1) / grain + count - 1) / count * grain;
}

int64_t cut_evenly(int64_t n, int64_t most, int64_t grain) {
  const int64_t pieces = std::max<int64_t>((n + most - 1) / most, 1);
  return std::max(round_up((n + pieces - 1) / pieces, grain), grain);
}

ProductSpec swapped(const ProductSpec& spec) {
  ProductSpec other = spec;
  std::swap(other.m, other.n);
  other.transpose_a = !spec.transpose_b;
  other.transpose_b = !spec.transpose_a;
  std::swap(other.reads_a, other.reads_b);
  return other;
}

int threads_worth(const ProductSpec& p, int threads) {
  const double flops = 2.0 * static_cast<double>(p.batches * p.m) * static_cast<double>(p.n) *
                       static_cast<double>(p.k);
  return std::clamp(static_cast<int>(std::min(flops / kFlopsWorthAThread, 1e6)), 1, threads);
}

ProductBlocking choose_blocking(const ProductSpec& given, int threads, const TileShape& tile) {
  ProductBlocking b;
  b.is_swapped = is_worth_swapping(given, tile);
  const ProductSpec p = b.is_swapped ? swapped(given) : given;
  const bool has_panels = p.panel_columns > 0;
  b.is_across = !has_panels && !p.transpose_a && p.transpose_b && !p.reads_b && p.m <= kRowsAcross;
  b.vectors = b.is_across ? 2 : vectors_for(p, b.is_swapped ? kSwappedRows : p.m, tile);
  const int64_t width = b.vectors * tile.lanes;
  b.grid = choose_grid(p, threads, tile, width);
  const int64_t part_m = largest_part(p.m, tile.rows, b.grid.row_parts);
  const int64_t part_n = largest_part(p.n, width, b.grid.column_parts);
  b.packs_b = !b.is_across && !is_in_place(p);
  b.copies_a = !b.is_swapped && brings_a(p) && !p.transpose_a;
  int64_t deep = b.packs_b || b.is_across ? kDeep : kShallow;
  if (b.is_swapped) deep = kDeepSwapped;
  if (has_panels) deep = kDeepOfPanels;
  b.k_block = cut_evenly(p.k, deep, 8);
  b.packed_k = p.holds_tiles ? round_up(p.k, 8) : b.k_block;
  b.n_block = cut_evenly(
      part_n,
      std::clamp(kPacked / std::max<int64_t>(b.packed_k, 1) / width * width,
                 std::max(kLeastColumns, width), std::max(most_columns(p) / width * width, width)),
      width);
  if (has_panels)
    b.n_block = cut_evenly(std::min(part_n, round_up(p.n, width)), kColumnsOfPanels, width);
  int64_t most_rows = std::max(kBlockOfA / b.k_block, tile.rows);
  if (p.holds_tiles) most_rows = std::min(most_rows, std::max(kHeld / b.n_block, tile.rows));
  most_rows = most_rows / tile.rows * tile.rows;
  b.m_block = cut_evenly(part_m, most_rows, tile.rows);
  lay_out(given, tile, b);  // exchanged roles pack fewer columns
  return b;
}

}  // namespace snug

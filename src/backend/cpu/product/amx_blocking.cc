// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/product/amx_blocking.h"

#include <algorithm>

#include "backend/cpu/product/amx_kernels.h"
#include "base/units.h"

namespace snug {
namespace {

// Measured on a second cache of 2 MiB a core and a last one that is shared. Bytes.
constexpr int64_t kColumnsBytes = 8 << 20;        // of packed b
constexpr int64_t kColumnsAcrossBytes = 4 << 20;  // where K may be as long as a batch has tokens
constexpr int64_t kRowsBytes = 832 << 10;         // of packed a, and of sums
// So that blocks of a have rows enough for b to be read seldom.
constexpr int64_t kLongestSlice = 8192;
constexpr int64_t kLongestSliceAcross = 2048;
constexpr double kFlopsWorthAThread = 4 << 20;
constexpr int64_t kBf16 = 2;
constexpr int64_t kRowOfSumsBytes = kAmxPanelRows * 4;

int64_t whole_panels(int64_t n) { return round_up(n, kAmxPanelRows); }
int64_t panels_within(int64_t limit, int64_t row_bytes) {
  return std::max(limit / row_bytes / kAmxPanelRows * kAmxPanelRows, kAmxPanelRows);
}

int threads_worth(const AmxProductSpec& p, int threads) {
  const double flops =
      2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
  return std::clamp(static_cast<int>(std::min(flops / kFlopsWorthAThread, 1e6)), 1, threads);
}

// Sums that the largest part computes, and the rows that it packs: an element takes as long as some
// 32 sums take for it.
ProductGrid choose_grid(int64_t m, int64_t n, int parts) {
  ProductGrid best;
  double least = 0;
  for (int64_t rows = 1; rows <= parts; ++rows) {
    if (parts % rows != 0) continue;
    const auto part_m = static_cast<double>(largest_part(m, kAmxPanelRows, rows));
    const auto part_n = static_cast<double>(largest_part(n, kAmxPanelRows, parts / rows));
    const double work = part_m * (part_n + 32);
    if (least == 0 || work < least) {
      least = work;
      best = {rows, parts / rows};
    }
  }
  return best;
}

// Scratch never shrinks with more rows, columns or a longer sum, the slices of which may be
// shorter: the planner takes it that shorter rows of a batch fit where the longest do.
void lay_out(const AmxProductSpec& p, int64_t columns_bytes, int64_t longest, AmxBlocking& b) {
  const int64_t column_bytes = std::min(round_up(p.k, kAmxStep), longest) * kBf16;
  const int64_t row_bytes = column_bytes + kRowOfSumsBytes;
  b.shared_bytes = std::min(whole_panels(p.n) * column_bytes,
                            std::max(columns_bytes, kAmxPanelRows * column_bytes));
  b.sums_at = b.m_block * b.k_slice * kBf16;
  b.part_bytes =
      std::min(whole_panels(p.m) * row_bytes, std::max(kRowsBytes, kAmxPanelRows * row_bytes));
}

}  // namespace

int64_t longest_amx_slice(bool transpose_a) {
  return transpose_a ? kLongestSliceAcross : kLongestSlice;
}

AmxBlocking choose_amx_blocking(const AmxProductSpec& p, int threads) {
  AmxBlocking b;
  const int64_t columns_bytes = p.transpose_a ? kColumnsAcrossBytes : kColumnsBytes;
  const int64_t longest = longest_amx_slice(p.transpose_a);
  b.k_slice = cut_evenly(p.k, longest, kAmxStep);
  b.n_block = cut_evenly(p.n, panels_within(columns_bytes, b.k_slice * kBf16), kAmxPanelRows);
  b.grid = choose_grid(p.m, b.n_block, threads_worth(p, threads));
  const int64_t part_m = largest_part(p.m, kAmxPanelRows, b.grid.row_parts);
  b.m_block = cut_evenly(part_m, panels_within(kRowsBytes, b.k_slice * kBf16 + kRowOfSumsBytes),
                         kAmxPanelRows);
  lay_out(p, columns_bytes, longest, b);
  return b;
}

}  // namespace snug

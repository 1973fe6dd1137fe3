// SPDX-License-Identifier: Apache-2.0
#include "backend/cpu/product/amx_blocking.h"

#include <algorithm>

#include "backend/cpu/product/amx_kernels.h"
#include "base/units.h"

namespace snug {
namespace {

// Measured on a second cache of 2 MiB a core and a last one that is shared. Bytes.
constexpr int64_t kSharedBytes = 8 << 20;        // of packed b
constexpr int64_t kSharedAcrossBytes = 2 << 20;  // where a lies across K
constexpr int64_t kRowsBytes = 832 << 10;        // of packed a over the whole of K, and their sums
constexpr int64_t kSumsBytes = 1280 << 10;       // that stay while K goes by
constexpr int64_t kSlicesBytes = 512 << 10;      // of both operands for them
constexpr int64_t kMostRows = 1024;              // of one side of such sums
// So that blocks of a have rows enough for b to be read seldom. Where a lies across K, it is packed
// once for each n_block, and K may be as long as a batch has tokens.
constexpr int64_t kLongestSharedK = 8192;
constexpr int64_t kLongestAcrossK = 1024;
constexpr double kFlopsWorthAThread = 4 << 20;
constexpr int64_t kBf16 = 2;
constexpr int64_t kF32 = 4;

int64_t whole_panels(int64_t n) { return round_up(n, kAmxPanelRows); }
int64_t whole_steps(int64_t k) { return round_up(k, kAmxStep); }
int64_t panels_within(int64_t limit, int64_t row_bytes) {
  return std::max(limit / row_bytes / kAmxPanelRows * kAmxPanelRows, kAmxPanelRows);
}

int threads_worth(const AmxProductSpec& p, int threads) {
  const double flops =
      2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
  return std::clamp(static_cast<int>(std::min(flops / kFlopsWorthAThread, 1e6)), 1, threads);
}

// Sums that the largest part computes, and what it packs: an element takes as long as some 32 sums
// take for it.
ProductGrid choose_grid(int64_t m, int64_t n, bool packs_b, int parts) {
  ProductGrid best;
  double least = 0;
  for (int64_t rows = 1; rows <= parts; ++rows) {
    if (parts % rows != 0) continue;
    const auto part_m = static_cast<double>(largest_part(m, kAmxPanelRows, rows));
    const auto part_n = static_cast<double>(largest_part(n, kAmxPanelRows, parts / rows));
    const double work = part_m * part_n + 32 * (part_m + (packs_b ? part_n : 0));
    if (least == 0 || work < least) {
      least = work;
      best = {rows, parts / rows};
    }
  }
  return best;
}

// Every cut of m, with the widest n beside it; the one for which least is packed.
void choose_sums(int64_t part_m, int64_t part_n, AmxBlocking& b) {
  double least = 0;
  for (int64_t pieces = 1;; ++pieces) {
    const int64_t m_block = cut_evenly(part_m, (part_m + pieces - 1) / pieces, kAmxPanelRows);
    const int64_t most_n = std::min(panels_within(kSumsBytes, m_block * kF32), kMostRows);
    const int64_t n_block = cut_evenly(part_n, most_n, kAmxPanelRows);
    const auto times = [](int64_t n, int64_t block) {
      return static_cast<double>((n + block - 1) / block);
    };
    const double packed = static_cast<double>(part_m) * times(part_n, n_block) +
                          static_cast<double>(part_n) * times(part_m, m_block);
    if (m_block <= kMostRows && (least == 0 || packed < least)) {
      least = packed;
      b.m_block = m_block;
      b.n_block = n_block;
    }
    if (m_block == kAmxPanelRows) return;
  }
}

// Scratch never shrinks with more rows, columns or a longer sum: the planner takes it that shorter
// rows of a batch fit where the longest do.
void share_b(const AmxProductSpec& p, int threads, AmxBlocking& b) {
  const int64_t k = whole_steps(p.k);
  const int64_t column_bytes = k * kBf16;
  const int64_t most_bytes = p.transpose_a ? kSharedAcrossBytes : kSharedBytes;
  b.k_slice = k;
  b.n_block = cut_evenly(p.n, panels_within(most_bytes, column_bytes), kAmxPanelRows);
  b.grid = choose_grid(p.m, b.n_block, false, threads);
  const int64_t row_bytes = column_bytes + kAmxPanelRows * kF32;
  const int64_t part_m = largest_part(p.m, kAmxPanelRows, b.grid.row_parts);
  b.m_block = cut_evenly(part_m, panels_within(kRowsBytes, row_bytes), kAmxPanelRows);
  b.shared_bytes = std::min(whole_panels(p.n) * column_bytes,
                            std::max(most_bytes, kAmxPanelRows * column_bytes));
  b.sums_at = b.m_block * column_bytes;
  b.part_bytes =
      std::min(whole_panels(p.m) * row_bytes, std::max(kRowsBytes, kAmxPanelRows * row_bytes));
  b.scratch_bytes = b.shared_bytes + threads * b.part_bytes;
}

void hold_sums(const AmxProductSpec& p, int threads, AmxBlocking& b) {
  b.shares_b = false;
  b.grid = choose_grid(p.m, p.n, true, threads);
  choose_sums(largest_part(p.m, kAmxPanelRows, b.grid.row_parts),
              largest_part(p.n, kAmxPanelRows, b.grid.column_parts), b);
  const int64_t most_k = std::min(kSlicesBytes / ((b.m_block + b.n_block) * kBf16), kAmxDepth);
  b.k_slice = cut_evenly(p.k, most_k / kAmxStep * kAmxStep, kAmxStep);
  b.b_at = b.m_block * b.k_slice * kBf16;
  const int64_t m = whole_panels(p.m);
  const int64_t n = whole_panels(p.n);
  b.sums_at = std::min((std::min(m, kMostRows) + std::min(n, kMostRows)) *
                           std::min(whole_steps(p.k), kAmxDepth) * kBf16,
                       kSlicesBytes);
  b.part_bytes = b.sums_at + std::min(m * n * kF32, kSumsBytes);
  b.scratch_bytes = threads * b.part_bytes;
}

}  // namespace

AmxBlocking choose_amx_blocking(const AmxProductSpec& p, int threads) {
  AmxBlocking b;
  const int parts = threads_worth(p, threads);
  const int64_t longest = p.transpose_a ? kLongestAcrossK : kLongestSharedK;
  if (p.k <= longest) {
    share_b(p, parts, b);
    return b;
  }
  hold_sums(p, parts, b);
  AmxProductSpec shorter = p;
  shorter.k = longest;
  AmxBlocking other;
  share_b(shorter, parts, other);
  b.scratch_bytes = std::max(b.scratch_bytes, other.scratch_bytes);
  return b;
}

}  // namespace snug

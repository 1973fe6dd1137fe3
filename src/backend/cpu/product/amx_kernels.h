// SPDX-License-Identifier: Apache-2.0
// The innermost loops of products of bf16 on tiles (AMX). What they read is packed: a panel has 32
// rows of an operand (of a, or of b^T) over a range of K, which is whole steps of 32. Of each step
// it has two tiles of 16 rows, 1 KiB each, as TDPBF16PS reads them: of a rows of 32 elements, of b
// pairs of K, 16 columns each. Sums are tiles, too: 32 x 32 of them are four of f32, those of the
// upper rows first.
#pragma once

#include <cstddef>
#include <cstdint>

#include "snug/types.h"

namespace snug {

inline constexpr int64_t kAmxPanelRows = 32;
inline constexpr int64_t kAmxStep = 32;  // of K
inline constexpr int64_t kAmxStepBytes = 2048;
inline constexpr int64_t kAmxSums = kAmxPanelRows * kAmxPanelRows;  // of a panel of a and one of b

/// Part of an operand: `rows` of them over `depth` elements of K.
struct AmxBlock {
  const uint16_t* data = nullptr;
  int64_t stride = 0;      // between stored rows
  bool is_along_k = true;  // a stored row lies along K, else across it
  int64_t rows = 0;
  int64_t depth = 0;
};

/// Whole panels of the block, panel_bytes apart; zero beyond it.
using PackAmxPanels = void (*)(const AmxBlock& block, std::byte* panels, int64_t panel_bytes);

/// 32 x 32 sums and their place in dst, of which `rows` rows and `columns` columns exist.
struct AmxTile {
  float* sums = nullptr;
  std::byte* dst = nullptr;
  int64_t stride_bytes = 0;  // of dst
  int64_t rows = 0;
  int64_t columns = 0;
  const float* bias = nullptr;  // added to each row, if any
};
using VisitAmxTile = void (*)(const AmxTile& tile);

/// sums (+)= a b^T: `count` panels of a, a_bytes apart, with one panel of b.
struct AmxMultiply {
  const std::byte* a = nullptr;
  int64_t a_bytes = 0;
  int64_t count = 0;
  const std::byte* b = nullptr;
  int64_t steps = 0;  // at least one
  float* sums = nullptr;
  bool loads = false;    // sums begin with what is there, else with zero
  bool fetches = false;  // what lies behind b is next: brings as much of it nearer
  /// What is done with sums that are complete, if they are: of a first tile with all rows.
  VisitAmxTile finish = nullptr;
  AmxTile first = {};
};
using MultiplyAmxPanels = void (*)(const AmxMultiply& args);

struct AmxKernels {
  PackAmxPanels pack_a;
  PackAmxPanels pack_b;
  MultiplyAmxPanels multiply;  // needs a TileConfig
};
struct AmxStores {
  VisitAmxTile begin;   // sums = dst
  VisitAmxTile finish;  // dst = sums + bias
};

/// Only where has_amx().
[[nodiscard]] AmxKernels amx_kernels();
[[nodiscard]] AmxStores amx_stores(DType stored);

}  // namespace snug

// SPDX-License-Identifier: Apache-2.0
// An operand b that is packed once for many products: panels (ceil(N / columns), K, columns), each
// contiguous over the whole of K, so that any block of K is a part of it; zero beyond N. The same
// bits multiply, so a product of panels has those of one of rows.
#pragma once

#include <cstdint>
#include <string>

#include "backend/cpu/product/spec.h"

namespace snug {

/// With so many rows at most, products of f32 are our own on every processor.
inline constexpr int64_t kFewProductRows = 64;
/// Packing takes as long as using b for some ten rows, and of 256 rows a product gains no more than
/// a fortieth.
inline constexpr int64_t kMostPackedRows = 128;

/// What a tile of this instruction set is wide.
[[nodiscard]] int64_t panel_columns();
/// Why panels of so many columns cannot be made or read here; empty where they can.
[[nodiscard]] std::string reason_against_panels(int64_t columns);
[[nodiscard]] int64_t panel_count(int64_t n, int64_t columns);

/// b in f32.
void pack_panels(const PanelShape& shape, int threads, const float* b, float* panels) noexcept;

}  // namespace snug

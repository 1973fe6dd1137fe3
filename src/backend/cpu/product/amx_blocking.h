// SPDX-License-Identifier: Apache-2.0
// How a product on tiles is cut: pure functions of its shape and the threads. No choice changes a
// bit of the result (amx_product.h); scratch follows from it to the byte.
#pragma once

#include <cstdint>

#include "backend/cpu/product/blocking.h"
#include "snug/types.h"

namespace snug {

/// One product of operands in bf16. M rows of dst, N columns of dst, K the summed dimension. If
/// K is longer than longest_amx_slice(), dst is f32.
struct AmxProductSpec {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  bool transpose_a = false;   // a is (K, M), else (M, K)
  bool transpose_b = false;   // b is (N, K), else (K, N)
  bool accumulates = false;   // sums begin with what dst holds
  DType stored = DType::f32;  // dst: f32 or bf16
};

/// A slice of K after another: columns of b are packed for all threads, n_block of them at a time,
/// then each thread packs blocks of rows of a for itself and multiplies them with those.
struct AmxBlocking {
  ProductGrid grid;     // a thread's part of n_block columns of dst
  int64_t m_block = 0;  // whole panels
  int64_t n_block = 0;  // likewise
  int64_t k_slice = 0;  // whole steps
  // Scratch in bytes: packed b, then a part of each thread, packed a and sums.
  int64_t shared_bytes = 0;
  int64_t sums_at = 0;
  int64_t part_bytes = 0;
};

/// K of a panel that stays in the first cache while it is multiplied with one panel after another.
inline constexpr int64_t kAmxDepth = 384;

/// How much of K is summed before dst is written. A longer K takes several times as long to dst,
/// which holds the sums meanwhile: it has to be f32.
[[nodiscard]] int64_t longest_amx_slice(bool transpose_a);

[[nodiscard]] AmxBlocking choose_amx_blocking(const AmxProductSpec& spec, int threads);

}  // namespace snug

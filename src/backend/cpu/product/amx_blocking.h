// SPDX-License-Identifier: Apache-2.0
// How a product on tiles is cut: pure functions of its shape and the threads. No choice changes a
// bit of the result (amx_product.h); scratch follows from it to the byte.
#pragma once

#include <cstdint>

#include "backend/cpu/product/blocking.h"
#include "snug/types.h"

namespace snug {

/// One product of operands in bf16. M rows of dst, N columns of dst, K the summed dimension. None
/// of them is zero where it is to compute anything.
struct AmxProductSpec {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  bool transpose_a = false;   // a is (K, M), else (M, K)
  bool transpose_b = false;   // b is (N, K), else (K, N)
  bool accumulates = false;   // sums begin with what dst holds
  DType stored = DType::f32;  // dst: f32 or bf16
};

/// Two ways. With b shared, its columns are packed once for all threads, n_block of them at a time,
/// and every block of rows of a over the whole of K: nothing is packed twice as long as n_block is
/// all of N. Where K is long, a block of sums stays in the second cache while K goes by, and each
/// thread packs both operands for it, a slice of K at a time: the scratch does not grow with K.
struct AmxBlocking {
  bool shares_b = true;
  ProductGrid grid;     // a thread's part of dst, or of n_block columns of it
  int64_t m_block = 0;  // all whole panels
  int64_t n_block = 0;
  int64_t k_slice = 0;  // whole steps; of shared b the whole of K
  // Scratch in bytes: shared b, then a part of each thread: packed a, packed b, sums.
  int64_t shared_bytes = 0;
  int64_t b_at = 0;
  int64_t sums_at = 0;
  int64_t part_bytes = 0;
  int64_t scratch_bytes = 0;  // all of it, and no less than with a shorter K
};

/// K of a panel that stays in the first cache while it is multiplied with one panel after another.
inline constexpr int64_t kAmxDepth = 384;

[[nodiscard]] AmxBlocking choose_amx_blocking(const AmxProductSpec& spec, int threads);

}  // namespace snug

// SPDX-License-Identifier: Apache-2.0
// Rows in bf16 of one head that attention's gradient reads and writes, whatever multiplies. Empty
// where Highway's target is not AVX-512.

// Include guard a target (Highway's convention), not #pragma once.
#if defined(SNUG_OPS_ATTENTION_BF16_GRAD_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SNUG_OPS_ATTENTION_BF16_GRAD_ROWS_INL_H_
#undef SNUG_OPS_ATTENTION_BF16_GRAD_ROWS_INL_H_
#else
#define SNUG_OPS_ATTENTION_BF16_GRAD_ROWS_INL_H_
#endif

#include <algorithm>

#include "backend/cpu/rows-inl.h"
#include "hwy/highway.h"
#include "ops/attention/attention_bf16_gemm-inl.h"
#include "ops/attention/attention_bf16_launch_cpu.h"

#if SNUG_BF16_TARGET
HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

/// The head whose first element is at `base`.
struct Bf16HeadRows {
  const AttentionShape& shape;
  int64_t base;

  [[nodiscard]] int64_t at(int64_t token) const { return base + token * shape.stride(); }
};

/// delta[i] = sum of dO * O over row i.
HWY_INLINE void put_bf16_deltas(const Bf16HeadRows& head, const Bf16AttentionData& data,
                                float* delta) {
  for (int64_t i = 0; i < head.shape.tokens; ++i) {
    const auto* o = reinterpret_cast<const Bf16*>(data.o + head.at(i));
    const auto* diff_o = reinterpret_cast<const Bf16*>(data.diff_o + head.at(i));
    delta[i] = sum_vectors(head.shape.columns, [&](int64_t at, int64_t count) HWY_ATTR {
      return hn::Mul(load_at(diff_o, at, count), load_at(o, at, count));
    });
  }
}

/// Padded rows of D columns to `rows` rows of the head from `first` on, times `scale` and rounded.
SNUG_BF16_ATTR HWY_INLINE void put_bf16_rows(const Bf16HeadRows& head, const float* src,
                                             int64_t stride, float scale, int64_t first,
                                             int64_t rows, uint16_t* dst) {
  for (int64_t i = 0; i < rows; ++i)
    put_bf16_row(src + i * stride, constant(scale), head.shape.columns, dst + head.at(first + i));
}

HWY_INLINE void zero_bf16_rows(const Bf16HeadRows& head, uint16_t* dst, int64_t begin,
                               int64_t end) {
  for (int64_t row = begin; row < end; ++row)
    std::fill_n(dst + head.at(row), head.shape.columns, uint16_t{0});
}

/// Asks for rows that results are written to.
HWY_INLINE void prefetch_bf16_results(const Bf16HeadRows& head, const Bf16AttentionData& data,
                                      int64_t row) {
  for (const uint16_t* result : {data.diff_q, data.diff_k, data.diff_v})
    prefetch_bf16_row(result + head.at(row), head.shape.columns);
}
/// Asks for what a row of the next head reads; `next` is the head's offset.
HWY_INLINE void prefetch_bf16_grad(const AttentionShape& shape, const Bf16AttentionData& data,
                                   int64_t next, int64_t row) {
  for (const uint16_t* operand : {data.q, data.k, data.v, data.o, data.diff_o})
    prefetch_bf16_row(operand + next + row * shape.stride(), shape.columns);
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();
#endif  // SNUG_BF16_TARGET

#endif

// SPDX-License-Identifier: Apache-2.0
// Multi-head attention without a stored T x T matrix. B samples, T tokens, E = heads * D columns;
// head h owns the columns [h D, (h + 1) D).
//
// attention(q, k, v (B, T, E), mask? bool(B, T), rng? i64[3]) {heads, rate=0, ordinal=0, window=0}
// -> o (B, T, E), lse (B, heads, T)
//   For each sample and head: S = q k^T / sqrt(D), p = softmax(S) over the keys whose mask is true
//   (all without a mask), o = dropout(p) v, lse = log(sum(exp(S))) over the same keys. Where every
//   key is masked, o = 0 and lse = 0. A window w > 0 also hides keys further than w tokens from
//   the query (sliding-window attention: Beltagy et al. 2020, section 3.1), at the cost of the
//   keys that are seen. Dropout draws for (query, key) of head h in sample b the word
//     philox4x32({query * 16384 + key / 4, first_slot + b, update, ordinal | h << 20}, seed)[key %
//     4]
//   and keeps p, times 1 / (1 - rate), iff word >= floor(rate 2^32). rng = {seed, update,
//   first_slot}, as in dropout.h.
// attention_grad(q, k, v, o, lse, do, mask?, rng?) {the same} -> dq, dk, dv, with p = exp(S - lse)
// recomputed tile by tile:
//   dp = dropout'(do v^T), delta = sum over D of do * o, dS = p * (dp - delta),
//   dq = dS k / sqrt(D), dk = dS^T q / sqrt(D), dv = dropout(p)^T do. Not differentiable.
// The gradient keeps q, k, v, mask, rng, o and lse; lse itself has none. T is at most 65536, heads
// at most 4095.
#pragma once

#include "graph/builder.h"
#include "ops/dropout/dropout.h"

namespace snug {

struct AttentionOptions {
  int64_t heads = 1;
  ValueId mask = kNone;
  ValueId rng = kNone;  // with a rate above 0
  double rate = 0;      // above 0: takes the builder's next random ordinal
  int64_t window = 0;   // tokens to either side that a query sees; 0: all
};
/// The attribute `window`; 0 where an op that shares these loops has none.
[[nodiscard]] inline int64_t attention_window(const Attrs& attrs) {
  return attrs.has("window") ? attrs.int64("window") : 0;
}
struct AttentionOutputs {
  ValueId o = kNone;
  ValueId lse = kNone;
};
[[nodiscard]] AttentionOutputs attention(GraphBuilder& builder, ValueId q, ValueId k, ValueId v,
                                         const AttentionOptions& options);

/// First counter word of keys 4 * (key / 4) ...: rows of keys have a fixed stride, whatever the
/// padded length.
[[nodiscard]] constexpr int64_t attention_quad(int64_t query, int64_t key) {
  return query * 16384 + key / 4;
}
/// Fourth counter word of one head.
[[nodiscard]] constexpr int64_t attention_ordinal(int64_t ordinal, int64_t head) {
  return ordinal | head << 20;
}

}  // namespace snug

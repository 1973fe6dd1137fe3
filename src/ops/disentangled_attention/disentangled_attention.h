// SPDX-License-Identifier: Apache-2.0
// Attention of DeBERTa v2 and v3: beside what tokens say, scores count how far apart they stand.
// No T x T matrix is stored. Legend: B samples, T tokens, E = heads * D columns, as in attention.h.
//
// disentangled_attention(q, k, v (B, T, E), pos_key? (2 span, E), pos_query? (2 span, E),
//     mask? bool(B, T), rng? i64[3]) {heads, rate=0, ordinal=0, buckets=0, max_distance=0}
//     -> o (B, T, E), lse (B, heads, T)
//   For each sample and head, with r = row(i - j):
//     S(i, j) = (q_i . k_j + q_i . pos_key_r + k_j . pos_query_r) / sqrt(D * (1 + tables given)),
//     p = softmax(S), o = dropout(p) v, lse = log(sum(exp(S))).
//   pos_key is content to position (c2p), pos_query is position to content (p2c); without a table
//   its term is left out. Tables are weights' alone: the same for every sample. (transformers
//   takes the divisor's root in float32, also where it computes in float64.)
//   row(d) = clamp(bucket(d) + span, 0, 2 span - 1). bucket(d) = d where buckets is 0, or
//   |d| <= m = buckets / 2; further away it is, with the sign of d,
//     m + ceil(log(|d| / m) / log((max_distance - 1) / m) * (m - 1)),
//   in float32, operation by operation, as transformers computes it.
//   The mask hides keys, and queries too: o = 0 and lse = 0 of a query that is masked or sees no
//   key. (transformers gives a masked query the mean of all values. Nothing that is not masked
//   reads it, nor should: it depends on how far rows are padded.)
//   Dropout draws what attention draws, for the same (query, key), head, sample and update.
// disentangled_attention_grad(q, k, v, o, lse, do, pos_key?, pos_query?, mask?, rng?) {the same}
//     -> dq, dk, dv, dpos_key, dpos_query
//   With attention_grad's dS = p * (dp - delta), and s the divisor's reciprocal:
//     dq_i = s sum_j dS(i, j) (k_j + pos_key_r), dk_j = s sum_i dS(i, j) (q_i + pos_query_r),
//     dpos_key_r = s sum over samples and pairs of row r of dS(i, j) q_i, dpos_query_r the same of
//     k_j.
//   The gradients of tables are sums over samples, in f32 however the tables are stored; that of a
//   table that is not given has no rows. Not differentiable.
// The gradient keeps all inputs, o and lse; lse itself has none. T is at most 65536, heads at most
// 4095.
#pragma once

#include "graph/builder.h"

namespace snug {

/// How far apart two tokens stand, as the row of a table of 2 span.
struct RelativeRows {
  int64_t buckets = 0;       // 0: every distance by itself
  int64_t max_distance = 0;  // of the furthest bucket; read where buckets is above 0
  int64_t span = 1;

  /// The row for a distance, query - key.
  [[nodiscard]] int64_t row(int64_t distance) const;
};

struct DisentangledAttentionOptions {
  int64_t heads = 1;
  ValueId pos_key = kNone;
  ValueId pos_query = kNone;
  int64_t buckets = 0;
  int64_t max_distance = 0;
  ValueId mask = kNone;
  ValueId rng = kNone;  // with a rate above 0
  double rate = 0;      // above 0: takes the builder's next random ordinal
};
/// Returns o.
[[nodiscard]] ValueId disentangled_attention(GraphBuilder& builder, ValueId q, ValueId k, ValueId v,
                                             const DisentangledAttentionOptions& options);

}  // namespace snug

// SPDX-License-Identifier: Apache-2.0
// Losses as sums over rows times one factor, so that a global batch split into micro-batches adds
// up exactly: inv_total is 1 / (weight of the whole global batch), known before the first backward.
// N rows, C classes.
//
// softmax_cross_entropy(logits (N, C), labels i32(N), row_weights (N), inv_total []) {ignore_index,
// label_smoothing, focal_gamma}
//   -> loss [], lse (N)
//   loss = inv_total * sum over rows of w * ((1 - s) * (lse - z[label]) + s / C * sum over c of
//   (lse - z[c])), lse = log(sum(exp(z))). Rows whose label is ignore_index give 0. Any other label
//   outside [0, C) is Error{bad_data} when the op runs.
// softmax_cross_entropy_grad(logits, labels, row_weights, inv_total, lse, dloss []) {the same} ->
// dlogits:
//   dloss * inv_total * w * (softmax(z) - (1 - s) * [c = label] - s / C). At the label, softmax - 1
//   is taken as minus the sum of the other probabilities, which does not cancel for a confident
//   row.
//   focal_gamma g > 0 (label_smoothing is 0 then): a row's loss l is (1 - p)^g l with p = exp(-l),
//   the probability of the label (Lin et al. 2017); its slope by l, (1 - p)^g (1 + g p l / (1 -
//   p)), multiplies the gradient.
// mean_squared_error(pred (N, ...), target, row_weights (N), inv_total []) -> loss []
//   loss = inv_total * sum over rows of w * mean over the row of (pred - target)^2.
// mean_squared_error_grad(pred, target, row_weights, inv_total, dloss []) -> dpred:
//   2 * dloss * inv_total * w * (pred - target) / (elements of a row). The target's gradient is its
//   negative.
// smooth_l1(pred, target, row_weights, inv_total) -> loss []
//   as mean_squared_error with e^2 / 2 where |e| < 1, else |e| - 1/2, of e = pred - target.
// smooth_l1_grad(pred, target, row_weights, inv_total, dloss []) -> dpred:
//   dloss * inv_total * w * min(max(e, -1), 1) / (elements of a row). The target's gradient is its
//   negative.
// binary_cross_entropy(pred (N, ...), target, row_weights (N), inv_total []) -> loss []
//   pred are logits z: inv_total * sum over rows of w * mean over the row of max(z, 0) - z * target
//   + log(1 + exp(-|z|)). {focal_gamma}: an element's loss times (1 - p)^g, where 1 - p = s (1 - t)
//   + (1 - s) t for s = sigmoid(z) and the target t.
// binary_cross_entropy_grad(pred, target, row_weights, inv_total, dloss []) -> dpred:
//   dloss * inv_total * w * (sigmoid(z) - target) / (elements of a row). The target has none.
// Gradients keep the inputs and lse. labels, row_weights, inv_total and lse have none. Rows of
// weight 0 do not count, whatever finite values they hold.
#pragma once

#include "graph/builder.h"

namespace snug {

inline constexpr int64_t kIgnoreIndex = -100;

struct CrossEntropyOptions {
  int64_t ignore_index = kIgnoreIndex;
  double label_smoothing = 0;
  double focal_gamma = 0;
};
struct CrossEntropyOutputs {
  ValueId loss = kNone;
  ValueId lse = kNone;
};
[[nodiscard]] CrossEntropyOutputs softmax_cross_entropy(GraphBuilder& builder, ValueId logits,
                                                        ValueId labels, ValueId row_weights,
                                                        ValueId inv_total,
                                                        CrossEntropyOptions options = {});
[[nodiscard]] ValueId mean_squared_error(GraphBuilder& builder, ValueId pred, ValueId target,
                                         ValueId row_weights, ValueId inv_total);
[[nodiscard]] ValueId smooth_l1(GraphBuilder& builder, ValueId pred, ValueId target,
                                ValueId row_weights, ValueId inv_total);
[[nodiscard]] ValueId binary_cross_entropy(GraphBuilder& builder, ValueId logits, ValueId target,
                                           ValueId row_weights, ValueId inv_total,
                                           double focal_gamma = 0);

}  // namespace snug

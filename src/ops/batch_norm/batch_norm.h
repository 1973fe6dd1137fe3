// SPDX-License-Identifier: Apache-2.0
// Batch normalisation: every channel over all other axes. C is the length of the last axis, R the
// number of rows (N H W of images).
//
// batch_norm(x (..., C), gamma (C), beta (C)) {eps=1e-5} -> y, mean (C), variance (C)
//   mean = sum(x) / R, variance = sum((x - mean)^2) / R, rstd = 1 / sqrt(variance + eps),
//   y = (x - mean) * rstd * gamma + beta.
//   The gradient keeps x, gamma, mean and variance; mean and variance themselves have none.
// batch_norm_grad(x, gamma, mean, variance, dy) {eps} -> dx, dgamma, dbeta, with n = (x - mean) *
// rstd:
//   dgamma = sum of dy * n, dbeta = sum of dy, dx = gamma * rstd * (dy - dbeta / R - n * dgamma /
//   R). Not differentiable.
// batch_norm_inference(x, gamma, beta, mean, variance) {eps} -> y: the same y for given statistics.
//   Not differentiable.
// running_statistics(running_mean, running_variance, mean, variance) {momentum, rows}
//   -> running_mean, running_variance, over both: r += momentum * (s - r), where s is the mean or
//   the unbiased variance, variance * rows / (rows - 1), as in PyTorch. It writes resident values,
//   so it runs once, however often batch_norm is recomputed. Not differentiable.
#pragma once

#include "graph/builder.h"

namespace snug {

struct BatchNormOutputs {
  ValueId y = kNone;
  ValueId mean = kNone;
  ValueId variance = kNone;
};
[[nodiscard]] BatchNormOutputs batch_norm(GraphBuilder& builder, ValueId x, ValueId gamma,
                                          ValueId beta, double eps = 1e-5);

struct ChannelStatistics {
  ValueId mean = kNone;
  ValueId variance = kNone;
};
[[nodiscard]] ValueId batch_norm_inference(GraphBuilder& builder, ValueId x, ValueId gamma,
                                           ValueId beta, ChannelStatistics statistics,
                                           double eps = 1e-5);
/// `rows`: how many rows the batch's statistics are of.
void update_running_statistics(GraphBuilder& builder, ChannelStatistics running,
                               ChannelStatistics batch, double momentum, int64_t rows);

}  // namespace snug

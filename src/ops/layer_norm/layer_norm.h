// SPDX-License-Identifier: Apache-2.0
// Layer normalisation over the last axis. H is its length; rows are all other axes.
//
// layer_norm(x (..., H), gamma (H), beta (H)) {eps=1e-12} -> y, mean (...), rstd (...)
//   mean = sum(x) / H, rstd = 1 / sqrt(sum((x - mean)^2) / H + eps), y = (x - mean) * rstd * gamma
//   + beta. The variance takes a second pass over x: E[x^2] - mean^2 loses all digits of a row far
//   from zero.
// layer_norm_grad(x, gamma, mean, rstd, dy) -> dx, dgamma, dbeta, with n = (x - mean) * rstd and g
// = dy * gamma:
//   dx = rstd * (g - sum(g) / H - n * sum(g * n) / H), dgamma = sum of dy * n, dbeta = sum of dy,
//   both over rows. n is recomputed from x: recovering it from y would divide by gamma, which may
//   be 0. Not differentiable.
// The gradient keeps x, gamma, mean and rstd; mean and rstd themselves have none.
#pragma once

#include "graph/builder.h"

namespace snug {

struct LayerNormOutputs {
  ValueId y = kNone;
  ValueId mean = kNone;
  ValueId rstd = kNone;
};
[[nodiscard]] LayerNormOutputs layer_norm(GraphBuilder& builder, ValueId x, ValueId gamma,
                                          ValueId beta, double eps = 1e-12);

}  // namespace snug

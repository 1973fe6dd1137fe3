// SPDX-License-Identifier: Apache-2.0
// Ops of the update phase that all optimizers share: accumulation of gradients and their norm. None
// is differentiable. The steps themselves are ops in a folder for each optimizer
// (optimizer_def.h).
//
// accumulate(acc, x) -> acc + x                                         over acc
// set_zero(x) -> 0                                                      over x
// gradient_squares(g, scale f32[]) -> f32[]: sum of squares of scale g
//   Squared in double: those of a gradient of a scaled loss are too large for f32 where it is not.
// global_norm(s...) {max_norm=0} -> norm = sqrt(sum of s), coefficient  s are sums of squares,
// f32[] each
//   coefficient = min(1, max_norm / (norm + 1e-6)) where max_norm > 0, else 1
//   (torch.nn.utils.clip_grad_norm_). A norm that is not finite passes through and the coefficient
//   is NaN, which skips every step that reads it: nothing is trained on it.
#pragma once

#include <span>

#include "graph/builder.h"

namespace snug {

[[nodiscard]] ValueId accumulate(GraphBuilder& builder, ValueId acc, ValueId x);
[[nodiscard]] ValueId set_zero(GraphBuilder& builder, ValueId x);
[[nodiscard]] ValueId gradient_squares(GraphBuilder& builder, ValueId gradient, ValueId scale);

struct GlobalNormOutputs {
  ValueId norm = kNone;
  ValueId coefficient = kNone;
};
[[nodiscard]] GlobalNormOutputs global_norm(GraphBuilder& builder,
                                            std::span<const ValueId> sums_of_squares,
                                            double max_norm = 0);

}  // namespace snug

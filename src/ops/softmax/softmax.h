// SPDX-License-Identifier: Apache-2.0
// Softmax over one axis, plain and masked.
//
// softmax(x) {axis=-1}: y = exp(x - max) / sum(exp(x - max)) along the axis.
// masked_softmax(x, mask) {}: over the last axis, of the elements whose mask is true; the others
// are 0. The mask is
//   boolean and broadcasts to x. A fully masked row is 0 everywhere, in its gradient too.
// softmax_grad(y, dy) {axis=-1}: dx = y * (dy - sum(y * dy)); serves both, since a masked y is 0.
// Not differentiable. Gradients keep y, never x.
#pragma once

#include "graph/builder.h"

namespace snug {

[[nodiscard]] ValueId softmax(GraphBuilder& builder, ValueId x, int64_t axis = -1);
[[nodiscard]] ValueId masked_softmax(GraphBuilder& builder, ValueId x, ValueId mask);

}  // namespace snug

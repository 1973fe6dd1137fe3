// SPDX-License-Identifier: Apache-2.0
// GeGLU (Shazeer 2020, "GLU Variants Improve Transformer"): a gated linear unit whose gate is a
// GELU. The two halves of one product are never stored apart.
//
// geglu(x (..., 2 I)) {approximate="none"} -> y (..., I) = gelu(x[..., :I]) * x[..., I:]
// geglu_grad(x, dy) {the same} -> dx (..., 2 I): dy * x[..., I:] through the gradient of gelu, and
//   dy * gelu(x[..., :I]). Not differentiable.
// The gradient keeps x. `approximate` as in gelu (ops/elementwise).
#pragma once

#include <string>

#include "graph/builder.h"

namespace snug {

[[nodiscard]] ValueId geglu(GraphBuilder& builder, ValueId x,
                            const std::string& approximate = "none");

}  // namespace snug

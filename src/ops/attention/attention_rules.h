// SPDX-License-Identifier: Apache-2.0
// Shape rules and costs that ops of pairs of tokens share. q, k, v are inputs 0, 1, 2; of a
// gradient, o, lse and do are inputs 3, 4, 5.
#pragma once

#include "graph/op_def.h"

namespace snug {

/// Checks q, k, v, mask (at input `mask`) and rng after it; returns the type of lse.
[[nodiscard]] TensorType require_attention_operands(const InferArgs& args, size_t mask);
/// The same of a gradient; the types of dq, dk, dv.
[[nodiscard]] std::vector<TensorType> require_attention_gradient(const InferArgs& args,
                                                                 size_t mask);
/// What is done to each score beside products; `product_flops` of those.
[[nodiscard]] Cost attention_cost(const CostArgs& args, double product_flops);
/// Operations of a product of T x T x D in every head.
[[nodiscard]] double pair_product_flops(const CostArgs& args);

inline constexpr UsualRate kUsualAttentionRate{
    .per_call = 5e-6, .per_flop = 1.0 / 60e9, .per_byte = 1.0 / 15e9};

}  // namespace snug

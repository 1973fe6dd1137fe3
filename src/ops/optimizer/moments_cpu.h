// SPDX-License-Identifier: Apache-2.0
// What Adam's and AdamW's steps multiply by; their loop is in moments-inl.h.
#pragma once

#include <cmath>

#include "ops/optimizer/step_cpu.h"

namespace snug {

struct MomentFactors {
  float gradient_scale;
  float weight_decay;  // of Adam's gradient
  float keep;          // of AdamW's weight: 1 - learning_rate * weight_decay
  float one_minus_beta1, beta2, one_minus_beta2;
  float step;          // learning_rate / (1 - beta1^t)
  float inverse_root;  // 1 / sqrt(1 - beta2^t)
  float eps;
};

/// The kernel of a step over the loop that `range()` is.
template <class Range>
[[nodiscard]] std::unique_ptr<Kernel> make_moments_step(const NodeSpec& spec,
                                                        const CpuContext& context, Range range) {
  const double beta1 = spec.attrs.real("beta1");
  const double beta2 = spec.attrs.real("beta2");
  const double eps = spec.attrs.real("eps");
  const double decay = spec.attrs.real("weight_decay");
  const auto factors = [=](const StepOperands& operands) {
    const float* hyper = operands.hyper;
    const auto rate = static_cast<double>(hyper[0]);
    return MomentFactors{
        .gradient_scale = operands.gradient_scale,
        .weight_decay = static_cast<float>(decay),
        .keep = static_cast<float>(1.0 - rate * decay),
        .one_minus_beta1 = static_cast<float>(1.0 - beta1),
        .beta2 = static_cast<float>(beta2),
        .one_minus_beta2 = static_cast<float>(1.0 - beta2),
        .step = static_cast<float>(rate / static_cast<double>(hyper[1])),
        .inverse_root = static_cast<float>(1.0 / std::sqrt(static_cast<double>(hyper[2]))),
        .eps = static_cast<float>(eps)};
  };
  return make_element_step(spec, context, factors, range);
}

}  // namespace snug

// SPDX-License-Identifier: Apache-2.0
// The steps of Adam and AdamW in double.
#pragma once

#include <cmath>

#include "ops/optimizer/optimizer_moments.h"
#include "ops/optimizer/step_ref.h"

namespace snug {

template <Decay kDecay>
void run_moments(const RefArgs& args) {
  const double beta1 = args.attrs.real("beta1");
  const double beta2 = args.attrs.real("beta2");
  const double eps = args.attrs.real("eps");
  const double decay = args.attrs.real("weight_decay");
  const double* hyper = hyper_of(args);
  for (int64_t i = 0; i < args.inputs[0].size(); ++i) {
    double w = args.inputs[0].data[i];
    double g = args.inputs[1].data[i] * coefficient_of(args);
    if (kDecay == Decay::of_gradient) g += decay * w;
    if (kDecay == Decay::of_weight) w *= 1 - hyper[0] * decay;
    const double m = beta1 * args.inputs[2].data[i] + (1 - beta1) * g;
    const double v = beta2 * args.inputs[3].data[i] + (1 - beta2) * g * g;
    args.outputs[0].data[i] =
        w - hyper[0] / hyper[1] * m / (std::sqrt(v) / std::sqrt(hyper[2]) + eps);
    args.outputs[1].data[i] = m;
    args.outputs[2].data[i] = v;
  }
}

}  // namespace snug

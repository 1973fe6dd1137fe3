// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/optimizer/step_ref.h"

namespace snug {
namespace {

// g with the decay, and v after the step.
struct Moments {
  double g = 0;
  double v = 0;
};
Moments moments_of(const RefArgs& args, int64_t i) {
  const double alpha = args.attrs.real("alpha");
  const double g = args.inputs[1].data[i] * coefficient_of(args) +
                   args.attrs.real("weight_decay") * args.inputs[0].data[i];
  return {g, alpha * args.inputs[2].data[i] + (1 - alpha) * g * g};
}

void run_rmsprop(const RefArgs& args) {
  for (int64_t i = 0; i < args.inputs[0].size(); ++i) {
    const auto [g, v] = moments_of(args, i);
    args.outputs[0].data[i] =
        args.inputs[0].data[i] - hyper_of(args)[0] * g / (std::sqrt(v) + args.attrs.real("eps"));
    args.outputs[1].data[i] = v;
  }
}

void run_rmsprop_momentum(const RefArgs& args) {
  for (int64_t i = 0; i < args.inputs[0].size(); ++i) {
    const auto [g, v] = moments_of(args, i);
    const double buffer = args.attrs.real("momentum") * args.inputs[3].data[i] +
                          g / (std::sqrt(v) + args.attrs.real("eps"));
    args.outputs[0].data[i] = args.inputs[0].data[i] - hyper_of(args)[0] * buffer;
    args.outputs[1].data[i] = v;
    args.outputs[2].data[i] = buffer;
  }
}

}  // namespace

std::span<const RefKernelDef> rmsprop_ref_kernels() {
  static const RefKernelDef kernels[] = {
      {"rmsprop", run_or_skip<run_rmsprop>},
      {"rmsprop_8bit", run_coded<run_rmsprop>},
      {"rmsprop_momentum", run_or_skip<run_rmsprop_momentum>},
      {"rmsprop_momentum_8bit", run_coded<run_rmsprop_momentum>}};
  return kernels;
}

}  // namespace snug

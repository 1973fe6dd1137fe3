// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/optimizer/step_ref.h"

namespace snug {
namespace {

void run_adagrad(const RefArgs& args) {
  for (int64_t i = 0; i < args.inputs[0].size(); ++i) {
    const double w = args.inputs[0].data[i];
    const double g =
        args.inputs[1].data[i] * coefficient_of(args) + args.attrs.real("weight_decay") * w;
    const double sum = args.inputs[2].data[i] + g * g;
    args.outputs[0].data[i] = w - hyper_of(args)[0] * g / (std::sqrt(sum) + args.attrs.real("eps"));
    args.outputs[1].data[i] = sum;
  }
}

}  // namespace

std::span<const RefKernelDef> adagrad_ref_kernels() {
  static const RefKernelDef kernels[] = {{"adagrad", run_or_skip<run_adagrad>},
                                         {"adagrad_8bit", run_coded<run_adagrad>}};
  return kernels;
}

}  // namespace snug

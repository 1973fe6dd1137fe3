// SPDX-License-Identifier: Apache-2.0
#include "ops/optimizer/step_ref.h"

namespace snug {
namespace {

double sign_of(double x) { return x > 0 ? 1 : x < 0 ? -1 : x; }  // NaN stays

void run_lion(const RefArgs& args) {
  const double beta1 = args.attrs.real("beta1");
  const double beta2 = args.attrs.real("beta2");
  for (int64_t i = 0; i < args.inputs[0].size(); ++i) {
    const double w = args.inputs[0].data[i];
    const double g = args.inputs[1].data[i] * coefficient_of(args);
    const double m = args.inputs[2].data[i];
    const double sign = sign_of(beta1 * m + (1 - beta1) * g);
    args.outputs[0].data[i] = w - hyper_of(args)[0] * (sign + args.attrs.real("weight_decay") * w);
    args.outputs[1].data[i] = beta2 * m + (1 - beta2) * g;
  }
}

}  // namespace

std::span<const RefKernelDef> lion_ref_kernels() {
  static const RefKernelDef kernels[] = {{"lion", run_or_skip<run_lion>},
                                         {"lion_8bit", run_coded<run_lion>}};
  return kernels;
}

}  // namespace snug

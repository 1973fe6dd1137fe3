// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "ops/optimizer/step_ref.h"

namespace snug {
namespace {

double norm_of(const RefTensor& tensor) {
  double sum = 0;
  for (int64_t i = 0; i < tensor.size(); ++i) sum += tensor.data[i] * tensor.data[i];
  return std::sqrt(sum);
}

double local_rate(const RefArgs& args) {
  const double w = norm_of(args.inputs[0]);
  const double g = norm_of(args.inputs[1]) * coefficient_of(args);
  if (!args.attrs.boolean("adapts") || w == 0 || g == 0) return 1;
  return args.attrs.real("trust") * w /
         (g + args.attrs.real("weight_decay") * w + args.attrs.real("eps"));
}

void run_lars(const RefArgs& args) {
  const double momentum = args.attrs.real("momentum");
  const double local = local_rate(args);
  for (int64_t i = 0; i < args.inputs[0].size(); ++i) {
    const double w = args.inputs[0].data[i];
    const double g = local * (args.inputs[1].data[i] * coefficient_of(args) +
                              args.attrs.real("weight_decay") * w);
    const double buffer = momentum * args.inputs[2].data[i] + g;
    args.outputs[0].data[i] =
        w - hyper_of(args)[0] * (args.attrs.boolean("nesterov") ? g + momentum * buffer : buffer);
    args.outputs[1].data[i] = buffer;
  }
}

}  // namespace

std::span<const RefKernelDef> lars_ref_kernels() {
  static const RefKernelDef kernels[] = {{"lars", run_or_skip<run_lars>},
                                         {"lars_8bit", run_coded<run_lars>}};
  return kernels;
}

}  // namespace snug

// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <vector>

#include "ops/optimizer/step_ref.h"

namespace snug {
namespace {

void run_lamb(const RefArgs& args) {
  const double beta1 = args.attrs.real("beta1");
  const double beta2 = args.attrs.real("beta2");
  const double* hyper = hyper_of(args);
  const auto count = static_cast<size_t>(args.inputs[0].size());
  std::vector<double> change(count);
  double weights = 0;
  double changes = 0;
  for (size_t i = 0; i < count; ++i) {
    const double w = args.inputs[0].data[i];
    const double g = args.inputs[1].data[i] * coefficient_of(args);
    const double m = beta1 * args.inputs[2].data[i] + (1 - beta1) * g;
    const double v = beta2 * args.inputs[3].data[i] + (1 - beta2) * g * g;
    change[i] = m / hyper[1] / (std::sqrt(v / hyper[2]) + args.attrs.real("eps")) +
                args.attrs.real("weight_decay") * w;
    weights += w * w;
    changes += change[i] * change[i];
    args.outputs[1].data[i] = m;
    args.outputs[2].data[i] = v;
  }
  const bool adapts = args.attrs.boolean("adapts") && weights > 0 && changes > 0;
  const double ratio = adapts ? std::sqrt(weights) / std::sqrt(changes) : 1;
  for (size_t i = 0; i < count; ++i)
    args.outputs[0].data[i] = args.inputs[0].data[i] - hyper[0] * ratio * change[i];
}

}  // namespace

std::span<const RefKernelDef> lamb_ref_kernels() {
  static const RefKernelDef kernels[] = {{"lamb", run_or_skip<run_lamb>},
                                         {"lamb_8bit", run_coded<run_lamb>}};
  return kernels;
}

}  // namespace snug

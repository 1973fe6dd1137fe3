// SPDX-License-Identifier: Apache-2.0
#include "ops/optimizer/step_ref.h"

namespace snug {
namespace {

void run_sgd(const RefArgs& args) {
  const double decay = args.attrs.real("weight_decay");
  const double rate = hyper_of(args)[0];
  for (int64_t i = 0; i < args.inputs[0].size(); ++i) {
    const double w = args.inputs[0].data[i];
    args.outputs[0].data[i] =
        w - rate * (args.inputs[1].data[i] * coefficient_of(args) + decay * w);
  }
}

void run_sgd_momentum(const RefArgs& args) {
  const double momentum = args.attrs.real("momentum");
  const double decay = args.attrs.real("weight_decay");
  const double rate = hyper_of(args)[0];
  for (int64_t i = 0; i < args.inputs[0].size(); ++i) {
    const double w = args.inputs[0].data[i];
    const double g = args.inputs[1].data[i] * coefficient_of(args) + decay * w;
    const double buffer = momentum * args.inputs[2].data[i] + g;
    args.outputs[0].data[i] =
        w - rate * (args.attrs.boolean("nesterov") ? g + momentum * buffer : buffer);
    args.outputs[1].data[i] = buffer;
  }
}

}  // namespace

std::span<const RefKernelDef> sgd_ref_kernels() {
  static const RefKernelDef kernels[] = {{"sgd", run_or_skip<run_sgd>},
                                         {"sgd_momentum", run_or_skip<run_sgd_momentum>},
                                         {"sgd_momentum_8bit", run_coded<run_sgd_momentum>}};
  return kernels;
}

}  // namespace snug

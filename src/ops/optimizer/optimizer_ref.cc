// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/reference/reference.h"

namespace snug {
namespace {

double coefficient_of(const RefTensor& coefficient) {
  return coefficient.data == nullptr ? 1 : coefficient.data[0];
}

void run_accumulate(const RefArgs& args) {
  for (int64_t i = 0; i < args.outputs[0].size(); ++i) {
    args.outputs[0].data[i] = args.inputs[0].data[i] + args.inputs[1].data[i];
  }
}

void run_set_zero(const RefArgs& args) {
  std::fill_n(args.outputs[0].data, args.outputs[0].size(), 0.0);
}

void run_global_norm(const RefArgs& args) {
  const double max_norm = args.attrs.real("max_norm");
  double sum = 0;
  for (const RefTensor& input : args.inputs) sum += input.data[0];
  const double norm = std::sqrt(sum);
  args.outputs[0].data[0] = norm;
  double coefficient = 1;
  if (!std::isfinite(norm)) {
    coefficient = std::numeric_limits<double>::quiet_NaN();
  } else if (max_norm > 0) {
    coefficient = std::min(1.0, max_norm / (norm + 1e-6));
  }
  args.outputs[1].data[0] = coefficient;
}

void run_adamw(const RefArgs& args) {
  const double beta1 = args.attrs.real("beta1");
  const double beta2 = args.attrs.real("beta2");
  const double eps = args.attrs.real("eps");
  const double decay = args.attrs.real("weight_decay");
  const double* hyper = args.inputs[4].data;
  const double coefficient = coefficient_of(args.inputs[5]);
  for (int64_t i = 0; i < args.inputs[0].size(); ++i) {
    const double g = args.inputs[1].data[i] * coefficient;
    const double w = args.inputs[0].data[i] * (1 - hyper[0] * decay);
    const double m = beta1 * args.inputs[2].data[i] + (1 - beta1) * g;
    const double v = beta2 * args.inputs[3].data[i] + (1 - beta2) * g * g;
    args.outputs[0].data[i] =
        w - hyper[0] / hyper[1] * m / (std::sqrt(v) / std::sqrt(hyper[2]) + eps);
    args.outputs[1].data[i] = m;
    args.outputs[2].data[i] = v;
  }
}

void run_sgd(const RefArgs& args) {
  const double decay = args.attrs.real("weight_decay");
  const double rate = args.inputs[2].data[0];
  const double coefficient = coefficient_of(args.inputs[3]);
  for (int64_t i = 0; i < args.inputs[0].size(); ++i) {
    const double w = args.inputs[0].data[i];
    args.outputs[0].data[i] = w - rate * (args.inputs[1].data[i] * coefficient + decay * w);
  }
}

void run_sgd_momentum(const RefArgs& args) {
  const double momentum = args.attrs.real("momentum");
  const double decay = args.attrs.real("weight_decay");
  const double rate = args.inputs[3].data[0];
  const double coefficient = coefficient_of(args.inputs[4]);
  for (int64_t i = 0; i < args.inputs[0].size(); ++i) {
    const double w = args.inputs[0].data[i];
    const double g = args.inputs[1].data[i] * coefficient + decay * w;
    const double buffer = momentum * args.inputs[2].data[i] + g;
    args.outputs[0].data[i] =
        w - rate * (args.attrs.boolean("nesterov") ? g + momentum * buffer : buffer);
    args.outputs[1].data[i] = buffer;
  }
}

}  // namespace

std::span<const RefKernelDef> optimizer_ref_kernels() {
  static const RefKernelDef kernels[] = {{"accumulate", run_accumulate},
                                         {"set_zero", run_set_zero},
                                         {"global_norm", run_global_norm},
                                         {"adamw", run_adamw},
                                         {"sgd", run_sgd},
                                         {"sgd_momentum", run_sgd_momentum}};
  return kernels;
}

}  // namespace snug

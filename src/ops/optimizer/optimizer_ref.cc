// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/reference/reference.h"

namespace snug {
namespace {

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

}  // namespace

std::span<const RefKernelDef> optimizer_ref_kernels() {
  static const RefKernelDef kernels[] = {
      {"accumulate", run_accumulate}, {"set_zero", run_set_zero}, {"global_norm", run_global_norm}};
  return kernels;
}

}  // namespace snug

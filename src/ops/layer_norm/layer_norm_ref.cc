// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "backend/reference/reference.h"

namespace snug {
namespace {

void run_layer_norm(const RefArgs& args) {
  const double eps = args.attrs.real("eps");
  const double* gamma = args.inputs[1].data;
  const double* beta = args.inputs[2].data;
  const int64_t width = args.inputs[1].size();
  for (int64_t row = 0; row < args.outputs[1].size(); ++row) {
    const double* x = args.inputs[0].data + row * width;
    double* y = args.outputs[0].data + row * width;
    double mean = 0;
    for (int64_t i = 0; i < width; ++i) mean += x[i];
    mean /= static_cast<double>(width);
    double variance = 0;
    for (int64_t i = 0; i < width; ++i) variance += (x[i] - mean) * (x[i] - mean);
    variance /= static_cast<double>(width);
    const double rstd = 1 / std::sqrt(variance + eps);
    for (int64_t i = 0; i < width; ++i) y[i] = (x[i] - mean) * rstd * gamma[i] + beta[i];
    args.outputs[1].data[row] = mean;
    args.outputs[2].data[row] = rstd;
  }
}

void run_layer_norm_grad(const RefArgs& args) {
  const double* gamma = args.inputs[1].data;
  const int64_t width = args.inputs[1].size();
  double* dgamma = args.outputs[1].data;
  double* dbeta = args.outputs[2].data;
  std::fill_n(dgamma, width, 0.0);
  std::fill_n(dbeta, width, 0.0);
  for (int64_t row = 0; row < args.inputs[2].size(); ++row) {
    const double* x = args.inputs[0].data + row * width;
    const double* dy = args.inputs[4].data + row * width;
    double* dx = args.outputs[0].data + row * width;
    const double mean = args.inputs[2].data[row];
    const double rstd = args.inputs[3].data[row];
    double sum_g = 0;
    double sum_gn = 0;
    for (int64_t i = 0; i < width; ++i) {
      const double n = (x[i] - mean) * rstd;
      sum_g += dy[i] * gamma[i];
      sum_gn += dy[i] * gamma[i] * n;
      dgamma[i] += dy[i] * n;
      dbeta[i] += dy[i];
    }
    const auto count = static_cast<double>(width);
    for (int64_t i = 0; i < width; ++i) {
      const double n = (x[i] - mean) * rstd;
      dx[i] = rstd * (dy[i] * gamma[i] - sum_g / count - n * sum_gn / count);
    }
  }
}

}  // namespace

std::span<const RefKernelDef> layer_norm_ref_kernels() {
  static const RefKernelDef kernels[] = {{"layer_norm", run_layer_norm},
                                         {"layer_norm_grad", run_layer_norm_grad}};
  return kernels;
}

}  // namespace snug

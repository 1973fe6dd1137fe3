// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "backend/reference/reference.h"

namespace snug {
namespace {

void run_batch_norm(const RefArgs& args) {
  const RefTensor& x = args.inputs[0];
  const int64_t channels = args.inputs[1].size();
  const int64_t rows = x.size() / channels;
  for (int64_t c = 0; c < channels; ++c) {
    double mean = 0;
    for (int64_t r = 0; r < rows; ++r) mean += x.data[r * channels + c];
    mean /= static_cast<double>(rows);
    double variance = 0;
    for (int64_t r = 0; r < rows; ++r) {
      const double centered = x.data[r * channels + c] - mean;
      variance += centered * centered;
    }
    variance /= static_cast<double>(rows);
    const double rstd = 1 / std::sqrt(variance + args.attrs.real("eps"));
    for (int64_t r = 0; r < rows; ++r) {
      args.outputs[0].data[r * channels + c] =
          (x.data[r * channels + c] - mean) * rstd * args.inputs[1].data[c] +
          args.inputs[2].data[c];
    }
    args.outputs[1].data[c] = mean;
    args.outputs[2].data[c] = variance;
  }
}

void run_batch_norm_grad(const RefArgs& args) {
  const double* x = args.inputs[0].data;
  const double* dy = args.inputs[4].data;
  const int64_t channels = args.inputs[1].size();
  const int64_t rows = args.inputs[0].size() / channels;
  const auto count = static_cast<double>(rows);
  for (int64_t c = 0; c < channels; ++c) {
    const double gamma = args.inputs[1].data[c];
    const double mean = args.inputs[2].data[c];
    const double rstd = 1 / std::sqrt(args.inputs[3].data[c] + args.attrs.real("eps"));
    double dgamma = 0;
    double dbeta = 0;
    for (int64_t i = c; i < rows * channels; i += channels) {
      dgamma += dy[i] * (x[i] - mean) * rstd;
      dbeta += dy[i];
    }
    for (int64_t i = c; i < rows * channels; i += channels) {
      const double n = (x[i] - mean) * rstd;
      args.outputs[0].data[i] = gamma * rstd * (dy[i] - dbeta / count - n * dgamma / count);
    }
    args.outputs[1].data[c] = dgamma;
    args.outputs[2].data[c] = dbeta;
  }
}

void run_inference(const RefArgs& args) {
  const RefTensor& x = args.inputs[0];
  const int64_t channels = args.inputs[1].size();
  for (int64_t i = 0; i < x.size(); ++i) {
    const int64_t c = i % channels;
    const double rstd = 1 / std::sqrt(args.inputs[4].data[c] + args.attrs.real("eps"));
    args.outputs[0].data[i] = (x.data[i] - args.inputs[3].data[c]) * rstd * args.inputs[1].data[c] +
                              args.inputs[2].data[c];
  }
}

void run_running(const RefArgs& args) {
  const double momentum = args.attrs.real("momentum");
  const auto rows = static_cast<double>(args.attrs.int64("rows"));
  const double unbiased = rows > 1 ? rows / (rows - 1) : 1;
  for (int64_t c = 0; c < args.inputs[0].size(); ++c) {
    const double mean = args.inputs[0].data[c];
    const double variance = args.inputs[1].data[c];
    args.outputs[0].data[c] = mean + momentum * (args.inputs[2].data[c] - mean);
    args.outputs[1].data[c] = variance + momentum * (args.inputs[3].data[c] * unbiased - variance);
  }
}

}  // namespace

std::span<const RefKernelDef> batch_norm_ref_kernels() {
  static const RefKernelDef kernels[] = {{"batch_norm", run_batch_norm},
                                         {"batch_norm_grad", run_batch_norm_grad},
                                         {"batch_norm_inference", run_inference},
                                         {"running_statistics", run_running}};
  return kernels;
}

}  // namespace snug

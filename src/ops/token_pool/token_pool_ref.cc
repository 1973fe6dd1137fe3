// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "backend/reference/reference.h"
#include "ops/token_pool/token_pool.h"

namespace snug {
namespace {

void run_token_pool_mean(const RefArgs& args) {
  const Shape& x = args.inputs[0].type.shape;
  const double* mask = args.inputs[1].data;
  for (int64_t b = 0; b < x[0]; ++b) {
    for (int64_t h = 0; h < x[2]; ++h) {
      double sum = 0;
      int64_t tokens = 0;
      for (int64_t t = 0; t < x[1]; ++t) {
        if (mask[b * x[1] + t] == 0) continue;
        sum += args.inputs[0].data[(b * x[1] + t) * x[2] + h];
        ++tokens;
      }
      args.outputs[0].data[b * x[2] + h] = tokens == 0 ? 0 : sum / static_cast<double>(tokens);
    }
  }
}

void run_mean_grad(const RefArgs& args) {
  const Shape& dx = args.outputs[0].type.shape;
  const double* mask = args.inputs[0].data;
  for (int64_t b = 0; b < dx[0]; ++b) {
    const auto tokens = static_cast<double>(std::count_if(
        mask + b * dx[1], mask + (b + 1) * dx[1], [](double is_there) { return is_there != 0; }));
    for (int64_t t = 0; t < dx[1]; ++t) {
      for (int64_t h = 0; h < dx[2]; ++h) {
        const double dy = args.inputs[1].data[b * dx[2] + h];
        args.outputs[0].data[(b * dx[1] + t) * dx[2] + h] =
            mask[b * dx[1] + t] == 0 ? 0 : dy / tokens;
      }
    }
  }
}

void run_token_pool_max(const RefArgs& args) {
  const Shape& shape = args.inputs[0].type.shape;
  const double* x = args.inputs[0].data;
  for (int64_t b = 0; b < shape[0]; ++b) {
    for (int64_t h = 0; h < shape[2]; ++h) {
      int64_t best = -1;
      double largest = 0;
      for (int64_t t = 0; t < shape[1]; ++t) {
        if (args.inputs[1].data[b * shape[1] + t] == 0) continue;
        const double value = x[(b * shape[1] + t) * shape[2] + h];
        if (best >= 0 && !(value > largest) && !(std::isnan(value) && !std::isnan(largest)))
          continue;
        best = t;
        largest = value;
      }
      args.outputs[0].data[b * shape[2] + h] = largest;
      args.outputs[1].data[b * shape[2] + h] = static_cast<double>(best);
    }
  }
}

void run_max_grad(const RefArgs& args) {
  const Shape& dx = args.outputs[0].type.shape;
  for (int64_t b = 0; b < dx[0]; ++b) {
    for (int64_t t = 0; t < dx[1]; ++t) {
      for (int64_t h = 0; h < dx[2]; ++h) {
        const int64_t at = b * dx[2] + h;
        const bool is_largest = args.inputs[0].data[at] == static_cast<double>(t);
        args.outputs[0].data[(b * dx[1] + t) * dx[2] + h] =
            is_largest ? args.inputs[1].data[at] : 0;
      }
    }
  }
}

}  // namespace

std::span<const RefKernelDef> token_pool_ref_kernels() {
  static const RefKernelDef kernels[] = {{"masked_mean", run_token_pool_mean},
                                         {"masked_mean_grad", run_mean_grad},
                                         {"masked_max", run_token_pool_max},
                                         {"masked_max_grad", run_max_grad}};
  return kernels;
}

}  // namespace snug

// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "backend/reference/reference.h"
#include "ops/pool/pool.h"

namespace snug {
namespace {

// Calls visit(y element, x element of the first largest pixel) for every window and channel.
template <class Visit>
void for_each_maximum(const Pool2dDims& d, const double* x, Visit visit) {
  int64_t y = 0;
  for (int64_t n = 0; n < d.batch; ++n) {
    for (int64_t i = 0; i < d.height.count(); ++i) {
      for (int64_t j = 0; j < d.width.count(); ++j) {
        for (int64_t c = 0; c < d.channels; ++c) {
          int64_t best = -1;
          for (int64_t p = 0; p < d.height.kernel; ++p) {
            for (int64_t q = 0; q < d.width.kernel; ++q) {
              const int64_t row = d.height.pixel(i, p);
              const int64_t column = d.width.pixel(j, q);
              if (row < 0 || row >= d.height.size || column < 0 || column >= d.width.size) continue;
              const int64_t at =
                  ((n * d.height.size + row) * d.width.size + column) * d.channels + c;
              if (best < 0 || x[at] > x[best] || std::isnan(x[at])) best = at;
            }
          }
          visit(y++, best);
        }
      }
    }
  }
}

void run_pool(const RefArgs& args) {
  const double* x = args.inputs[0].data;
  double* y = args.outputs[0].data;
  for_each_maximum(pool2d_dims(args.inputs[0].type.shape, args.attrs), x,
                   [&](int64_t to, int64_t from) { y[to] = x[from]; });
}

void run_pool_grad(const RefArgs& args) {
  const double* dy = args.inputs[1].data;
  const RefTensor& dx = args.outputs[0];
  std::fill_n(dx.data, dx.size(), 0.0);
  for_each_maximum(pool2d_dims(dx.type.shape, args.attrs), args.inputs[0].data,
                   [&](int64_t from, int64_t to) { dx.data[to] += dy[from]; });
}

}  // namespace

std::span<const RefKernelDef> pool_ref_kernels() {
  static const RefKernelDef kernels[] = {{"max_pool2d", run_pool},
                                         {"max_pool2d_grad", run_pool_grad}};
  return kernels;
}

}  // namespace snug

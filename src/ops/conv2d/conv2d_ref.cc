// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backend/reference/reference.h"
#include "ops/conv2d/conv2d.h"

namespace snug {
namespace {

// Calls visit(x element, w element, y element) for every product of the convolution.
template <class Visit>
void for_each_product(const Conv2dDims& d, Visit visit) {
  for (int64_t n = 0; n < d.batch; ++n) {
    for (int64_t i = 0; i < d.height.count(); ++i) {
      for (int64_t j = 0; j < d.width.count(); ++j) {
        for (int64_t o = 0; o < d.out_channels; ++o) {
          const int64_t y = ((n * d.height.count() + i) * d.width.count() + j) * d.out_channels + o;
          const int64_t first_channel = o / d.out_per_group() * d.in_per_group();
          for (int64_t c = 0; c < d.in_per_group(); ++c) {
            for (int64_t p = 0; p < d.height.kernel; ++p) {
              for (int64_t q = 0; q < d.width.kernel; ++q) {
                const int64_t row = d.height.pixel(i, p);
                const int64_t column = d.width.pixel(j, q);
                if (row < 0 || row >= d.height.size || column < 0 || column >= d.width.size)
                  continue;
                const int64_t x =
                    ((n * d.height.size + row) * d.width.size + column) * d.in_channels +
                    first_channel + c;
                const int64_t w =
                    ((o * d.in_per_group() + c) * d.height.kernel + p) * d.width.kernel + q;
                visit(x, w, y);
              }
            }
          }
        }
      }
    }
  }
}

void run_conv2d(const RefArgs& args) {
  const double* x = args.inputs[0].data;
  const double* w = args.inputs[1].data;
  const double* bias = args.inputs[2].data;
  const RefTensor& out = args.outputs[0];
  const Conv2dDims dims =
      conv2d_dims(args.inputs[0].type.shape, args.inputs[1].type.shape, args.attrs);
  for (int64_t i = 0; i < out.size(); ++i)
    out.data[i] = bias == nullptr ? 0 : bias[i % dims.out_channels];
  for_each_product(dims,
                   [&](int64_t xi, int64_t wi, int64_t yi) { out.data[yi] += x[xi] * w[wi]; });
}

void run_grad_input(const RefArgs& args) {
  const double* w = args.inputs[0].data;
  const double* dy = args.inputs[1].data;
  const RefTensor& dx = args.outputs[0];
  std::fill_n(dx.data, dx.size(), 0.0);
  for_each_product(conv2d_dims(dx.type.shape, args.inputs[0].type.shape, args.attrs),
                   [&](int64_t xi, int64_t wi, int64_t yi) { dx.data[xi] += w[wi] * dy[yi]; });
}

void run_grad_weight(const RefArgs& args) {
  const double* x = args.inputs[0].data;
  const double* dy = args.inputs[1].data;
  const RefTensor& dw = args.outputs[0];
  std::fill_n(dw.data, dw.size(), 0.0);
  for_each_product(conv2d_dims(args.inputs[0].type.shape, dw.type.shape, args.attrs),
                   [&](int64_t xi, int64_t wi, int64_t yi) { dw.data[wi] += x[xi] * dy[yi]; });
}

}  // namespace

std::span<const RefKernelDef> conv2d_ref_kernels() {
  static const RefKernelDef kernels[] = {{"conv2d", run_conv2d},
                                         {"conv2d_grad_input", run_grad_input},
                                         {"conv2d_grad_weight", run_grad_weight}};
  return kernels;
}

}  // namespace snug

// SPDX-License-Identifier: Apache-2.0
#include "backend/reference/reference.h"
#include "ops/matmul/matmul.h"

namespace snug {
namespace {

// y += op(a) op(b). The summed index is the middle loop, so that every row of op(b) is read in
// order.
void add_product(const RefTensor& a, const RefTensor& b, const Attrs& attrs, double* y) {
  const bool transpose_a = attrs.boolean("transpose_a");
  const bool transpose_b = attrs.boolean("transpose_b");
  const MatmulDims d = matmul_dims(a.type.shape, b.type.shape, transpose_a, transpose_b);
  for (int64_t i = 0; i < d.batch; ++i) {
    const double* a_i = a.data + i * d.m * d.k;
    const double* b_i = b.data + i * d.k * d.n;
    double* y_i = y + i * d.m * d.n;
    for (int64_t m = 0; m < d.m; ++m) {
      for (int64_t k = 0; k < d.k; ++k) {
        const double left = transpose_a ? a_i[k * d.m + m] : a_i[m * d.k + k];
        for (int64_t n = 0; n < d.n; ++n) {
          y_i[m * d.n + n] += left * (transpose_b ? b_i[n * d.k + k] : b_i[k * d.n + n]);
        }
      }
    }
  }
}

void run_matmul(const RefArgs& args) {
  const RefTensor& bias = args.inputs[2];
  const RefTensor& y = args.outputs[0];
  for (int64_t i = 0; i < y.size(); ++i)
    y.data[i] = bias.data == nullptr ? 0 : bias.data[i % bias.size()];
  add_product(args.inputs[0], args.inputs[1], args.attrs, y.data);
}

void run_matmul_accumulate(const RefArgs& args) {
  const RefTensor& y = args.outputs[0];
  for (int64_t i = 0; i < y.size(); ++i) y.data[i] = args.inputs[0].data[i];
  add_product(args.inputs[1], args.inputs[2], args.attrs, y.data);
}

}  // namespace

std::span<const RefKernelDef> matmul_ref_kernels() {
  static const RefKernelDef kernels[] = {{"matmul", run_matmul},
                                         {"matmul_accumulate", run_matmul_accumulate}};
  return kernels;
}

}  // namespace snug

// SPDX-License-Identifier: Apache-2.0
#include "backend/reference/reference.h"
#include "ops/packed_matmul/packed_matmul.h"

namespace snug {
namespace {

void run_pack(const RefArgs& args) {
  const RefTensor& w = args.inputs[0];
  const RefTensor& panels = args.outputs[0];
  const bool transpose = args.attrs.boolean("transpose");
  const int64_t columns = w.type.shape[transpose ? 0 : 1];
  const int64_t depth = panels.type.shape[1];
  const int64_t width = panels.type.shape[2];
  for (int64_t i = 0; i < panels.size(); ++i) {
    const int64_t n = i / width / depth * width + i % width;
    const int64_t k = i / width % depth;
    panels.data[i] = n >= columns ? 0 : w.data[transpose ? n * depth + k : k * columns + n];
  }
}

void run_product(const RefArgs& args) {
  const RefTensor& panels = args.inputs[1];
  const RefTensor& bias = args.inputs[2];
  const RefTensor& y = args.outputs[0];
  const int64_t columns = args.attrs.int64("columns");
  const int64_t depth = panels.type.shape[1];
  const int64_t width = panels.type.shape[2];
  for (int64_t i = 0; i < y.size(); ++i) {
    const double* a = args.inputs[0].data + i / columns * depth;
    const int64_t n = i % columns;
    double sum = bias.data == nullptr ? 0 : bias.data[i % bias.size()];
    for (int64_t k = 0; k < depth; ++k)
      sum += a[k] * panels.data[(n / width * depth + k) * width + n % width];
    y.data[i] = sum;
  }
}

}  // namespace

std::span<const RefKernelDef> packed_matmul_ref_kernels() {
  static const RefKernelDef kernels[] = {{"pack_weight", run_pack}, {"packed_matmul", run_product}};
  return kernels;
}

}  // namespace snug

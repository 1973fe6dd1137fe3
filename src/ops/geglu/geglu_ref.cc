// SPDX-License-Identifier: Apache-2.0
#include "backend/reference/reference.h"
#include "ops/geglu/geglu.h"
#include "ops/gelu.h"

namespace snug {
namespace {

template <class Element>
void for_each_pair(const RefArgs& args, const Element& element) {
  const Shape& shape = args.inputs[0].type.shape;
  const int64_t half = shape.back() / 2;
  const int64_t rows = half == 0 ? 0 : args.inputs[0].size() / (2 * half);
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t i = 0; i < half; ++i) element(row * 2 * half + i, half, row * half + i);
  }
}

void run_geglu(const RefArgs& args) {
  const bool is_tanh = is_tanh_gelu(args.attrs);
  const double* x = args.inputs[0].data;
  for_each_pair(args, [&](int64_t at, int64_t half, int64_t to) {
    args.outputs[0].data[to] = gelu_at(x[at], is_tanh).value * x[at + half];
  });
}

void run_geglu_grad(const RefArgs& args) {
  const bool is_tanh = is_tanh_gelu(args.attrs);
  const double* x = args.inputs[0].data;
  for_each_pair(args, [&](int64_t at, int64_t half, int64_t from) {
    const double dy = args.inputs[1].data[from];
    const Gelu gelu = gelu_at(x[at], is_tanh);
    args.outputs[0].data[at] = dy * x[at + half] * gelu.slope;
    args.outputs[0].data[at + half] = dy * gelu.value;
  });
}

}  // namespace

std::span<const RefKernelDef> geglu_ref_kernels() {
  static const RefKernelDef kernels[] = {{"geglu", run_geglu}, {"geglu_grad", run_geglu_grad}};
  return kernels;
}

}  // namespace snug

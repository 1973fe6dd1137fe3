// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/reference/reference.h"
#include "ops/op_rules.h"

namespace snug {
namespace {

// Calls row(first, stride, count) for every row along the axis.
template <class Row>
void for_each_row(const Shape& shape, int64_t axis, Row row) {
  const auto rank = static_cast<int64_t>(shape.size());
  const int64_t at = normalize_axis(axis, rank, "softmax");
  const int64_t count = shape[at];
  const int64_t stride = strides_of(shape)[at];
  if (element_count(shape) == 0) return;
  for (int64_t outer = 0; outer < element_count(shape) / (count * stride); ++outer) {
    for (int64_t inner = 0; inner < stride; ++inner) {
      row(outer * count * stride + inner, stride, count);
    }
  }
}

// `is_kept(i)` says whether element i takes part.
template <class IsKept>
void forward_row(const double* x, double* y, int64_t first, int64_t stride, int64_t count,
                 IsKept is_kept) {
  double largest = -std::numeric_limits<double>::infinity();
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = first + i * stride;
    if (is_kept(at)) largest = std::max(largest, x[at]);
  }
  double sum = 0;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = first + i * stride;
    y[at] = is_kept(at) ? std::exp(x[at] - largest) : 0;
    sum += y[at];
  }
  if (sum == 0) return;  // nothing is kept
  for (int64_t i = 0; i < count; ++i) y[first + i * stride] /= sum;
}

void run_softmax(const RefArgs& args) {
  const double* x = args.inputs[0].data;
  double* y = args.outputs[0].data;
  for_each_row(args.inputs[0].type.shape, args.attrs.int64("axis"),
               [&](int64_t first, int64_t stride, int64_t count) {
                 forward_row(x, y, first, stride, count, [](int64_t) { return true; });
               });
}

// Where element `at` of an array of shape `x` reads a mask that broadcasts to it.
int64_t mask_index(int64_t at, const Shape& x, const Shape& mask) {
  const Shape strides = strides_of(mask);
  int64_t index = 0;
  for (size_t back = 1; back <= x.size(); ++back) {
    const int64_t dim = x[x.size() - back];
    const int64_t coordinate = at % dim;
    at /= dim;
    if (back > mask.size()) continue;
    const size_t axis = mask.size() - back;
    if (mask[axis] != 1) index += coordinate * strides[axis];
  }
  return index;
}

void run_masked(const RefArgs& args) {
  const Shape& shape = args.inputs[0].type.shape;
  const RefTensor& mask = args.inputs[1];
  const auto is_kept = [&](int64_t at) {
    return mask.data[mask_index(at, shape, mask.type.shape)] != 0;
  };
  for_each_row(shape, -1, [&](int64_t first, int64_t stride, int64_t count) {
    forward_row(args.inputs[0].data, args.outputs[0].data, first, stride, count, is_kept);
  });
}

void run_softmax_grad(const RefArgs& args) {
  const double* y = args.inputs[0].data;
  const double* dy = args.inputs[1].data;
  double* dx = args.outputs[0].data;
  for_each_row(args.inputs[0].type.shape, args.attrs.int64("axis"),
               [&](int64_t first, int64_t stride, int64_t count) {
                 double dot = 0;
                 for (int64_t i = 0; i < count; ++i) {
                   dot += y[first + i * stride] * dy[first + i * stride];
                 }
                 for (int64_t i = 0; i < count; ++i) {
                   const int64_t at = first + i * stride;
                   dx[at] = y[at] * (dy[at] - dot);
                 }
               });
}

}  // namespace

std::span<const RefKernelDef> softmax_ref_kernels() {
  static const RefKernelDef kernels[] = {
      {"softmax", run_softmax}, {"masked_softmax", run_masked}, {"softmax_grad", run_softmax_grad}};
  return kernels;
}

}  // namespace snug

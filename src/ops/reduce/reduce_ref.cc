// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/reference/reference.h"
#include "ops/index_map.h"
#include "ops/reduce/reduce.h"

namespace snug {
namespace {

template <class Combine>
void reduce(const RefArgs& args, double start, Combine combine) {
  const RefTensor& x = args.inputs[0];
  const RefTensor& y = args.outputs[0];
  const std::vector<int64_t> to =
      broadcast_map(reduced_shape(x.type.shape, args.attrs.ints("axes")), x.type.shape);
  std::fill_n(y.data, y.size(), start);
  for (size_t i = 0; i < to.size(); ++i) y.data[to[i]] = combine(y.data[to[i]], x.data[i]);
}

void run_reduce_sum(const RefArgs& args) {
  reduce(args, 0, [](double sum, double x) { return sum + x; });
}

void run_reduce_mean(const RefArgs& args) {
  run_reduce_sum(args);
  const auto count =
      static_cast<double>(args.inputs[0].size()) / static_cast<double>(args.outputs[0].size());
  for (int64_t i = 0; i < args.outputs[0].size(); ++i) args.outputs[0].data[i] /= count;
}

void run_reduce_max(const RefArgs& args) {
  reduce(args, -std::numeric_limits<double>::infinity(),
         [](double top, double x) { return std::isnan(x) || x > top ? x : top; });
}

void run_sum_squares(const RefArgs& args) {
  double sum = 0;
  for (int64_t i = 0; i < args.inputs[0].size(); ++i)
    sum += args.inputs[0].data[i] * args.inputs[0].data[i];
  args.outputs[0].data[0] = sum;
}

}  // namespace

std::span<const RefKernelDef> reduce_ref_kernels() {
  static const RefKernelDef kernels[] = {{"reduce_sum", run_reduce_sum},
                                         {"reduce_mean", run_reduce_mean},
                                         {"reduce_max", run_reduce_max},
                                         {"sum_squares", run_sum_squares}};
  return kernels;
}

}  // namespace snug

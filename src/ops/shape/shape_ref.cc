// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "backend/reference/reference.h"
#include "base/index_vector.h"
#include "ops/index_map.h"

namespace snug {
namespace {

int64_t axis_of(const RefArgs& args) {
  const auto rank = static_cast<int64_t>(args.inputs[0].type.shape.size());
  return normalize_axis(args.attrs.int64("axis"), rank, "axis");
}

void run_reshape(const RefArgs& args) {
  std::copy_n(args.inputs[0].data, args.inputs[0].size(), args.outputs[0].data);
}

void run_transpose(const RefArgs& args) {
  const RefTensor& x = args.inputs[0];
  const RefTensor& y = args.outputs[0];
  const std::vector<int64_t>& perm = args.attrs.ints("perm");
  for (int64_t i = 0; i < y.size(); ++i) {
    const std::vector<int64_t> at = coordinates_of(i, y.type.shape);
    IndexVector<int64_t> from(at.size());
    for (size_t d = 0; d < at.size(); ++d) from[perm[d]] = at[d];
    y.data[i] = x.data[element_at(from, x.type.shape)];
  }
}

// Copies `part` into `whole` (or the other way round) where it starts at `start` along the axis.
enum class Direction : uint8_t { into_whole, out_of_whole };
void copy_part(const RefTensor& part, const RefTensor& whole, int64_t axis, int64_t start,
               Direction direction) {
  for (int64_t i = 0; i < part.size(); ++i) {
    IndexVector<int64_t> at = coordinates_of(i, part.type.shape);
    at[axis] += start;
    double& in_whole = whole.data[element_at(at, whole.type.shape)];
    if (direction == Direction::into_whole) {
      in_whole = part.data[i];
    } else {
      part.data[i] = in_whole;
    }
  }
}

void run_slice(const RefArgs& args) {
  copy_part(args.outputs[0], args.inputs[0], axis_of(args), args.attrs.int64("start"),
            Direction::out_of_whole);
}

void run_pad(const RefArgs& args) {
  std::fill_n(args.outputs[0].data, args.outputs[0].size(), 0.0);
  copy_part(args.inputs[0], args.outputs[0], axis_of(args), args.attrs.int64("before"),
            Direction::into_whole);
}

void run_concat(const RefArgs& args) {
  const int64_t axis = axis_of(args);
  int64_t start = 0;
  for (const RefTensor& part : args.inputs) {
    copy_part(part, args.outputs[0], axis, start, Direction::into_whole);
    start += part.type.shape[axis];
  }
}

void run_broadcast_to(const RefArgs& args) {
  const std::vector<int64_t> from =
      broadcast_map(args.inputs[0].type.shape, args.outputs[0].type.shape);
  for (size_t i = 0; i < from.size(); ++i) args.outputs[0].data[i] = args.inputs[0].data[from[i]];
}

void run_sum_to(const RefArgs& args) {
  const std::vector<int64_t> to =
      broadcast_map(args.outputs[0].type.shape, args.inputs[0].type.shape);
  std::fill_n(args.outputs[0].data, args.outputs[0].size(), 0.0);
  for (size_t i = 0; i < to.size(); ++i) args.outputs[0].data[to[i]] += args.inputs[0].data[i];
}

}  // namespace

std::span<const RefKernelDef> shape_ref_kernels() {
  static const RefKernelDef kernels[] = {
      {"reshape", run_reshape}, {"transpose", run_transpose}, {"slice", run_slice},
      {"pad", run_pad},         {"concat", run_concat},       {"broadcast_to", run_broadcast_to},
      {"sum_to", run_sum_to},
  };
  return kernels;
}

}  // namespace snug

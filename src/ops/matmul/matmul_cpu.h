// SPDX-License-Identifier: Apache-2.0
// What the kernels of matmul and matmul_accumulate share.
// Legend: B batches, M rows of dst, N columns of dst, K the summed dimension.
#pragma once

#include "backend/cpu/kernel.h"
#include "ops/matmul/matmul.h"

namespace snug {

/// A product node, its two ops as one.
struct MatmulNode {
  int64_t batches = 1;
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  bool transpose_a = false;
  bool transpose_b = false;
  bool has_bias = false;     // a row, added to every row
  bool accumulates = false;  // onto another input
  size_t sum_input = 0;      // that one
  bool b_is_shared = true;   // rank 2: leading dimensions of a are rows
  size_t a_input = 0;        // b follows a, bias follows b
  DType operands = DType::f32;
  DType stored = DType::f32;  // dst, and what it is summed onto
};

[[nodiscard]] inline MatmulNode matmul_node_of(const NodeSpec& spec) {
  MatmulNode p;
  if (*spec.op->name == "matmul_accumulate") {
    p.accumulates = true;
    p.a_input = 1;
  } else if (spec.inputs.has(2)) {
    p.has_bias = spec.inputs[2].shape.size() == 1;
    p.accumulates = !p.has_bias;
    p.sum_input = 2;
  }
  p.transpose_a = spec.attrs.boolean("transpose_a");
  p.transpose_b = spec.attrs.boolean("transpose_b");
  const Shape& a = spec.inputs[p.a_input].shape;
  const Shape& b = spec.inputs[p.a_input + 1].shape;
  const MatmulDims dims = matmul_dims(a, b, p.transpose_a, p.transpose_b);
  p.batches = dims.batch;
  p.m = dims.m;
  p.n = dims.n;
  p.k = dims.k;
  p.b_is_shared = b.size() == 2;
  p.operands = spec.inputs[p.a_input].dtype;
  p.stored = spec.outputs[0].dtype;
  return p;
}

/// amx:matmul for nodes of these types.
[[nodiscard]] CpuKernelDef amx_matmul(const char* op, const char* types);
/// simd:matmul_pairs for nodes of these types.
[[nodiscard]] CpuKernelDef pairs_matmul(const char* op, const char* types);
/// simd:matmul for nodes of these types.
[[nodiscard]] CpuKernelDef simd_matmul(const char* op, const char* types);

}  // namespace snug

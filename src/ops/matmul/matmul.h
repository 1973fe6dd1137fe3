// SPDX-License-Identifier: Apache-2.0
// Matrix products. M, N, K are the rows, columns and summed length of the product.
//
// matmul(a, b, bias?) {transpose_a, transpose_b, to} = op(a) op(b) + bias
//   a     (..., M, K), or (..., K, M) with transpose_a
//   b     (K, N) or (N, K): all leading dims of a are rows, and a is transposed only where its rank
//   is 2;
//         or (..., K, N) with the leading dims of a: one product a batch element
//   bias  (N), or of the product's own shape: the sum of two products without a third tensor (the
//         gates of a recurrent net)
//   a and b are of one floating type; sums are f32. The product is stored as `to` says, or as a is;
//   a bias (N) is f32, one of the product's shape is stored as the product.
//   Gradient: da = dy op(b)^T, db = op(a)^T dy (over all rows when b has rank 2), dbias = sum of dy
//   over rows, or dy itself; f32 for what is made of weights only. Keeps a and b.
// matmul_accumulate(acc, a, b) {transpose_a, transpose_b} = acc + op(a) op(b), rank 2 only, in
// acc's own bytes, which are f32: a weight
//   gradient without a temporary. Not differentiable.
#pragma once

#include <string>

#include "graph/builder.h"

namespace snug {

struct MatmulOptions {
  bool transpose_a = false;
  bool transpose_b = false;
  ValueId bias = kNone;
  std::string to = {};  // empty: as a
};
[[nodiscard]] ValueId matmul(GraphBuilder& builder, ValueId a, ValueId b,
                             const MatmulOptions& options = {});
[[nodiscard]] ValueId matmul_accumulate(GraphBuilder& builder, ValueId acc, ValueId a, ValueId b,
                                        const MatmulOptions& options = {});

/// The gradient by the bias of a product whose gradient is `dy`: of a row the sum over all rows, of
/// one of the product's shape `dy` itself.
[[nodiscard]] ValueId bias_gradient(GraphBuilder& builder, ValueId bias, ValueId dy);

/// The sizes of one product; shared by the shape rule, the cost and the kernels.
struct MatmulDims {
  int64_t batch = 1;  // separate products
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
};
/// The sizes of a node whose types have passed the shape rule.
[[nodiscard]] MatmulDims matmul_dims(const Shape& a, const Shape& b, bool transpose_a,
                                     bool transpose_b);

/// (..., C) as (rows, C): a view.
[[nodiscard]] ValueId as_rows(GraphBuilder& builder, ValueId x);

}  // namespace snug

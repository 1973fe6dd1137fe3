// SPDX-License-Identifier: Apache-2.0
// Ops on the values of a network. Shapes are checked at the call; what has no gradient says so.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "snug/network.h"

namespace snug {

// Element by element. Two operands broadcast as numpy's; f32.
[[nodiscard]] Tensor operator+(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor operator-(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor operator*(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor operator/(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor operator-(const Tensor& x);
[[nodiscard]] Tensor operator*(double factor, const Tensor& x);
[[nodiscard]] Tensor exp(const Tensor& x);
[[nodiscard]] Tensor log(const Tensor& x);
[[nodiscard]] Tensor sqrt(const Tensor& x);
[[nodiscard]] Tensor rsqrt(const Tensor& x);
[[nodiscard]] Tensor tanh(const Tensor& x);
[[nodiscard]] Tensor erf(const Tensor& x);
[[nodiscard]] Tensor sigmoid(const Tensor& x);
[[nodiscard]] Tensor relu(const Tensor& x);
[[nodiscard]] Tensor gelu(const Tensor& x);
/// a where the condition (boolean) is true, b elsewhere.
[[nodiscard]] Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor cast(const Tensor& x, DType to);
// Comparisons of f32 with f32 or i32 with i32; boolean.
[[nodiscard]] Tensor equal(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor not_equal(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor less(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor less_equal(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor greater(const Tensor& a, const Tensor& b);
[[nodiscard]] Tensor greater_equal(const Tensor& a, const Tensor& b);
/// f32 of one value everywhere.
[[nodiscard]] Tensor fill(NetworkBuilder& builder, double value, const Shape& shape);

// Shapes.
[[nodiscard]] Tensor reshape(const Tensor& x, const Shape& shape);
[[nodiscard]] Tensor transpose(const Tensor& x, const std::vector<int64_t>& order);
/// [start, stop) of one axis.
[[nodiscard]] Tensor slice(const Tensor& x, int64_t axis, int64_t start, int64_t stop);
/// Zeros before and after, along one axis.
[[nodiscard]] Tensor pad(const Tensor& x, int64_t axis, int64_t before, int64_t after);
[[nodiscard]] Tensor concat(const std::vector<Tensor>& parts, int64_t axis);
[[nodiscard]] Tensor broadcast_to(const Tensor& x, const Shape& shape);
/// Images (N, H, W, C) -> (N, factor H, factor W, C), every pixel repeated.
[[nodiscard]] Tensor upsample_nearest(const Tensor& x, int64_t factor);

// Reductions over axes.
[[nodiscard]] Tensor reduce_sum(const Tensor& x, const std::vector<int64_t>& axes,
                                bool keep_dims = false);
[[nodiscard]] Tensor reduce_mean(const Tensor& x, const std::vector<int64_t>& axes,
                                 bool keep_dims = false);
[[nodiscard]] Tensor reduce_max(const Tensor& x, const std::vector<int64_t>& axes,
                                bool keep_dims = false);

/// (..., m, k) (..., k, n) -> (..., m, n); either may be given transposed.
struct MatmulFlags {
  bool transpose_a = false;
  bool transpose_b = false;
};
[[nodiscard]] Tensor matmul(const Tensor& a, const Tensor& b, MatmulFlags flags = {});

[[nodiscard]] Tensor softmax(const Tensor& x, int64_t axis = -1);
/// Over the last axis, of the elements whose mask (boolean, broadcast to x) is true; the others are
/// 0.
[[nodiscard]] Tensor masked_softmax(const Tensor& x, const Tensor& mask);

/// Images (N, H, W, C).
struct Window2d {
  int64_t kernel = 2;  // the same for height and width, as all
  int64_t stride = 2;
  int64_t padding = 0;
};
[[nodiscard]] Tensor max_pool2d(const Tensor& x, const Window2d& window = {});

/// Rows of a table (n, columns) by id i32(...): (..., columns).
[[nodiscard]] Tensor gather_rows(const Tensor& table, const Tensor& ids);
/// The sum over the last axis of weights (..., T) times rows by id i32(..., T): (..., columns). The
/// rows are not stored, and a weight of 0 (of a mask, cast to f32) adds nothing.
[[nodiscard]] Tensor gather_sum(const Tensor& table, const Tensor& ids, const Tensor& weights);

/// Self-attention of several heads over q, k, v (rows, length, width), tiled: no length x length
/// tensor is stored. mask boolean(rows, length): keys that are there. A rate above 0 drops weights
/// in training.
struct AttentionFlags {
  int64_t heads = 1;
  double dropout = 0;
};
[[nodiscard]] Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v,
                               const Tensor& mask, const AttentionFlags& flags);

/// x itself in evaluation or where the rate is 0.
[[nodiscard]] Tensor dropout(const Tensor& x, double rate);

/// One step of an LSTM: gates (rows, 4 H) in the order i, f, g, o; h and c (rows, H). Rows whose
/// mask boolean(rows) is false stay as they are; no mask: all go on.
struct LstmTensors {
  Tensor h;
  Tensor c;
};
[[nodiscard]] LstmTensors lstm_cell(const Tensor& gates, const LstmTensors& state,
                                    const Tensor& mask = {});

}  // namespace snug

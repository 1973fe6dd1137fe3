// SPDX-License-Identifier: Apache-2.0
// What the files of the element-wise CPU kernels share: row functions chosen for this processor,
// and the walk over broadcast operands. Private to elementwise_*_cpu.cc.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "backend/cpu/kernel.h"
#include "base/threads.h"
#include "snug/types.h"

namespace snug {

/// Elements of one piece of work: a few tens of microseconds at most, and a multiple of every
/// vector length, so that which elements form a vector does not depend on the number of threads.
inline constexpr int64_t kElementwiseChunk = 4096;

/// y[i] = f(x[i]); `factor` is used by scale only. y may be x.
using UnaryRow = void (*)(const float* x, float* y, int64_t n, float factor);
/// dx[i] from dy[i] and the saved input or output of the op. dx may be either of them.
using GradRow = void (*)(const float* saved, const float* dy, float* dx, int64_t n);
/// y[i] = f(a[i or 0], b[i or 0]): a step is 0 or 1. y may be a or b where the step is 1.
using BinaryRow = void (*)(const float* a, int64_t a_step, const float* b, int64_t b_step, float* y,
                           int64_t n);

/// Null for a name that is not one of them.
[[nodiscard]] UnaryRow find_unary_row(const std::string& op, const std::string& approximate);
[[nodiscard]] GradRow find_grad_row(const std::string& op, const std::string& approximate);
[[nodiscard]] BinaryRow find_binary_row(const std::string& op);

/// Up to three operands broadcast to one shape. Neighbouring dims along which all operands move
/// alike are merged, so equal shapes are one row and a bias is two dims.
struct BroadcastPlan {
  static constexpr size_t kMaxDims = 8;
  static constexpr size_t kMaxOperands = 3;

  size_t rank = 1;                       // at least 1
  std::array<int64_t, kMaxDims> dims{};  // the last is one row
  std::array<std::array<int64_t, kMaxDims>, kMaxOperands>
      strides{};  // in elements, 0 where broadcast
  int64_t rows = 1;

  [[nodiscard]] int64_t row_size() const { return dims[rank - 1]; }
  /// 0 or 1: how the operand moves inside a row.
  [[nodiscard]] int64_t step(size_t operand) const { return strides[operand][rank - 1]; }
};
/// The shapes broadcast to `shape`. Throws Error{internal} where more than eight dims remain; see
/// broadcast_reason().
[[nodiscard]] BroadcastPlan plan_broadcast(const Shape& shape, std::span<const Shape> operands);
/// Empty where plan_broadcast() works for this node, else why not.
[[nodiscard]] std::string broadcast_reason(const NodeSpec& spec, const CpuContext& context);

/// Calls body(offsets of the operands, offset of the result, n) for pieces of rows that together
/// cover the result.
template <class Body>
void for_each_piece(const BroadcastPlan& plan, int threads, const Body& body) {
  const int64_t row_size = plan.row_size();
  if (plan.rows == 0 || row_size == 0) return;
  const int64_t pieces = (row_size + kElementwiseChunk - 1) / kElementwiseChunk;
  const int64_t grain = std::max<int64_t>(1, kElementwiseChunk / row_size);
  parallel_for(threads, plan.rows * pieces, grain, [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin; unit < end; ++unit) {
      const int64_t row = pieces == 1 ? unit : unit / pieces;
      const int64_t first = pieces == 1 ? 0 : unit % pieces * kElementwiseChunk;
      std::array<int64_t, BroadcastPlan::kMaxOperands> offsets{};
      int64_t rest = row;
      for (size_t i = plan.rank - 1; i-- > 0;) {
        const int64_t coordinate = i == 0 ? rest : rest % plan.dims[i];
        rest /= plan.dims[i];
        for (size_t o = 0; o < offsets.size(); ++o) offsets[o] += coordinate * plan.strides[o][i];
      }
      for (size_t o = 0; o < offsets.size(); ++o) offsets[o] += first * plan.step(o);
      body(offsets, row * row_size + first, std::min(kElementwiseChunk, row_size - first));
    }
  });
}

}  // namespace snug

// SPDX-License-Identifier: Apache-2.0
// Rotary position embedding (Su et al. 2021, section 3.2.2) of packed queries, keys and values.
// B samples, T tokens, E = heads * D columns, D even.
//
// rotary_qkv(qkv (B, T, 3 E)) {heads, theta} -> q, k, v (B, T, E)
//   The three are the thirds of qkv's columns. In q and k, columns i and i + D / 2 of a head of
//   token t become the pair turned by the angle a = t * theta^(-2 i / D):
//     y_i = x_i cos a - x_(i + D/2) sin a, y_(i + D/2) = x_(i + D/2) cos a + x_i sin a
//   Angles are formed in f32, as every implementation does whose weights there are: at position
//   8000 a frequency's last digit is 5e-4 of a radian.
// rotary_qkv_grad(dq, dk, dv) {the same} -> dqkv, turned back. Not differentiable.
// The gradient keeps nothing. T is at most 65536, D at most 1024.
#pragma once

#include <cmath>

#include "graph/builder.h"

namespace snug {

struct RotaryOutputs {
  ValueId q = kNone;
  ValueId k = kNone;
  ValueId v = kNone;
};
[[nodiscard]] RotaryOutputs rotary_qkv(GraphBuilder& builder, ValueId qkv, int64_t heads,
                                       double theta);

/// The angle of pair i of `columns` at token t.
[[nodiscard]] inline float rotary_angle(double theta, int64_t columns, int64_t i, int64_t t) {
  const auto exponent = static_cast<float>(2 * i) / static_cast<float>(columns);
  const auto period = static_cast<float>(std::pow(theta, static_cast<double>(exponent)));
  return static_cast<float>(t) * (1.0F / period);
}

}  // namespace snug

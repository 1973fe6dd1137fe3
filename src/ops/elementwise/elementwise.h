// SPDX-License-Identifier: Apache-2.0
// Element-wise ops. All data are f32 unless it says otherwise; two or three operands broadcast as
// in numpy, and the gradient of a broadcast operand is summed back to its shape (sum_to).
//
//   op                          gradient                        keeps
//   add a + b, sub a - b        dy; dy, -dy                     nothing
//   mul a b                     dy b, dy a                      a, b
//   div a / b                   t = dy / b, -t y                b, y
//   neg -x, scale factor x      -dy, factor dy                  nothing
//   exp, sqrt, rsqrt            dy y, dy / 2y, -dy y^3 / 2      y
//   tanh, sigmoid               dy (1 - y^2), dy y (1 - y)      y
//   log, erf                    dy / x, 2/sqrt(pi) dy e^(-x^2)  x
//   relu max(x, 0)              relu_grad(y, dy)                y
//   gelu                        gelu_grad(x, dy)                x
//   where cond ? a : b          dy on its side, else 0          cond
//   cast                        cast(dy) (f32 to f32 only)      nothing
// relu_grad: dy where y > 0, else 0.
// gelu {approximate}: "none" x Phi(x), or "tanh" x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
// cast {to}: to i32 it cuts toward zero (saturating, NaN is 0), to bool it is x != 0.
// Comparisons take f32 or i32, both the same, and give bool. where takes any element type, a and b
// the same. fill {value, shape} has no inputs and gives f32. In place: an operand may be
// overwritten where it has as many bytes as the result.
#pragma once

#include <string>

#include "graph/builder.h"

namespace snug {

[[nodiscard]] ValueId add(GraphBuilder& builder, ValueId a, ValueId b);
[[nodiscard]] ValueId sub(GraphBuilder& builder, ValueId a, ValueId b);
[[nodiscard]] ValueId mul(GraphBuilder& builder, ValueId a, ValueId b);
[[nodiscard]] ValueId div(GraphBuilder& builder, ValueId a, ValueId b);

[[nodiscard]] ValueId neg(GraphBuilder& builder, ValueId x);
[[nodiscard]] ValueId exp(GraphBuilder& builder, ValueId x);
[[nodiscard]] ValueId log(GraphBuilder& builder, ValueId x);
[[nodiscard]] ValueId sqrt(GraphBuilder& builder, ValueId x);
[[nodiscard]] ValueId rsqrt(GraphBuilder& builder, ValueId x);
[[nodiscard]] ValueId tanh(GraphBuilder& builder, ValueId x);
[[nodiscard]] ValueId erf(GraphBuilder& builder, ValueId x);
[[nodiscard]] ValueId sigmoid(GraphBuilder& builder, ValueId x);
[[nodiscard]] ValueId relu(GraphBuilder& builder, ValueId x);
[[nodiscard]] ValueId gelu(GraphBuilder& builder, ValueId x,
                           const std::string& approximate = "none");
[[nodiscard]] ValueId gelu_grad(GraphBuilder& builder, ValueId x, ValueId dy,
                                const std::string& approximate = "none");
[[nodiscard]] ValueId relu_grad(GraphBuilder& builder, ValueId y, ValueId dy);
[[nodiscard]] ValueId scale(GraphBuilder& builder, ValueId x, double factor);

[[nodiscard]] ValueId where(GraphBuilder& builder, ValueId condition, ValueId a, ValueId b);
[[nodiscard]] ValueId cast(GraphBuilder& builder, ValueId x, DType to);
[[nodiscard]] ValueId equal(GraphBuilder& builder, ValueId a, ValueId b);
[[nodiscard]] ValueId not_equal(GraphBuilder& builder, ValueId a, ValueId b);
[[nodiscard]] ValueId less(GraphBuilder& builder, ValueId a, ValueId b);
[[nodiscard]] ValueId less_equal(GraphBuilder& builder, ValueId a, ValueId b);
[[nodiscard]] ValueId greater(GraphBuilder& builder, ValueId a, ValueId b);
[[nodiscard]] ValueId greater_equal(GraphBuilder& builder, ValueId a, ValueId b);
[[nodiscard]] ValueId fill(GraphBuilder& builder, double value, const Shape& shape);

}  // namespace snug

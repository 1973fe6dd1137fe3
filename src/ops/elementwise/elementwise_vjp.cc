// SPDX-License-Identifier: Apache-2.0
#include "ops/elementwise/elementwise_vjp.h"

#include <numbers>

#include "ops/elementwise/elementwise.h"
#include "ops/shape/shape.h"

namespace snug::elementwise_vjp {
namespace {

// The gradient of operand `index`, which may have been broadcast.
ValueId to_operand(const VjpArgs& args, size_t index, ValueId gradient) {
  return snug::sum_to(args.builder, gradient, args.type(args.in(index)).shape);
}

}  // namespace

Values add(const VjpArgs& args) {
  Values result(2, kNone);
  for (size_t i : {0u, 1u}) {
    if (args.wants[i]) result[i] = to_operand(args, i, args.dy[0]);
  }
  return result;
}

// The negation comes after the sum: on the smaller tensor.
Values sub(const VjpArgs& args) {
  Values result(2, kNone);
  if (args.wants[0]) result[0] = to_operand(args, 0, args.dy[0]);
  if (args.wants[1]) result[1] = snug::neg(args.builder, to_operand(args, 1, args.dy[0]));
  return result;
}

Values mul(const VjpArgs& args) {
  Values result(2, kNone);
  for (size_t i : {0u, 1u}) {
    if (args.wants[i])
      result[i] = to_operand(args, i, snug::mul(args.builder, args.dy[0], args.in(1 - i)));
  }
  return result;
}

Values div(const VjpArgs& args) {
  GraphBuilder& b = args.builder;
  Values result(2, kNone);
  const ValueId quotient = snug::div(b, args.dy[0], args.in(1));
  if (args.wants[0]) result[0] = to_operand(args, 0, quotient);
  if (args.wants[1])
    result[1] = snug::neg(b, to_operand(args, 1, snug::mul(b, quotient, args.out(0))));
  return result;
}

Values neg(const VjpArgs& args) { return {snug::neg(args.builder, args.dy[0])}; }

Values exp(const VjpArgs& args) { return {snug::mul(args.builder, args.dy[0], args.out(0))}; }

Values log(const VjpArgs& args) { return {snug::div(args.builder, args.dy[0], args.in(0))}; }

Values sqrt(const VjpArgs& args) {
  return {snug::scale(args.builder, snug::div(args.builder, args.dy[0], args.out(0)), 0.5)};
}

Values rsqrt(const VjpArgs& args) {
  GraphBuilder& b = args.builder;
  const ValueId y = args.out(0);
  const ValueId cube = snug::mul(b, snug::mul(b, y, y), y);
  return {snug::scale(b, snug::mul(b, args.dy[0], cube), -0.5)};
}

Values tanh(const VjpArgs& args) {
  GraphBuilder& b = args.builder;
  const ValueId y = args.out(0);
  return {snug::sub(b, args.dy[0], snug::mul(b, snug::mul(b, args.dy[0], y), y))};
}

Values erf(const VjpArgs& args) {
  GraphBuilder& b = args.builder;
  const ValueId x = args.in(0);
  const ValueId bell = snug::exp(b, snug::neg(b, snug::mul(b, x, x)));
  return {snug::scale(b, snug::mul(b, args.dy[0], bell), 2 * std::numbers::inv_sqrtpi)};
}

Values sigmoid(const VjpArgs& args) {
  GraphBuilder& b = args.builder;
  const ValueId y = args.out(0);
  const ValueId scaled = snug::mul(b, args.dy[0], y);
  return {snug::sub(b, scaled, snug::mul(b, scaled, y))};
}

Values relu(const VjpArgs& args) {
  return {snug::relu_grad(args.builder, args.out(0), args.dy[0])};
}

Values gelu(const VjpArgs& args) {
  return {
      snug::gelu_grad(args.builder, args.in(0), args.dy[0], args.node.attrs.text("approximate"))};
}

Values scale(const VjpArgs& args) {
  return {snug::scale(args.builder, args.dy[0], args.node.attrs.real("factor"))};
}

Values where(const VjpArgs& args) {
  GraphBuilder& b = args.builder;
  Values result(3, kNone);
  ValueId zero = snug::fill(b, 0, {});
  const DType dtype = args.type(args.dy[0]).dtype;
  if (dtype != DType::f32) zero = snug::cast(b, zero, dtype);
  if (args.wants[1]) result[1] = to_operand(args, 1, snug::where(b, args.in(0), args.dy[0], zero));
  if (args.wants[2]) result[2] = to_operand(args, 2, snug::where(b, args.in(0), zero, args.dy[0]));
  return result;
}

// A gradient that is of x's type already, as sums over a batch are, is handed on.
Values cast(const VjpArgs& args) {
  if (args.type(args.dy[0]).dtype == args.type(args.in(0)).dtype) return {args.dy[0]};
  return {snug::cast(args.builder, args.dy[0], args.type(args.in(0)).dtype)};
}

}  // namespace snug::elementwise_vjp

// SPDX-License-Identifier: Apache-2.0
// Row functions of one operand and of its gradients, compiled once a Highway target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/elementwise/elementwise_unary_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "backend/cpu/math-inl.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

constexpr float kInvSqrtTwoPi = 0.398942280F;
// 2 sqrt(2 / pi): gelu's tanh form is x sigmoid(2 u), which has no cancellation.
constexpr float kTanhSlope = 1.59576912F;
constexpr float kTanhCubic = 0.044715F;

HWY_INLINE V32 gelu_sigmoid(V32 x) {
  const V32 inner =
      hn::MulAdd(hn::Mul(x, x), constant(kTanhSlope * kTanhCubic), constant(kTanhSlope));
  return sigmoid_full(hn::Mul(x, inner));
}
// d/dx x s(x) with s = sigmoid(2 u): s + x s (1 - s) 2 u'.
HWY_INLINE V32 gelu_tanh_slope(V32 x) {
  const V32 s = gelu_sigmoid(x);
  const V32 rise =
      hn::MulAdd(hn::Mul(x, x), constant(3 * kTanhSlope * kTanhCubic), constant(kTanhSlope));
  const V32 bell = hn::Mul(s, hn::Sub(constant(1.0F), s));
  return hn::MulAdd(hn::Mul(x, bell), rise, s);
}
// Phi(x) + x phi(x). The density is 0 long before |x| reaches the clamp.
HWY_INLINE V32 gelu_exact_slope(V32 x) {
  const NormalCdf normal = normal_cdf(x);
  const V32 clamped = at_most(constant(14.0F), at_least(constant(-14.0F), x));
  return hn::MulAdd(hn::Mul(clamped, constant(kInvSqrtTwoPi)), normal.exponential, normal.cdf);
}

#define SNUG_UNARY_ROW(name, expression)                                                    \
  void name##_row(const float* src, float* dst, int64_t n, float factor) {                  \
    (void)factor;                                                                           \
    map_vectors<RowDistance::far>(dst, src, n, [=](V32 x) HWY_ATTR { return expression; }); \
  }
SNUG_UNARY_ROW(neg, hn::Neg(x))
SNUG_UNARY_ROW(exp, exp_full(x))
SNUG_UNARY_ROW(log, log_full(x))
SNUG_UNARY_ROW(sqrt, hn::Sqrt(x))
SNUG_UNARY_ROW(rsqrt, reciprocal(hn::Sqrt(x)))
SNUG_UNARY_ROW(tanh, tanh_full(x))
SNUG_UNARY_ROW(erf, erf_full(x))
SNUG_UNARY_ROW(sigmoid, sigmoid_full(x))
SNUG_UNARY_ROW(relu, hn::IfThenZeroElse(hn::Lt(x, hn::Zero(F32())), x))
SNUG_UNARY_ROW(scale, hn::Mul(x, constant(factor)))
SNUG_UNARY_ROW(gelu_exact, hn::Mul(x, normal_cdf(x).cdf))
SNUG_UNARY_ROW(gelu_tanh, hn::Mul(x, gelu_sigmoid(x)))
#undef SNUG_UNARY_ROW

void relu_grad_row(const float* y, const float* dy, float* dx, int64_t n) {
  map_vectors<RowDistance::far>(dx, y, dy, n, [](V32 at, V32 d) HWY_ATTR {
    return hn::IfThenElseZero(hn::Gt(at, hn::Zero(F32())), d);
  });
}
void gelu_grad_exact_row(const float* x, const float* dy, float* dx, int64_t n) {
  map_vectors<RowDistance::far>(
      dx, x, dy, n, [](V32 at, V32 d) HWY_ATTR { return hn::Mul(d, gelu_exact_slope(at)); });
}
void gelu_grad_tanh_row(const float* x, const float* dy, float* dx, int64_t n) {
  map_vectors<RowDistance::far>(
      dx, x, dy, n, [](V32 at, V32 d) HWY_ATTR { return hn::Mul(d, gelu_tanh_slope(at)); });
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "ops/elementwise/elementwise_cpu.h"

namespace snug {
namespace {

HWY_EXPORT(neg_row);
HWY_EXPORT(exp_row);
HWY_EXPORT(log_row);
HWY_EXPORT(sqrt_row);
HWY_EXPORT(rsqrt_row);
HWY_EXPORT(tanh_row);
HWY_EXPORT(erf_row);
HWY_EXPORT(sigmoid_row);
HWY_EXPORT(relu_row);
HWY_EXPORT(scale_row);
HWY_EXPORT(gelu_exact_row);
HWY_EXPORT(gelu_tanh_row);
HWY_EXPORT(relu_grad_row);
HWY_EXPORT(gelu_grad_exact_row);
HWY_EXPORT(gelu_grad_tanh_row);

}  // namespace

UnaryRow find_unary_row(const std::string& op, const std::string& approximate) {
  if (op == "neg") return HWY_DYNAMIC_DISPATCH(neg_row);
  if (op == "exp") return HWY_DYNAMIC_DISPATCH(exp_row);
  if (op == "log") return HWY_DYNAMIC_DISPATCH(log_row);
  if (op == "sqrt") return HWY_DYNAMIC_DISPATCH(sqrt_row);
  if (op == "rsqrt") return HWY_DYNAMIC_DISPATCH(rsqrt_row);
  if (op == "tanh") return HWY_DYNAMIC_DISPATCH(tanh_row);
  if (op == "erf") return HWY_DYNAMIC_DISPATCH(erf_row);
  if (op == "sigmoid") return HWY_DYNAMIC_DISPATCH(sigmoid_row);
  if (op == "relu") return HWY_DYNAMIC_DISPATCH(relu_row);
  if (op == "scale") return HWY_DYNAMIC_DISPATCH(scale_row);
  if (op == "gelu" && approximate == "tanh") return HWY_DYNAMIC_DISPATCH(gelu_tanh_row);
  if (op == "gelu") return HWY_DYNAMIC_DISPATCH(gelu_exact_row);
  return nullptr;
}

GradRow find_grad_row(const std::string& op, const std::string& approximate) {
  if (op == "relu_grad") return HWY_DYNAMIC_DISPATCH(relu_grad_row);
  if (op == "gelu_grad" && approximate == "tanh") return HWY_DYNAMIC_DISPATCH(gelu_grad_tanh_row);
  if (op == "gelu_grad") return HWY_DYNAMIC_DISPATCH(gelu_grad_exact_row);
  return nullptr;
}

}  // namespace snug
#endif  // HWY_ONCE

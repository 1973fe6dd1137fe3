// SPDX-License-Identifier: Apache-2.0
// Elementary functions of f32 vectors, compiled once a Highway target (see simd-inl.h). Each is a
// Chebyshev fit made for the interval it is used on; errors named below are measured against
// double. NaN stays NaN in all of them.

// Include guard a target (Highway's convention), not #pragma once.
#if defined(SNUG_BACKEND_CPU_MATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef SNUG_BACKEND_CPU_MATH_INL_H_
#undef SNUG_BACKEND_CPU_MATH_INL_H_
#else
#define SNUG_BACKEND_CPU_MATH_INL_H_
#endif

#include <limits>

#include "backend/cpu/simd-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

HWY_INLINE V32 constant(float value) { return hn::Set(F32(), value); }

// min(limit, x) and max(limit, x) that keep a NaN in x: x86's vector instructions give their second
// operand then, ARM's and the portable targets the number.
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128 || HWY_ARCH_ARM
#define SNUG_MIN_DROPS_NAN 1
#else
#define SNUG_MIN_DROPS_NAN 0
#endif
HWY_INLINE V32 at_most(V32 limit, V32 x) {
#if SNUG_MIN_DROPS_NAN
  return hn::IfThenElse(hn::Gt(x, limit), limit, x);
#else
  return hn::Min(limit, x);
#endif
}
HWY_INLINE V32 at_least(V32 limit, V32 x) {
#if SNUG_MIN_DROPS_NAN
  return hn::IfThenElse(hn::Lt(x, limit), limit, x);
#else
  return hn::Max(limit, x);
#endif
}
#undef SNUG_MIN_DROPS_NAN

/// c0 + c1 x + c2 x^2 + ...
template <class... Rest>
HWY_INLINE V32 polynomial(V32 x, float c0, Rest... rest) {
  if constexpr (sizeof...(Rest) == 0) {
    return constant(c0);
  } else {
    return hn::MulAdd(polynomial(x, rest...), x, constant(c0));
  }
}

// e^x = 2^n e^r with n = round(x / ln 2) and |r| <= ln 2 / 2. 1.5 * 2^23 rounds to a whole number,
// and leaves n in the low bits of the sum.
struct ExpParts {
  V32 mantissa;        // e^r
  hn::Vec<I32> power;  // n, in the low 9 bits
};
HWY_INLINE ExpParts exp_parts(V32 x) {
  const V32 shifter = constant(12582912.0F);
  const V32 shifted = hn::MulAdd(x, constant(1.44269504F), shifter);
  const V32 n = hn::Sub(shifted, shifter);
  // ln 2 in two parts: n times the first is exact.
  V32 r = hn::NegMulAdd(n, constant(0.693359375F), x);
  r = hn::MulAdd(n, constant(2.12194440e-4F), r);
  const V32 p =
      polynomial(r, 0.5F, 0.1666657703F, 0.04166655466F, 0.008363173075F, 0.001392617612F);
  return {hn::Add(hn::MulAdd(hn::Mul(r, r), p, r), constant(1.0F)), hn::BitCast(I32(), shifted)};
}
HWY_INLINE V32 power_of_two(hn::Vec<I32> exponent) {
  return hn::BitCast(F32(), hn::ShiftLeft<23>(hn::Add(exponent, hn::Set(I32(), 127))));
}

/// e^x to 1e-7 relative; 0 where the result would be below the smallest normal number, infinite
/// from x = 88.4 on.
HWY_INLINE V32 exp_flushed(V32 x) {
  const ExpParts parts = exp_parts(at_most(constant(88.6F), x));
  const V32 y = hn::Mul(parts.mantissa, power_of_two(parts.power));
  return hn::IfThenZeroElse(hn::Lt(x, constant(-87.33F)), y);
}

/// e^x to 1e-7 relative over the whole range that f32 can represent as normal numbers.
HWY_INLINE V32 exp_full(V32 x) {
  const ExpParts parts = exp_parts(at_most(constant(89.0F), at_least(constant(-104.0F), x)));
  const hn::Vec<I32> n = hn::ShiftRight<23>(hn::ShiftLeft<23>(parts.power));
  const hn::Vec<I32> half = hn::ShiftRight<1>(n);
  return hn::Mul(hn::Mul(parts.mantissa, power_of_two(half)), power_of_two(hn::Sub(n, half)));
}

/// Natural logarithm to 2e-7 relative: -inf at 0, NaN below.
HWY_INLINE V32 log_full(V32 x) {
  const F32 d;
  const I32 di;
  // Numbers below the smallest normal one are lifted by 2^25 first.
  const auto is_small = hn::Lt(x, constant(std::numeric_limits<float>::min()));
  const V32 lifted = hn::IfThenElse(is_small, hn::Mul(x, constant(33554432.0F)), x);
  const V32 lift = hn::IfThenElseZero(is_small, constant(25.0F));
  const hn::Vec<I32> bits = hn::BitCast(di, lifted);
  // The exponent for which the rest lies in [sqrt(1/2), sqrt(2)).
  const hn::Vec<I32> exponent = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(di, 0x3f3504f3)));
  const V32 f = hn::Sub(hn::BitCast(d, hn::Sub(bits, hn::ShiftLeft<23>(exponent))), constant(1.0F));
  const V32 e = hn::Sub(hn::ConvertTo(d, exponent), lift);
  const V32 q = polynomial(f, 0.3333333073F, -0.2500030642F, 0.2000104509F, -0.1664128146F,
                           0.1421449592F, -0.1299818376F, 0.1262231985F, -0.07902743772F);
  const V32 square = hn::Mul(f, f);
  V32 y = hn::MulAdd(hn::Mul(square, f), q, hn::Mul(e, constant(-2.12194440e-4F)));
  y = hn::NegMulAdd(constant(0.5F), square, y);
  y = hn::MulAdd(e, constant(0.693359375F), hn::Add(f, y));
  const V32 infinity = constant(std::numeric_limits<float>::infinity());
  y = hn::IfThenElse(hn::Eq(x, infinity), infinity, y);
  y = hn::IfThenElse(hn::Eq(x, hn::Zero(d)), hn::Neg(infinity), y);
  return hn::IfThenElse(hn::Ge(x, hn::Zero(d)), y,
                        constant(std::numeric_limits<float>::quiet_NaN()));
}

HWY_INLINE V32 reciprocal(V32 x) { return hn::Div(constant(1.0F), x); }

HWY_INLINE V32 sigmoid_full(V32 x) {
  return reciprocal(hn::Add(constant(1.0F), exp_flushed(hn::Neg(x))));
}

/// Hyperbolic tangent to 3e-7 relative.
HWY_INLINE V32 tanh_full(V32 x) {
  const V32 magnitude = hn::Abs(x);
  const V32 s = hn::Mul(x, x);
  const V32 p = polynomial(s, -0.3333333033F, 0.1333291537F, -0.05387394885F, 0.02111095905F,
                           -0.00626911972F);
  const V32 small = hn::MulAdd(hn::Mul(x, s), p, x);
  const V32 e = exp_flushed(hn::Add(magnitude, magnitude));
  const V32 large = hn::Sub(constant(1.0F), hn::Div(constant(2.0F), hn::Add(e, constant(1.0F))));
  return hn::IfThenElse(hn::Lt(magnitude, constant(0.6F)), small, hn::CopySign(large, x));
}

/// Q(t) = 1 - Phi(t) for t >= 0, and e^(-t^2 / 2), both to 5e-7 relative (5e-6 without fused
/// multiplication) down to where they underflow. The fit is of Q(t) e^(t^2 / 2) as a polynomial in
/// u = 1 / (1 + 0.27 t), so neither tail cancels.
struct NormalTail {
  V32 tail;
  V32 exponential;
};
HWY_INLINE NormalTail normal_tail(V32 t) {
  // t^2 in two parts: the rounding of one only would cost 1e-6 where e^(-t^2 / 2) is small.
  const V32 square = hn::Mul(t, t);
  const V32 half_rest = hn::Mul(constant(0.5F), hn::MulSub(t, t, square));
  V32 e = exp_flushed(hn::Mul(square, constant(-0.5F)));
  e = hn::NegMulAdd(e, half_rest, e);
  const V32 u = reciprocal(hn::MulAdd(t, constant(0.27F), constant(1.0F)));
  const V32 p =
      polynomial(u, 0.1077228677F, 0.107505172F, 0.102077635F, 0.07102125876F, 0.1101888901F,
                 -0.07254234447F, 0.1726109032F, -0.1278078489F, 0.02922347818F);
  return {hn::Mul(hn::Mul(e, u), p), e};
}

/// Error function to 3e-7 relative.
HWY_INLINE V32 erf_full(V32 x) {
  const V32 magnitude = hn::Abs(x);
  const V32 s = hn::Mul(x, x);
  const V32 small =
      hn::Mul(x, polynomial(s, 1.128379166F, -0.3761262667F, 0.1128359472F, -0.02685421201F,
                            0.005189087423F, -0.0008016864287F, 7.875875063e-5F));
  const V32 t = hn::Mul(at_most(constant(9.0F), magnitude), constant(1.41421356F));
  const V32 tail = normal_tail(t).tail;
  const V32 large = hn::CopySign(hn::NegMulAdd(constant(2.0F), tail, constant(1.0F)), x);
  return hn::IfThenElse(hn::Lt(magnitude, constant(1.0F)), small, large);
}

/// Phi(x), the normal distribution function, and e^(-x^2 / 2).
struct NormalCdf {
  V32 cdf;
  V32 exponential;
};
HWY_INLINE NormalCdf normal_cdf(V32 x) {
  const NormalTail q = normal_tail(at_most(constant(14.0F), hn::Abs(x)));
  const V32 upper = hn::Sub(constant(1.0F), q.tail);
  return {hn::IfThenElse(hn::Lt(x, hn::Zero(F32())), q.tail, upper), q.exponential};
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#endif

// SPDX-License-Identifier: Apache-2.0
// Row functions of add, sub, mul and div, compiled once a Highway target. A row of an operand is a
// vector or one number.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/elementwise/elementwise_binary_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "backend/cpu/simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

template <class F>
HWY_INLINE void binary_row(const float* a, int64_t a_step, const float* b, int64_t b_step, float* y,
                           int64_t n, F f) {
  const F32 d;
  if (a_step == 1 && b_step == 1) {
    map_vectors<RowDistance::far>(y, a, b, n, f);
  } else if (a_step == 1) {
    const V32 one_b = hn::Set(d, *b);
    map_vectors<RowDistance::far>(y, a, n, [=](V32 va) HWY_ATTR { return f(va, one_b); });
  } else if (b_step == 1) {
    const V32 one_a = hn::Set(d, *a);
    map_vectors<RowDistance::far>(y, b, n, [=](V32 vb) HWY_ATTR { return f(one_a, vb); });
  } else {
    const V32 result = f(hn::Set(d, *a), hn::Set(d, *b));
    const float value = hn::GetLane(result);
    for (int64_t i = 0; i < n; ++i) y[i] = value;
  }
}

#define SNUG_BINARY_ROW(name, function)                                                     \
  void name##_row(const float* a, int64_t a_step, const float* b, int64_t b_step, float* y, \
                  int64_t n) {                                                              \
    binary_row(a, a_step, b, b_step, y, n,                                                  \
               [](V32 va, V32 vb) HWY_ATTR { return hn::function(va, vb); });               \
  }
SNUG_BINARY_ROW(add, Add)
SNUG_BINARY_ROW(sub, Sub)
SNUG_BINARY_ROW(mul, Mul)
SNUG_BINARY_ROW(div, Div)
#undef SNUG_BINARY_ROW

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "ops/elementwise/elementwise_cpu.h"

namespace snug {
namespace {

HWY_EXPORT(add_row);
HWY_EXPORT(sub_row);
HWY_EXPORT(mul_row);
HWY_EXPORT(div_row);

}  // namespace

BinaryRow find_binary_row(const std::string& op) {
  if (op == "add") return HWY_DYNAMIC_DISPATCH(add_row);
  if (op == "sub") return HWY_DYNAMIC_DISPATCH(sub_row);
  if (op == "mul") return HWY_DYNAMIC_DISPATCH(mul_row);
  if (op == "div") return HWY_DYNAMIC_DISPATCH(div_row);
  return nullptr;
}

}  // namespace snug
#endif  // HWY_ONCE

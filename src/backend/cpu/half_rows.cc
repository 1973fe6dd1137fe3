// SPDX-License-Identifier: Apache-2.0
// Row functions between f32 and the types of 16 bits, compiled once a Highway target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/half_rows.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "backend/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

template <class From, class To>
HWY_INLINE void cast_row(const std::byte* src, std::byte* dst, int64_t n) {
  const auto* x = reinterpret_cast<const From*>(src);
  auto* y = reinterpret_cast<To*>(dst);
  const int64_t lanes = lanes_f32();
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    fetch_ahead<RowDistance::far>(x + i);
    store_at(load_at(x, i, -1), y, i, -1);
  }
  if (i < n) store_at(load_at(x, i, n - i), y, i, n - i);
}
void f32_to_bf16_row(const std::byte* x, std::byte* y, int64_t n) {
  cast_row<float, Bf16>(x, y, n);
}
void f32_to_f16_row(const std::byte* x, std::byte* y, int64_t n) { cast_row<float, F16>(x, y, n); }
void bf16_to_f32_row(const std::byte* x, std::byte* y, int64_t n) {
  cast_row<Bf16, float>(x, y, n);
}
void f16_to_f32_row(const std::byte* x, std::byte* y, int64_t n) { cast_row<F16, float>(x, y, n); }

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/half_rows.h"

namespace snug {

HWY_EXPORT(f32_to_bf16_row);
HWY_EXPORT(f32_to_f16_row);
HWY_EXPORT(bf16_to_f32_row);
HWY_EXPORT(f16_to_f32_row);

CastRow find_cast_row(DType from, DType to) {
  if (from == DType::f32 && to == DType::bf16) return HWY_DYNAMIC_DISPATCH(f32_to_bf16_row);
  if (from == DType::f32 && to == DType::f16) return HWY_DYNAMIC_DISPATCH(f32_to_f16_row);
  if (from == DType::bf16 && to == DType::f32) return HWY_DYNAMIC_DISPATCH(bf16_to_f32_row);
  if (from == DType::f16 && to == DType::f32) return HWY_DYNAMIC_DISPATCH(f16_to_f32_row);
  return nullptr;
}

}  // namespace snug
#endif

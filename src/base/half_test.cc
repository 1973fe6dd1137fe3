// SPDX-License-Identifier: Apache-2.0
// The plain conversions to 16 bits against what they mean: the nearest number that there is.
#include "base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>

namespace snug {
namespace {

// Every pattern is the nearest to itself, and what lies half way to the next goes to the even one.
template <class Half>
void check_rounding(const std::function<Half(float)>& round, uint16_t infinity) {
  for (uint16_t bits = 0; bits < infinity; ++bits) {
    const float value = to_f32(Half{bits});
    ASSERT_EQ(round(value).bits, bits);
    ASSERT_EQ(round(-value).bits, bits | 0x8000);
    if (bits + 1 == infinity) break;
    const float next = to_f32(Half{static_cast<uint16_t>(bits + 1)});
    const float middle = static_cast<float>((static_cast<double>(value) + next) / 2);
    ASSERT_EQ(round(middle).bits, bits + (bits & 1)) << value;
    ASSERT_EQ(round(std::nextafter(middle, 0.0F)).bits, bits) << value;
    ASSERT_EQ(round(std::nextafter(middle, next)).bits, bits + 1) << value;
  }
}

TEST(Half, every_number_is_rounded_to_the_nearest) {
  check_rounding<Bf16>(to_bf16, 0x7F80);
  check_rounding<F16>(to_f16, 0x7C00);
}

TEST(Half, what_has_no_nearest_number) {
  const float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(to_f32(to_bf16(infinity)), infinity);
  EXPECT_EQ(to_f32(to_bf16(std::numeric_limits<float>::max())), infinity);
  EXPECT_EQ(to_f32(to_f16(-infinity)), -infinity);
  EXPECT_EQ(to_f32(to_f16(65519)), 65504);
  EXPECT_EQ(to_f32(to_f16(65520)), infinity);
  EXPECT_EQ(to_f32(to_f16(0x1p-25F)), 0);
  EXPECT_EQ(to_f32(to_f16(std::nextafter(0x1p-25F, 1.0F))), 0x1p-24F);
  // The payload of a NaN may lie in the bits that go.
  for (const uint32_t bits : {0x7F800001U, 0xFF800001U, 0x7FC00000U, 0x7FFFFFFFU}) {
    EXPECT_TRUE(std::isnan(to_f32(to_bf16(std::bit_cast<float>(bits)))));
    EXPECT_TRUE(std::isnan(to_f32(to_f16(std::bit_cast<float>(bits)))));
  }
}

}  // namespace
}  // namespace snug

// SPDX-License-Identifier: Apache-2.0
// Element types of kernels: what is listed is taken, all else is refused by name; rows in 16 bits
// are the plain conversions' on every instruction set.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "backend/cpu/half_rows.h"
#include "backend/cpu/one_kernel_test.h"
#include "backend/type_signature.h"
#include "base/mapped_block.h"
#include "base/units.h"
#include "snug/error.h"

namespace snug {
namespace {

std::string mismatch(const char* types, const OneKernel& one) {
  return TypeSignature(types).mismatch(one.spec());
}

TEST(Type_signature, names_the_operand_that_has_another_type) {
  OneKernel one("embedding");
  one.add_normal({3, 2}).add({DType::i32, {2}}, {0, 1});
  EXPECT_EQ(mismatch("f32 i32 -> f32", one), "");
  EXPECT_EQ(mismatch("bf16|f32 * -> *", one), "");
  EXPECT_EQ(mismatch("bf16|f16 i32 -> f32", one), "table is f32, not bf16 or f16");
  EXPECT_EQ(mismatch("f32 i64 -> f32", one), "ids is i32, not i64");
  EXPECT_EQ(mismatch("f32 i32 -> bf16", one), "y is f32, not bf16");
}

TEST(Type_signature, an_absent_input_has_no_type_and_the_last_may_repeat) {
  OneKernel product("matmul");
  product.add_normal({2, 3}).add_normal({3, 2}).add_absent();
  EXPECT_EQ(mismatch("f32 f32 i64 -> f32", product), "");
  OneKernel parts("concat", {{"axis", int64_t{0}}});
  parts.add_normal({2}).add_normal({3}).add_normal({4});
  EXPECT_EQ(mismatch("f32... -> f32", parts), "");
  EXPECT_EQ(mismatch("bf16... -> f32", parts), "x is f32, not bf16");
}

TEST(Type_signature, what_is_no_signature_is_a_bug) {
  for (const char* text : {"", "f32", "f32 ->", "f64 -> f32", "f32... f32 -> f32", "f32 -> f32...",
                           "f32 -> f32 -> f32", "| -> f32"})
    EXPECT_THROW(TypeSignature{text}, Error) << text;
}

TEST(Cpu_backend, says_which_types_its_kernels_take) {
  OneKernel one("layer_norm", {{"eps", 1e-5}});
  one.add_normal({2, 4}).add_normal({4}).add_normal({4});
  NodeSpec spec = one.spec();
  spec.outputs[0].dtype = DType::i64;
  const auto backend = make_cpu_backend({.threads = 1, .profile = default_profile()});
  try {
    (void)backend->select(spec);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(std::string(error.what()).find("simd:layer_norm: y is i64, not "), std::string::npos)
        << error.what();
  }
}

// Every pattern, numbers between them, and rows with a tail.
template <class Half>
std::vector<double> numbers_around() {
  std::vector<double> numbers;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float value = to_f32(Half{static_cast<uint16_t>(bits)});
    numbers.push_back(static_cast<double>(value));
    numbers.push_back(static_cast<double>(std::nextafter(value, 2 * value)));
    numbers.push_back(static_cast<double>(value * 1.00390625F));
  }
  numbers.pop_back();
  return numbers;
}

template <class Half>
void check_casts(const char* name, DType dtype, const std::function<Half(float)>& round) {
  const std::vector<double> numbers = numbers_around<Half>();
  const Shape shape = {static_cast<int64_t>(numbers.size())};
  for_each_target([&](const std::string& target) {
    SCOPED_TRACE(target + " " + name);
    OneKernel to("cast", {{"to", std::string(name)}});
    to.add({DType::f32, shape}, numbers);
    OneKernel back("cast", {{"to", std::string("f32")}});
    back.add({dtype, shape}, numbers);
    const std::vector<std::byte> bits = run_on_cpu_to_bytes(to, 2)[0];
    const std::vector<double> values = run_on_cpu(back, 2)[0];
    for (size_t i = 0; i < numbers.size(); ++i) {
      const Half want = round(static_cast<float>(numbers[i]));
      Half found;
      std::memcpy(&found, bits.data() + i * sizeof found, sizeof found);
      if (std::isnan(numbers[i])) {
        ASSERT_TRUE(std::isnan(to_f32(found)) && std::isnan(values[i])) << i;
        continue;
      }
      ASSERT_EQ(found.bits, want.bits) << numbers[i];
      ASSERT_EQ(values[i], static_cast<double>(to_f32(want))) << numbers[i];
    }
  });
}

TEST(Rows_in_16_bits, are_rounded_as_the_plain_conversions_do) {
  check_casts<Bf16>("bf16", DType::bf16, to_bf16);
  check_casts<F16>("f16", DType::f16, to_f16);
}

// Each row ends at the end of its page, behind which nothing may be read or written.
TEST(Rows_in_16_bits, nothing_beyond_their_end_is_touched) {
  const MappedBlock block(kPageBytes);
  std::vector<float> wide(16, 1.5F);
  auto* values = reinterpret_cast<std::byte*>(wide.data());
  for_each_target([&](const std::string& target) {
    SCOPED_TRACE(target);
    for (const DType dtype : {DType::bf16, DType::f16}) {
      const CastRow narrow = find_cast_row(DType::f32, dtype);
      const CastRow widen = find_cast_row(dtype, DType::f32);
      for (const int64_t count : {1, 3, 7, 9, 15}) {
        std::byte* row = block.data() + kPageBytes - 2 * count;
        narrow(values, row, count);
        std::ranges::fill(wide, 0.0F);
        widen(row, values, count);
        EXPECT_EQ(std::ranges::count(wide, 1.5F), count);
        std::ranges::fill(wide, 1.5F);
      }
    }
  });
}

}  // namespace
}  // namespace snug

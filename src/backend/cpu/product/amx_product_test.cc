// SPDX-License-Identifier: Apache-2.0
// Products on tiles against a plain loop that follows TDPBF16PS as Intel describes it, bit for bit,
// whatever the blocks, the threads and the cuts of K.
#include "backend/cpu/product/amx_product.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "backend/cpu/amx.h"
#include "backend/cpu/product/product_testing.h"
#include "base/half.h"

namespace snug {
namespace {

struct Operands {
  std::vector<Bf16> a;
  std::vector<Bf16> b;
  std::vector<float> bias;
  std::vector<float> before;  // what dst holds; exact in bf16
};
Operands operands_of(const AmxProductSpec& p, float scale = 1) {
  Operands with{halves(draw(p.m * p.k, 1, scale)), halves(draw(p.k * p.n, 2)), draw(p.n, 3),
                draw(p.m * p.n, 4)};
  for (float& value : with.before) value = to_f32(to_bf16(value));
  return with;
}

float flushed(float x) {
  return std::fabs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0F, x) : x;
}

// One instruction's share of an element: products of even and of odd K in two chains, begun with
// zero, their sum added to what there is. No intermediate result is subnormal.
float plain_step(const AmxProductSpec& p, const Operands& with, int64_t row, int64_t column,
                 int64_t first, float sum) {
  float chains[2] = {0, 0};
  for (int64_t k = first; k < std::min(first + 32, p.k); ++k) {
    const float a =
        to_f32(with.a[static_cast<size_t>(p.transpose_a ? k * p.m + row : row * p.k + k)]);
    const float b =
        to_f32(with.b[static_cast<size_t>(p.transpose_b ? column * p.k + k : k * p.n + column)]);
    chains[k % 2] = flushed(std::fma(flushed(a), flushed(b), chains[k % 2]));
  }
  return flushed(sum + flushed(chains[0] + chains[1]));
}

std::vector<float> plain(const AmxProductSpec& p, const Operands& with) {
  std::vector<float> dst = with.before;
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n; ++j) {
      float& element = dst[static_cast<size_t>(i * p.n + j)];
      float sum = p.accumulates ? flushed(element) : 0.0F;
      for (int64_t k = 0; k < p.k; k += 32) sum = plain_step(p, with, i, j, k, sum);
      element = sum + with.bias[static_cast<size_t>(j)];
    }
  }
  return dst;
}

template <class T>
std::byte* bytes_of(std::vector<T>& values) {
  return reinterpret_cast<std::byte*>(values.data());
}

// dst as f32, in whichever type it is stored.
std::vector<float> run(const AmxProductSpec& p, Operands with, int threads) {
  const AmxProduct product(p, threads);
  Scratch scratch(product.scratch_bytes());
  std::vector<Bf16> stored = halves(with.before);
  const bool is_half = p.stored == DType::bf16;
  product.run({.a = bytes_of(with.a),
               .b = bytes_of(with.b),
               .bias = with.bias.data(),
               .dst = is_half ? bytes_of(stored) : bytes_of(with.before),
               .scratch = scratch.data()});
  EXPECT_TRUE(scratch.is_intact());
  for (size_t i = 0; is_half && i < stored.size(); ++i) with.before[i] = to_f32(stored[i]);
  return with.before;
}

std::vector<float> as_stored(DType stored, std::vector<float> values) {
  for (float& value : values) value = stored == DType::bf16 ? to_f32(to_bf16(value)) : value;
  return values;
}

std::string text(const AmxProductSpec& p) {
  return std::to_string(p.m) + " x " + std::to_string(p.n) + " over " + std::to_string(p.k) +
         (p.transpose_a ? " t" : " n") + (p.transpose_b ? "t" : "n") +
         (p.accumulates ? " onto " : " to ") + to_string(p.stored);
}

// Both sides of a panel, of a step, of every block and, in f32, of a slice of K.
std::vector<AmxProductSpec> specs() {
  std::vector<AmxProductSpec> all;
  const int64_t sizes[][3] = {{1, 1, 1},      {32, 32, 32},   {33, 31, 33},     {5, 70, 700},
                              {130, 66, 770}, {260, 90, 385}, {64, 1301, 96},   {1301, 40, 64},
                              {33, 40, 8200}, {1100, 70, 40}, {70, 1100, 2100}, {0, 3, 4},
                              {3, 0, 4}};
  for (const auto& [m, n, k] : sizes) {
    for (int way = 0; way < 16; ++way) {
      const AmxProductSpec p{.m = m,
                             .n = n,
                             .k = k,
                             .transpose_a = (way & 1) != 0,
                             .transpose_b = (way & 2) != 0,
                             .accumulates = (way & 4) != 0,
                             .stored = (way & 8) != 0 ? DType::bf16 : DType::f32};
      const bool is_sliced = k > longest_amx_slice(p.transpose_a);
      if (is_sliced && p.stored != DType::f32) continue;
      if (m * n * k < int64_t{1} << 26 || (p.transpose_a && p.accumulates)) all.push_back(p);
    }
  }
  return all;
}

class AmxProducts : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_amx()) GTEST_SKIP() << "no tiles of bf16 here";
  }
};

TEST_F(AmxProducts, have_the_bits_of_the_plain_loop_with_any_number_of_threads) {
  for (const AmxProductSpec& p : specs()) {
    const Operands with = operands_of(p);
    const std::vector<float> expected = as_stored(p.stored, plain(p, with));
    for (const int threads : {1, 2, 3, 8})
      EXPECT_TRUE(is_equal(run(p, with, threads), expected)) << text(p) << ", " << threads;
  }
}

TEST_F(AmxProducts, take_subnormal_numbers_for_zero) {
  const AmxProductSpec p{.m = 40, .n = 40, .k = 100, .accumulates = true};
  Operands with = operands_of(p, 1e-37F);
  std::fill(with.bias.begin(), with.bias.end(), 0.0F);
  for (float& value : with.before) value *= 1e-38F;
  const auto is_subnormal = [](float x) { return x != flushed(x); };
  EXPECT_GT(std::count_if(with.before.begin(), with.before.end(), is_subnormal), 0);
  EXPECT_TRUE(is_equal(run(p, with, 1), plain(p, with)));
}

// So a weight's gradient has the same bits in any number of micro-batches of such lengths.
TEST_F(AmxProducts, sum_up_to_the_same_bits_wherever_K_is_cut_at_whole_steps) {
  AmxProductSpec whole{.m = 70, .n = 50, .k = 500, .transpose_a = true};
  Operands with = operands_of(whole);
  std::fill(with.bias.begin(), with.bias.end(), 0.0F);
  const std::vector<float> expected = run(whole, with, 2);
  for (const int64_t cut : {32, 64, 384, 480}) {
    AmxProductSpec first = whole;
    first.k = cut;
    AmxProductSpec second = whole;
    second.k = whole.k - cut;
    second.accumulates = true;
    Operands rest = with;
    rest.a.erase(rest.a.begin(), rest.a.begin() + cut * whole.m);
    rest.b.erase(rest.b.begin(), rest.b.begin() + cut * whole.n);
    rest.before = run(first, with, 2);
    EXPECT_TRUE(is_equal(run(second, rest, 2), expected)) << cut;
  }
}

// So does a row of any micro-batch.
TEST_F(AmxProducts, give_a_row_the_same_bits_among_any_others) {
  const AmxProductSpec all{
      .m = 600, .n = 100, .k = 800, .transpose_b = true, .stored = DType::bf16};
  const Operands with = operands_of(all);
  const std::vector<float> expected = run(all, with, 2);
  for (const int64_t rows : {1, 33, 200}) {
    AmxProductSpec some = all;
    some.m = rows;
    Operands part = with;
    part.before.resize(static_cast<size_t>(rows * all.n));
    part.a.erase(part.a.begin(), part.a.end() - rows * all.k);
    const std::vector<float> last(expected.end() - rows * all.n, expected.end());
    EXPECT_TRUE(is_equal(run(some, part, 3), last)) << rows;
  }
}

// The planner takes it that shorter rows of a batch fit where the longest do.
TEST(AmxProduct, needs_no_more_scratch_for_a_smaller_size) {
  const auto scratch = [](const AmxProductSpec& p) { return AmxProduct(p, 2).scratch_bytes(); };
  const int64_t sizes[] = {1, 31, 32, 33, 64, 96, 150, 384, 500, 1024, 3072, 5000};
  for (int way = 0; way < 4; ++way) {
    AmxProductSpec p{.transpose_a = (way & 1) != 0, .transpose_b = (way & 2) != 0};
    for (p.n = 40; p.n <= 10000; p.n *= 5) {
      for (const int64_t m : sizes) {
        int64_t before = 0;
        for (const int64_t k : sizes) {
          p.m = m;
          p.k = k;
          const int64_t bytes = scratch(p);
          EXPECT_GE(bytes, before) << text(p);
          before = bytes;
          p.m = m + m / 3 + 1;
          EXPECT_GE(scratch(p), bytes) << text(p);
        }
      }
    }
  }
}

}  // namespace
}  // namespace snug

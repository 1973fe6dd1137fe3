// SPDX-License-Identifier: Apache-2.0
// Products of pairs of bf16 against a plain loop that follows VDPBF16PS as Intel describes it, bit
// for bit, whatever the blocks, the threads and the cuts of K.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "backend/cpu/onednn.h"
#include "backend/cpu/product/product.h"
#include "backend/cpu/product/product_testing.h"
#include "base/half.h"

namespace snug {
namespace {

struct Shape3 {
  int64_t m;
  int64_t n;
  int64_t k;  // of bf16, not of pairs
};

/// a is (K, M), b is (K, N).
struct Operands {
  explicit Operands(const Shape3& p)
      : a(halves(draw(p.k * p.m, 1))), b(halves(draw(p.k * p.n, 2))), before(draw(p.m * p.n, 3)) {}
  std::vector<Bf16> a;
  std::vector<Bf16> b;
  std::vector<float> before;  // what dst holds
};

// The product of a pair's second elements is added first. No number here is subnormal.
std::vector<float> plain(const Shape3& p, const Operands& with, bool accumulates) {
  std::vector<float> dst = with.before;
  for (int64_t i = 0; i < p.m; ++i) {
    for (int64_t j = 0; j < p.n; ++j) {
      float sum = accumulates ? dst[static_cast<size_t>(i * p.n + j)] : 0.0F;
      for (int64_t pair = 0; pair < p.k; pair += 2) {
        for (const int64_t k : {pair + 1, pair}) {
          if (k == p.k) continue;
          sum = std::fma(to_f32(with.a[static_cast<size_t>(k * p.m + i)]),
                         to_f32(with.b[static_cast<size_t>(k * p.n + j)]), sum);
        }
      }
      dst[static_cast<size_t>(i * p.n + j)] = sum;
    }
  }
  return dst;
}

// Rows [first, first + rows) of K.
void multiply(const Shape3& p, const Operands& with, int64_t first, int64_t rows, bool accumulates,
              int threads, std::vector<float>& dst) {
  const Product product({.m = p.m,
                         .n = p.n,
                         .k = (rows + 1) / 2,
                         .transpose_a = true,
                         .accumulates = accumulates,
                         .has_pairs = true},
                        threads);
  Scratch scratch(product.scratch_bytes());
  product.run({.a = {.stride = p.m, .source = with.a.data() + first * p.m, .rows = rows},
               .b = {.stride = p.n, .source = with.b.data() + first * p.n, .rows = rows},
               .dst = dst.data(),
               .dst_stride = p.n,
               .scratch = scratch.data()});
  EXPECT_TRUE(scratch.is_intact());
}

class PairProduct : public testing::Test {
 protected:
  void SetUp() override {
    if (!has_bf16_products()) GTEST_SKIP() << "this processor has no products of pairs";
  }
};

// Every remainder of a tile, of a pair, and both sides of every block.
TEST_F(PairProduct, computes_the_bits_of_the_plain_loop_with_any_number_of_threads) {
  for (const Shape3& p : {Shape3{1, 1, 1}, Shape3{1, 70, 2}, Shape3{12, 32, 64}, Shape3{13, 33, 65},
                          Shape3{24, 31, 7}, Shape3{35, 100, 769}, Shape3{130, 50, 1537},
                          Shape3{200, 1500, 90}, Shape3{300, 16, 800}}) {
    const Operands with(p);
    for (const bool accumulates : {false, true}) {
      const std::vector<float> expected = plain(p, with, accumulates);
      for (const int threads : {1, 2, 3, 8}) {
        std::vector<float> dst = with.before;
        multiply(p, with, 0, p.k, accumulates, threads, dst);
        EXPECT_TRUE(is_equal(dst, expected))
            << p.m << " x " << p.n << " over " << p.k << (accumulates ? " onto, " : ", ") << threads
            << " threads";
      }
    }
  }
}

TEST_F(PairProduct, sums_up_to_the_same_bits_wherever_K_is_cut_between_pairs) {
  const Shape3 p{70, 50, 1001};
  const Operands with(p);
  const std::vector<float> expected = plain(p, with, false);
  for (const int64_t cut : {2, 64, 768, 1000}) {
    std::vector<float> dst = with.before;
    multiply(p, with, 0, cut, false, 2, dst);
    multiply(p, with, cut, p.k - cut, true, 2, dst);
    EXPECT_TRUE(is_equal(dst, expected)) << cut;
  }
}

}  // namespace
}  // namespace snug

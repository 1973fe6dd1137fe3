// SPDX-License-Identifier: Apache-2.0
// Products against the plain loop, bit for bit: one chain of fused multiply-adds an element, on
// every instruction set of this processor, whatever the blocks, the threads and the cuts of K.
#include "backend/cpu/product/product.h"

#include <gtest/gtest.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "backend/cpu/product/blocking.h"
#include "backend/cpu/product/panels.h"
#include "backend/cpu/product/product_kernels.h"
#include "backend/cpu/product/product_testing.h"
#include "backend/cpu/product/stored_floats.h"
#include "base/half.h"

namespace snug {
namespace {

/// Operands of a spec, and what dst holds before.
struct Operands {
  std::vector<float> a;
  std::vector<float> b;
  std::vector<float> before;
};
Operands operands_of(const ProductSpec& p) {
  return {draw(p.batches * p.m * p.k, 1), draw(p.batches * p.k * p.n, 2),
          draw(p.batches * p.m * p.n, 3)};
}

// The plain version.
std::vector<float> plain(const ProductSpec& p, const Operands& with) {
  std::vector<float> dst = with.before;
  for (int64_t i = 0; i < p.batches * p.m; ++i) {
    const float* a = with.a.data() + i / p.m * p.m * p.k;
    const float* b = with.b.data() + i / p.m * p.k * p.n;
    const int64_t row = i % p.m;
    for (int64_t j = 0; j < p.n; ++j) {
      float sum = p.accumulates ? dst[static_cast<size_t>(i * p.n + j)] : 0.0F;
      for (int64_t k = 0; k < p.k; ++k) {
        sum = std::fma(a[p.transpose_a ? k * p.m + row : row * p.k + k],
                       b[p.transpose_b ? j * p.k + k : k * p.n + j], sum);
      }
      dst[static_cast<size_t>(i * p.n + j)] = sum;
    }
  }
  return dst;
}

int64_t a_width(const ProductSpec& p) { return p.transpose_a ? p.m : p.k; }
int64_t b_width(const ProductSpec& p) { return p.transpose_b ? p.k : p.n; }

std::vector<float> run(const ProductSpec& p, const Operands& with, int threads) {
  std::vector<float> dst = with.before;
  const Product product(p, threads);
  Scratch scratch(product.scratch_bytes());
  product.run({.a = {.data = with.a.data(), .stride = a_width(p)},
               .b = {.data = with.b.data(), .stride = b_width(p)},
               .dst = dst.data(),
               .dst_stride = p.n,
               .scratch = scratch.data()});
  EXPECT_TRUE(scratch.is_intact());
  return dst;
}

std::string text(const ProductSpec& p) {
  return std::to_string(p.batches) + " of " + std::to_string(p.m) + " x " + std::to_string(p.n) +
         " over " + std::to_string(p.k) + (p.transpose_a ? " t" : " n") +
         (p.transpose_b ? "t" : "n") + (p.accumulates ? " onto" : "");
}

// Every remainder of a tile, both sides of every block, and shapes of one row or column.
std::vector<ProductSpec> specs() {
  std::vector<ProductSpec> all;
  const int64_t sizes[][4] = {
      {1, 1, 1, 1},     {1, 1, 70, 33},   {1, 2, 35, 700},  {1, 3, 130, 9},    {1, 5, 16, 400},
      {1, 7, 17, 65},   {1, 12, 33, 64},  {1, 16, 40, 393}, {1, 32, 96, 50},   {1, 48, 100, 770},
      {1, 49, 31, 129}, {1, 64, 200, 20}, {1, 65, 2, 400},  {1, 200, 90, 385}, {3, 9, 20, 31},
      {20, 4, 6, 8},    {1, 4, 0, 3},     {0, 4, 3, 3},     {1, 4, 5, 0},      {1, 300, 700, 40}};
  for (const auto& [batches, m, n, k] : sizes) {
    for (int way = 0; way < 8; ++way) {
      all.push_back({.batches = batches,
                     .m = m,
                     .n = n,
                     .k = k,
                     .transpose_a = (way & 1) != 0,
                     .transpose_b = (way & 2) != 0,
                     .accumulates = (way & 4) != 0});
    }
  }
  return all;
}

// Without fused instructions (Highway's plain target) sums are rounded twice as often.
bool is_close(const ProductSpec& p, const std::vector<float>& a, const std::vector<float>& b) {
  const double bound = 1e-6 * static_cast<double>(p.k + 1);
  for (size_t i = 0; i < a.size(); ++i) {
    if (!(std::fabs(static_cast<double>(a[i]) - static_cast<double>(b[i])) <= bound)) return false;
  }
  return true;
}

class EveryTarget : public testing::Test {
 protected:
  template <class F>
  static void for_each(F f) {
    for (const int64_t target : hwy::SupportedAndGeneratedTargets()) {
      hwy::SetSupportedTargetsForTest(target);
      hwy::GetChosenTarget().Update(hwy::SupportedTargets());
      SCOPED_TRACE(hwy::TargetName(target));
      f((target & (HWY_AVX2 | HWY_AVX3 | HWY_NEON)) != 0);
    }
  }
  void TearDown() override {
    hwy::SetSupportedTargetsForTest(0);
    hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  }
};

TEST_F(EveryTarget, computes_the_bits_of_the_plain_loop_with_any_number_of_threads) {
  for (const ProductSpec& p : specs()) {
    const Operands with = operands_of(p);
    const std::vector<float> expected = plain(p, with);
    for_each([&](bool is_fused) {
      for (const int threads : {1, 2, 3, 8}) {
        const std::vector<float> found = run(p, with, threads);
        EXPECT_TRUE(is_fused ? is_equal(found, expected) : is_close(p, found, expected))
            << text(p) << ", " << threads << " threads";
      }
    });
  }
}

// The product of panels, packed into memory that holds no number before.
std::vector<float> run_of_panels(ProductSpec p, const Operands& with, int64_t columns,
                                 int threads) {
  const PanelShape shape{.n = p.n, .k = p.k, .transposed = p.transpose_b, .columns = columns};
  const int64_t floats = panel_count(p.n, columns) * p.k * columns;
  std::vector<float> panels(static_cast<size_t>(floats) + 1, std::nanf(""));
  pack_panels(shape, threads, with.b.data(), panels.data());
  EXPECT_TRUE(std::isnan(panels.back())) << "written behind the panels";
  p.transpose_b = false;
  p.panel_columns = columns;
  std::vector<float> dst = with.before;
  const Product product(p, threads);
  Scratch scratch(product.scratch_bytes());
  product.run({.a = {.data = with.a.data(), .stride = a_width(p)},
               .b = {.data = panels.data()},
               .dst = dst.data(),
               .dst_stride = p.n,
               .scratch = scratch.data()});
  EXPECT_TRUE(scratch.is_intact());
  return dst;
}

TEST_F(EveryTarget, panels_packed_before_give_the_bits_of_the_plain_loop) {
  for (const ProductSpec& p : specs()) {
    if (p.batches != 1) continue;
    const Operands with = operands_of(p);
    const std::vector<float> expected = plain(p, with);
    for_each([&](bool is_fused) {
      for (const int64_t columns : {panel_columns(), 3 * panel_columns()}) {
        for (const int threads : {1, 2, 3, 8}) {
          const std::vector<float> found = run_of_panels(p, with, columns, threads);
          EXPECT_TRUE(is_fused ? is_equal(found, expected) : is_close(p, found, expected))
              << text(p) << ", panels of " << columns << ", " << threads << " threads";
        }
      }
    });
  }
}

// What a last panel lacks is zero, so that equal weights have equal panels.
TEST_F(EveryTarget, panels_hold_b_and_zeros_beyond_it) {
  const ProductSpec p{.m = 1, .n = 77, .k = 19};
  const Operands with = operands_of(p);
  for_each([&](bool) {
    const int64_t columns = panel_columns();
    for (const bool transposed : {false, true}) {
      std::vector<float> panels(static_cast<size_t>(panel_count(p.n, columns) * p.k * columns));
      std::fill(panels.begin(), panels.end(), std::nanf(""));
      const PanelShape shape{.n = p.n, .k = p.k, .transposed = transposed, .columns = columns};
      pack_panels(shape, 2, with.b.data(), panels.data());
      for (size_t i = 0; i < panels.size(); ++i) {
        const auto at = static_cast<int64_t>(i);
        const int64_t k = at / columns % p.k;
        const int64_t n = at / columns / p.k * columns + at % columns;
        const int64_t from = transposed ? n * p.k + k : k * p.n + n;
        ASSERT_EQ(panels[i], n < p.n ? with.b[static_cast<size_t>(from)] : 0.0F) << n << " " << k;
      }
    }
  });
}

TEST(Panels, of_other_widths_are_refused) {
  EXPECT_EQ(reason_against_panels(2 * panel_columns()), "");
  EXPECT_NE(reason_against_panels(panel_columns() + 1).find("no multiple of"), std::string::npos);
  EXPECT_NE(reason_against_panels(0), "");
}

TEST_F(EveryTarget, sums_up_to_the_same_bits_wherever_K_is_cut) {
  ProductSpec whole{.m = 70, .n = 50, .k = 500};
  const Operands with = operands_of(whole);
  for_each([&](bool) {
    const std::vector<float> expected = run(whole, with, 2);
    for (const int64_t cut : {1, 7, 64, 384, 499}) {
      ProductSpec first = whole;
      first.k = cut;
      ProductSpec second = whole;
      second.k = whole.k - cut;
      second.accumulates = true;
      std::vector<float> dst(expected.size());
      for (const ProductSpec& part : {first, second}) {
        const int64_t at = part.accumulates ? cut : 0;
        const Product product(part, 2);
        Scratch scratch(product.scratch_bytes());
        product.run({.a = {.data = with.a.data() + at, .stride = whole.k},
                     .b = {.data = with.b.data() + at * whole.n, .stride = whole.n},
                     .dst = dst.data(),
                     .dst_stride = whole.n,
                     .scratch = scratch.data()});
      }
      EXPECT_TRUE(is_equal(dst, expected)) << cut;
    }
  });
}

TEST_F(EveryTarget, reads_operands_and_stores_tiles_in_16_bits) {
  for (ProductSpec p : specs()) {
    Operands with = operands_of(p);
    const auto halves = [](std::vector<float>& values) {
      std::vector<Bf16> stored;
      for (float& value : values) {
        stored.push_back(to_bf16(value));
        value = to_f32(stored.back());
      }
      return stored;
    };
    const std::vector<Bf16> a = halves(with.a);
    const std::vector<Bf16> b = halves(with.b);
    const std::vector<Bf16> before = halves(with.before);
    const std::vector<float> bias = draw(p.n, 4);
    const std::vector<float> sums = plain(p, with);
    p.reads_a = p.reads_b = p.holds_tiles = true;
    for_each([&](bool is_fused) {
      for (const int threads : {1, 3}) {
        std::vector<Bf16> dst = before;
        const Product product(p, threads);
        Scratch scratch(product.scratch_bytes());
        const auto bytes = [](const std::vector<Bf16>& of) {
          return reinterpret_cast<const std::byte*>(of.data());
        };
        const StoredRows rows_a(DType::bf16, bytes(a), a_width(p));
        const StoredRows rows_b(DType::bf16, bytes(b), b_width(p));
        const StoredTiles tiles(DType::bf16, reinterpret_cast<std::byte*>(dst.data()), p.n,
                                bias.data());
        ProductLaunch launch{
            .a = rows_a.operand(), .b = rows_b.operand(), .scratch = scratch.data()};
        tiles.attach(p, launch);
        product.run(launch);
        EXPECT_TRUE(scratch.is_intact()) << text(p);
        size_t wrong = 0;
        for (size_t i = 0; i < dst.size(); ++i) {
          const float expected = sums[i] + bias[i % bias.size()];
          wrong += is_fused
                       ? dst[i].bits != to_bf16(expected).bits
                       : std::fabs(to_f32(dst[i]) - expected) > 0.02F * (1 + std::fabs(expected));
        }
        EXPECT_EQ(wrong, 0U) << text(p) << ", " << threads << " threads";
      }
    });
  }
}

// As of several nodes: the last stored row lies first.
class ReversedRows {
 public:
  ReversedRows(const std::vector<float>& rows, int64_t width) : width_(width) {
    const int64_t count = width > 0 ? static_cast<int64_t>(rows.size()) / width : 0;
    for (int64_t row = count - 1; row >= 0; --row)
      reversed_.insert(reversed_.end(), rows.begin() + row * width,
                       rows.begin() + (row + 1) * width);
  }
  [[nodiscard]] ProductOperand operand() const { return {.find = find, .source = this}; }

 private:
  static const float* find(const void* source, int64_t row) noexcept {
    const auto& of = *static_cast<const ReversedRows*>(source);
    EXPECT_GE(row, 0);
    EXPECT_LE((row + 1) * of.width_, static_cast<int64_t>(of.reversed_.size()));
    return of.reversed_.data() + of.reversed_.size() - (row + 1) * of.width_;
  }
  int64_t width_;
  std::vector<float> reversed_;
};

TEST_F(EveryTarget, finds_operands_whose_rows_lie_apart) {
  for (ProductSpec p : specs()) {
    const Operands with = operands_of(p);
    const ReversedRows a(with.a, a_width(p));
    const ReversedRows b(with.b, b_width(p));
    for_each([&](bool) {
      const std::vector<float> expected = run(p, with, 1);
      ProductSpec apart = p;
      apart.reads_a = apart.reads_b = true;
      for (const int threads : {1, 3}) {
        std::vector<float> dst = with.before;
        const Product product(apart, threads);
        Scratch scratch(product.scratch_bytes());
        product.run({.a = a.operand(),
                     .b = b.operand(),
                     .dst = dst.data(),
                     .dst_stride = p.n,
                     .scratch = scratch.data()});
        EXPECT_TRUE(scratch.is_intact()) << text(p);
        EXPECT_TRUE(is_equal(dst, expected)) << text(p) << ", " << threads << " threads";
      }
    });
  }
}

// Each element of dst is in one finished tile.
TEST(Product, finishes_every_element_once) {
  for (ProductSpec p : specs()) {
    const Operands with = operands_of(p);
    std::vector<float> dst = with.before;
    struct Count {
      std::vector<int> times;
      int64_t width;
    } count{std::vector<int>(dst.size(), 0), p.n};
    const Product product(p, 2);
    Scratch scratch(product.scratch_bytes());
    product.run({.a = {.data = with.a.data(), .stride = a_width(p)},
                 .b = {.data = with.b.data(), .stride = b_width(p)},
                 .dst = dst.data(),
                 .dst_stride = p.n,
                 .finish =
                     [](const void* context, const ProductTile& tile) noexcept {
                       auto& counted = *static_cast<Count*>(const_cast<void*>(context));
                       for (int64_t i = 0; i < tile.rows; ++i) {
                         for (int64_t j = 0; j < tile.columns; ++j)
                           ++counted.times[static_cast<size_t>((tile.row + i) * counted.width +
                                                               tile.column + j)];
                       }
                     },
                 .context = &count,
                 .scratch = scratch.data()});
    EXPECT_TRUE(std::all_of(count.times.begin(), count.times.end(), [](int n) { return n == 1; }))
        << text(p);
  }
}

// Rows of a step of a recurrent net are no whole tiles, and halves of them are not equal.
TEST(Product, parts_of_threads_are_equal_where_columns_permit_it) {
  const TileShape avx2{.rows = 6, .lanes = 8};
  for (const int64_t n : {512, 2048}) {
    for (const int64_t panels : {0, 16}) {
      const ProductSpec p{.m = 32, .n = n, .k = 512, .panel_columns = panels};
      EXPECT_EQ(choose_blocking(p, 2, avx2).grid, (ProductGrid{1, 2})) << n << ", " << panels;
    }
  }
}

// The planner takes it that shorter rows of a batch fit where the longest do.
TEST(Product, needs_no_more_scratch_for_a_smaller_size) {
  const auto scratch = [](const ProductSpec& p) { return Product(p, 2).scratch_bytes(); };
  const int64_t sizes[] = {1,  2,  3,  5,   8,   12,  16,  31,   33,  48,
                           64, 65, 96, 150, 384, 385, 500, 1024, 3072};
  constexpr int kOfPairs = 64;
  for (int way = 0; way <= kOfPairs; ++way) {
    ProductSpec p{.transpose_a = (way & 1) != 0,
                  .transpose_b = (way & 2) != 0,
                  .reads_a = (way & 4) != 0,
                  .reads_b = (way & 8) != 0,
                  .holds_tiles = (way & 16) != 0};
    if ((way & 32) != 0) p.panel_columns = panel_columns();
    if (way == kOfPairs) p = {.transpose_a = true, .has_pairs = true};
    for (const int64_t m : sizes) {
      for (const int64_t n : {1, 40, 64, 384, 3072}) {
        int64_t before = 0;
        for (const int64_t k : sizes) {
          p.m = m;
          p.n = n;
          p.k = k;
          const int64_t bytes = scratch(p);
          EXPECT_GE(bytes, before) << text(p);
          before = bytes;
          ProductSpec more = p;
          more.m = m + m / 3 + 1;
          EXPECT_GE(scratch(more), bytes) << text(p);
        }
      }
    }
  }
}

}  // namespace
}  // namespace snug

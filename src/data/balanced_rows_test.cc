// SPDX-License-Identifier: Apache-2.0
#include "data/balanced_rows.h"

#include <cmath>
#include <map>
#include <set>

#include "data/data_testing.h"
#include "data/sampler.h"

namespace snug::data {
namespace {

constexpr int64_t kRows = 100'000;

// Among 100,000 rows 1 is of class 3, 100 are of class 0, none is of class 2, the rest are of class
// 1.
int32_t label_of(int64_t row) { return row == 77 ? 3 : row % 1000 == 5 ? 0 : 1; }

BalancedRows balanced(const TemporaryFolder& folder, uint64_t seed = 9) {
  return {Subset::all(kRows), 4, label_of, seed, folder.file("balanced")};
}

TEST(BalancedRows, every_class_is_as_likely_and_every_row_within_it) {
  const TemporaryFolder folder;
  const BalancedRows rows = balanced(folder);
  EXPECT_EQ(folder.entries(), 0);
  std::map<int32_t, double> classes;
  std::map<int64_t, double> of_class_0;
  for (int64_t i = 0; i < kRows; ++i) {
    const int64_t row = rows.row(0, i);
    ASSERT_TRUE(row >= 0 && row < kRows);
    ++classes[label_of(row)];
    if (label_of(row) == 0) ++of_class_0[row];
  }
  ASSERT_EQ(classes.size(), 3u);
  // Six deviations of the binomial distribution.
  const double spread = 6 * std::sqrt(kRows * (1.0 / 3) * (2.0 / 3));
  for (const auto& [label, count] : classes) EXPECT_NEAR(count, kRows / 3.0, spread) << label;
  EXPECT_EQ(of_class_0.size(), 100u);
  for (const auto& [row, count] : of_class_0) EXPECT_NEAR(count, 333, 110) << row;
}

TEST(BalancedRows, a_draw_follows_from_seed_epoch_and_number) {
  const TemporaryFolder folder;
  const BalancedRows rows = balanced(folder);
  const BalancedRows again = balanced(folder);
  const BalancedRows other = balanced(folder, 10);
  int64_t same_seed = 0;
  int64_t other_seed = 0;
  int64_t other_epoch = 0;
  for (int64_t i = 0; i < 1000; ++i) {
    same_seed += rows.row(3, i) == again.row(3, i) ? 1 : 0;
    other_seed += rows.row(3, i) == other.row(3, i) ? 1 : 0;
    other_epoch += rows.row(3, i) == rows.row(4, i) ? 1 : 0;
  }
  EXPECT_EQ(same_seed, 1000);
  EXPECT_LT(other_seed, 300);
  EXPECT_LT(other_epoch, 300);
}

TEST(BalancedRows, a_sampler_draws_them_in_place_of_an_order_and_seeks) {
  const TemporaryFolder folder;
  const BalancedRows rows = balanced(folder);
  const auto lengths = [](std::span<const int64_t>, std::span<int32_t> out) {
    std::fill(out.begin(), out.end(), 1);
  };
  const SamplerOptions options{
      .batch_size = 30, .seed = 1, .buckets = {8}, .draw = [&](int64_t epoch, int64_t number) {
        return rows.row(epoch, number);
      }};
  TrainSampler sampler(Subset::all(kRows), lengths, options);
  EXPECT_EQ(sampler.batches_per_epoch(), 3334);
  double rare = 0;
  std::vector<int64_t> wanted;
  for (int64_t batch = 0; batch < 100; ++batch) {
    const BatchPlan plan = sampler.next();
    for (const int64_t row : plan.rows) rare += row == 77 ? 1 : 0;
    if (batch == 99) wanted.assign(plan.rows.begin(), plan.rows.end());
  }
  EXPECT_NEAR(rare, 1000, 160);
  TrainSampler resumed(Subset::all(kRows), lengths, options);
  resumed.seek(0, 99);
  const BatchPlan plan = resumed.next();
  EXPECT_EQ(std::vector<int64_t>(plan.rows.begin(), plan.rows.end()), wanted);
}

}  // namespace
}  // namespace snug::data

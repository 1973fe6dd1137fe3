// SPDX-License-Identifier: Apache-2.0
#include "nn/init.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace snug::nn {
namespace {

const Shape kShape = {400, 300};
constexpr int64_t kCount = int64_t{400} * 300;

std::vector<float> drawn(const InitRule& rule, uint64_t seed, int threads = 1) {
  std::vector<float> weight(kCount);
  initialize(weight, kShape, rule, "w", seed, threads);
  return weight;
}

double deviation_of(const std::vector<float>& weight) {
  double sum = 0;
  for (const float x : weight) sum += double{x} * x;
  return std::sqrt(sum / static_cast<double>(weight.size()));
}

TEST(Init, a_normal_has_its_deviation_and_a_cut_one_stays_within) {
  InitRule rule = InitRule::normal(0.02);
  EXPECT_NEAR(deviation_of(drawn(rule, 1)), 0.02, 2e-4);
  rule.cutoff = 2;
  const std::vector<float> cut = drawn(rule, 1);
  for (const float x : cut) ASSERT_LE(std::abs(x), 0.04F);
  // sqrt(1 - 2 c phi(c) / (2 Phi(c) - 1)) for c = 2
  EXPECT_NEAR(deviation_of(cut), 0.02 * 0.87963, 2e-4);
  double near_the_end = 0;
  for (const float x : cut) near_the_end += std::abs(x) > 0.038F ? 1 : 0;
  EXPECT_NEAR(near_the_end / kCount, 0.0125, 1e-3);  // (erf(2/sqrt 2) - erf(1.9/sqrt 2)) / 0.9545
  rule.cutoff = 1e-9;
  for (const float x : drawn(rule, 1)) ASSERT_LE(std::abs(x), 2.1e-11F);
}

TEST(Init, what_is_within_the_cutoff_is_the_uncut_draw) {
  InitRule rule = InitRule::normal(1);
  const std::vector<float> plain = drawn(rule, 3);
  rule.cutoff = 2;
  const std::vector<float> cut = drawn(rule, 3, 2);
  int64_t changed = 0;
  for (size_t i = 0; i < plain.size(); ++i) {
    if (std::abs(plain[i]) <= 2) {
      ASSERT_EQ(plain[i], cut[i]);
    } else {
      ++changed;
    }
  }
  EXPECT_NEAR(static_cast<double>(changed) / kCount, 0.0455, 2e-3);
}

TEST(Init, parts_and_threads_draw_the_same) {
  InitRule rule = InitRule::normal(1);
  rule.cutoff = 1;
  const std::vector<float> whole = drawn(rule, 5, 2);
  std::vector<float> part(101);
  initialize(part, kShape, rule, "w", 5, 1, 999);
  for (size_t i = 0; i < part.size(); ++i) EXPECT_EQ(part[i], whole[999 + i]);
  EXPECT_NE(whole, drawn(rule, 6));
}

}  // namespace
}  // namespace snug::nn

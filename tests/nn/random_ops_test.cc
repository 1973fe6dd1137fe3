// SPDX-License-Identifier: Apache-2.0
// Dropout and attention's dropout: the mask is a pure function of its keys, so it is the same in
// the backward pass, under recomputation, for every split of the batch and every padded length; and
// it has the right statistics.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "nn/ref_graph.h"
#include "ops/attention/attention.h"
#include "ops/dropout/dropout.h"

namespace snug {
namespace {

constexpr int64_t kSeed = 1234567;
constexpr int64_t kUpdate = 17;

// dropout of `data` with fixed keys; the ordinal is 0.
std::vector<double> dropped(const Shape& shape, std::vector<double> data, int64_t first_slot,
                            double rate, int64_t update = kUpdate, int64_t seed = kSeed) {
  RefGraph graph;
  const ValueId x = graph.parameter(shape, std::move(data));
  return graph.value(dropout(graph.builder, x, graph.rng(seed, update, first_slot), rate));
}
std::vector<double> mask_of(const Shape& shape, int64_t first_slot, double rate,
                            int64_t update = kUpdate, int64_t seed = kSeed) {
  return dropped(shape, std::vector<double>(static_cast<size_t>(element_count(shape)), 1),
                 first_slot, rate, update, seed);
}

std::vector<double> normals(size_t count, uint64_t seed) {
  PhiloxStream random(seed);
  std::vector<double> data(count);
  for (double& x : data) x = random.normal();
  return data;
}

std::vector<double> part(const std::vector<double>& data, size_t begin, size_t count) {
  const auto first = data.begin() + static_cast<ptrdiff_t>(begin);
  return {first, first + static_cast<ptrdiff_t>(count)};
}

TEST(Dropout, share_kept_and_scale_are_right) {
  constexpr int64_t kCount = 40000;
  for (double rate : {0.1, 0.5, 0.9}) {
    const std::vector<double> mask = mask_of({4, kCount / 4}, 0, rate);
    double mean = 0;
    for (double x : mask) {
      EXPECT_TRUE(x == 0 || x == 1 / (1 - rate));
      mean += x / static_cast<double>(kCount);
    }
    // The mean of the scaled mask is 1 with variance rate / (1 - rate) / count; five deviations.
    EXPECT_NEAR(mean, 1, 5 * std::sqrt(rate / (1 - rate) / static_cast<double>(kCount))) << rate;
  }
}

TEST(Dropout, neighbours_rows_updates_and_seeds_are_independent) {
  constexpr int64_t kCount = 20000;
  const std::vector<double> base = mask_of({1, kCount}, 0, 0.5);
  std::vector<double> shifted = base;
  std::rotate(shifted.begin(), shifted.begin() + 1, shifted.end());
  const std::vector<std::vector<double>> others = {
      shifted, mask_of({1, kCount}, 1, 0.5), mask_of({1, kCount}, 0, 0.5, kUpdate + 1),
      mask_of({1, kCount}, 0, 0.5, kUpdate, kSeed + 1)};
  for (const std::vector<double>& other : others) {
    double product = 0;
    for (size_t i = 0; i < base.size(); ++i)
      product += (base[i] - 1) * (other[i] - 1) / static_cast<double>(kCount);
    EXPECT_LE(std::abs(product), 5 / std::sqrt(static_cast<double>(kCount)));
  }
}

TEST(Dropout, two_ops_of_a_graph_draw_different_masks) {
  RefGraph graph;
  const ValueId x = graph.parameter({1, 64}, std::vector<double>(64, 1));
  const ValueId rng = graph.rng(kSeed, kUpdate, 0);
  const ValueId first = dropout(graph.builder, x, rng, 0.5);
  const ValueId second = dropout(graph.builder, x, rng, 0.5);
  EXPECT_NE(graph.value(first), graph.value(second));
}

TEST(Dropout, mask_does_not_depend_on_the_split_of_the_batch) {
  const std::vector<double> x = normals(6 * 35, 1);
  const std::vector<double> whole = dropped({6, 5, 7}, x, 10, 0.3);
  std::vector<double> pieces = dropped({4, 5, 7}, part(x, 0, 4 * 35), 10, 0.3);
  const std::vector<double> rest = dropped({2, 5, 7}, part(x, 4 * 35, 2 * 35), 14, 0.3);
  pieces.insert(pieces.end(), rest.begin(), rest.end());
  EXPECT_EQ(whole, pieces);
}

TEST(Dropout, mask_does_not_depend_on_the_padded_length) {
  const std::vector<double> padded = mask_of({2, 9, 7}, 3, 0.4);
  const std::vector<double> tight = mask_of({2, 5, 7}, 3, 0.4);
  for (size_t sample : {size_t{0}, size_t{1}}) {
    EXPECT_EQ(part(padded, sample * 63, 35), part(tight, sample * 35, 35));
  }
}

TEST(Dropout, without_samples_the_slot_does_not_matter) {
  RefGraph graph;
  const ValueId x = graph.parameter({4, 8}, std::vector<double>(32, 1));
  const Attrs attrs = {{"rate", 0.5}, {"ordinal", int64_t{3}}, {"sample_axis", int64_t{-1}}};
  const ValueId here = graph.builder.op1("dropout", {x, graph.rng(kSeed, kUpdate, 0)}, attrs);
  const ValueId there = graph.builder.op1("dropout", {x, graph.rng(kSeed, kUpdate, 8)}, attrs);
  EXPECT_EQ(graph.value(here), graph.value(there));
}

TEST(Dropout, backward_mask_is_the_forward_mask) {
  RefGraph graph;
  const ValueId x = graph.parameter({3, 11}, std::vector<double>(33, 1));
  const ValueId y = dropout(graph.builder, x, graph.rng(kSeed, kUpdate, 4), 0.4);
  const ValueId again =
      graph.builder.op1("dropout", {x, graph.builder.graph().nodes.back().inputs[1]},
                        graph.builder.graph().nodes.back().attrs);
  const ValueId dy = graph.parameter({3, 11}, std::vector<double>(33, 1));
  const auto gradients = autodiff::append_gradients(graph.builder, y, dy, std::vector<ValueId>{x});
  EXPECT_EQ(graph.value(gradients.at(x)), graph.value(y));
  EXPECT_EQ(graph.value(again), graph.value(y));
  EXPECT_EQ(graph.builder.next_random_ordinal(), 1);  // the backward pass took none
}

TEST(Dropout, rate_0_is_the_identity) {
  const std::vector<double> x = normals(12, 5);
  EXPECT_EQ(dropped({3, 4}, x, 0, 0), x);
}

// o of attention with dropout, or its dv (which is where the mask shows in the backward pass).
struct AttentionRun {
  std::vector<double> o;
  std::vector<double> dv;
};
AttentionRun run_attention(int64_t samples, int64_t length, const std::vector<double>& data,
                           const std::vector<double>& mask, int64_t first_slot) {
  RefGraph graph;
  const Shape shape = {samples, length, 6};
  const ValueId x = graph.parameter(shape, data);
  const ValueId v = graph.parameter(shape, data);
  const ValueId visible = graph.input(DType::boolean, {samples, length}, mask);
  const ValueId o =
      attention(
          graph.builder, x, x, v,
          {.heads = 2, .mask = visible, .rng = graph.rng(kSeed, kUpdate, first_slot), .rate = 0.4})
          .o;
  const ValueId seed = graph.parameter(shape, data);
  const auto gradients =
      autodiff::append_gradients(graph.builder, o, seed, std::vector<ValueId>{v});
  return {graph.value(o), graph.value(gradients.at(v))};
}

TEST(Attention_dropout, does_not_depend_on_the_split_of_the_batch) {
  const std::vector<double> x = normals(3 * 30, 2);
  const AttentionRun whole = run_attention(3, 5, x, std::vector<double>(15, 1), 7);
  const AttentionRun last = run_attention(1, 5, part(x, 60, 30), std::vector<double>(5, 1), 9);
  EXPECT_EQ(part(whole.o, 60, 30), last.o);
  EXPECT_EQ(part(whole.dv, 60, 30), last.dv);
  const AttentionRun elsewhere = run_attention(1, 5, part(x, 60, 30), std::vector<double>(5, 1), 8);
  EXPECT_NE(elsewhere.o, last.o);
}

TEST(Attention_dropout, does_not_depend_on_the_padded_length) {
  const std::vector<double> x = normals(30, 3);
  std::vector<double> padded = x;
  padded.resize(48, 0);
  const AttentionRun tight = run_attention(1, 5, x, {1, 1, 1, 1, 1}, 0);
  const AttentionRun loose = run_attention(1, 8, padded, {1, 1, 1, 1, 1, 0, 0, 0}, 0);
  EXPECT_EQ(part(loose.o, 0, 30), tight.o);
  for (size_t i = 0; i < 30; ++i) EXPECT_NEAR(loose.dv[i], tight.dv[i], 1e-15);
}

// With v of ones and equal scores, o is the sum of the kept probabilities: their share over many
// queries and heads.
TEST(Attention_dropout, share_kept_is_right_and_heads_differ) {
  constexpr int64_t kTokens = 64;
  constexpr int64_t kHeads = 4;
  RefGraph graph;
  const ValueId zeros =
      graph.parameter({2, kTokens, kHeads}, std::vector<double>(2 * kTokens * kHeads, 0));
  const ValueId ones =
      graph.parameter({2, kTokens, kHeads}, std::vector<double>(2 * kTokens * kHeads, 1));
  const ValueId o = attention(graph.builder, zeros, zeros, ones,
                              {.heads = kHeads, .rng = graph.rng(kSeed, kUpdate, 0), .rate = 0.25})
                        .o;
  const std::vector<double> sums = graph.value(o);
  double mean = 0;
  for (double x : sums) mean += x / static_cast<double>(sums.size());
  const auto draws = static_cast<double>(sums.size()) * static_cast<double>(kTokens);
  EXPECT_NEAR(mean, 1, 5 * std::sqrt(0.25 / 0.75 / draws));
  EXPECT_NE(sums[0], sums[1]);
}

}  // namespace
}  // namespace snug

// SPDX-License-Identifier: Apache-2.0
// Which micro-batches may be tried: of a batch, of a network whose rows are coupled, of one with
// more ops than there is time for.
#include "choose/sizes.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "compile/compile_testing.h"
#include "ops/matmul/matmul.h"
#include "snug/error.h"

namespace snug::choose {
namespace {

using Sizes = std::vector<int64_t>;

// A network without statistics, whatever its coupling says.
RunPlanRequest request_of(int64_t batch, const std::string& coupling = {}) {
  RunPlanRequest request;
  request.network.coupling = coupling;
  request.network.init_rule = [](const std::string&, const Shape&) { return InitRule{}; };
  request.network.is_head = [](const std::string&) { return false; };
  request.network.build = [](GraphBuilder& builder, const compile::BuildRequest& shape) -> ValueId {
    const ValueId x = builder.input("x", {DType::f32, {shape.rows, 4}});
    const ValueId w = builder.parameter("w", {DType::f32, {4, 4}});
    const ValueId y = matmul(builder, x, w);
    return compile::squared_error(builder, y);
  };
  request.lengths = {Lengths()};
  request.global_batch = batch;
  return request;
}

std::string refusal_of(const RunPlanRequest& request) {
  try {
    (void)micro_batches_of(request);
    return {};
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_config);
    return error.where() + ": " + error.what();
  }
}

plan::Problem forward_ops(size_t count) {
  plan::Problem problem;
  problem.ops.resize(count + 1);  // one of the backward part
  problem.ops.back().phase = Phase::backward;
  return problem;
}

TEST(Sizes, micro_batches_cover_the_batch_and_fall) {
  EXPECT_EQ(micro_batches(1), (Sizes{1}));
  EXPECT_EQ(micro_batches(8), (Sizes{8, 4, 3, 2, 1}));
  for (const int64_t batch : {5, 7, 32, 100, 256}) {
    const Sizes sizes = micro_batches(batch);
    EXPECT_EQ(sizes.front(), batch);
    EXPECT_EQ(sizes.back(), 1);
    EXPECT_TRUE(std::is_sorted(sizes.rbegin(), sizes.rend()));
    EXPECT_EQ(std::adjacent_find(sizes.begin(), sizes.end()), sizes.end());
  }
}

TEST(Sizes, coupled_rows_stay_in_one_piece_or_in_equal_ones) {
  RunPlanRequest request = request_of(12, "looks at all its rows");
  EXPECT_EQ(micro_batches_of(request), (Sizes{12}));
  request.micro_batch = 4;
  EXPECT_NE(refusal_of(request).find("a micro-batch of 4 is not the batch of 12"),
            std::string::npos);
  EXPECT_NE(refusal_of(request).find("set allow_batch_norm_split"), std::string::npos);
  request.words = spec::OptionWords::fields;
  EXPECT_NE(refusal_of(request).find("set allow_coupled_split = true"), std::string::npos)
      << refusal_of(request);
  request.allow_coupled_split = true;
  EXPECT_EQ(micro_batches_of(request), (Sizes{4}));
  request.micro_batch = 5;
  EXPECT_NE(refusal_of(request).find("5 does not divide the batch of 12"), std::string::npos);
  request.micro_batch = 0;
  EXPECT_EQ(micro_batches_of(request), (Sizes{12, 6, 4, 3, 2, 1}));
}

TEST(Sizes, evaluation_asks_for_its_own_coupling) {
  RunPlanRequest request = request_of(4, "looks at all its rows");
  request.trains = false;
  EXPECT_EQ(coupling_of(request), "");
  EXPECT_EQ(micro_batches_of(request), micro_batches(4));
  request.network.eval_coupling = "sorts its rows";
  EXPECT_EQ(coupling_of(request), "sorts its rows");
  EXPECT_EQ(micro_batches_of(request), (Sizes{4}));
  request.trains = true;
  request.network.coupling.clear();
  EXPECT_EQ(coupling_of(request), "sorts its rows, in evaluation");
}

TEST(Sizes, two_passes_are_of_the_whole_batch_and_wait_for_a_norm) {
  RunPlanRequest request = request_of(8);
  EXPECT_TRUE(may_have_passes(request, 8, false));
  EXPECT_TRUE(may_have_passes(request, 8, true));
  EXPECT_FALSE(may_have_passes(request, 4, true));
  request.two_pass_clip = true;
  EXPECT_FALSE(may_have_passes(request, 8, false));
  EXPECT_EQ(micro_batches_of(request), (Sizes{8}));
  request.micro_batch = 4;
  EXPECT_NE(refusal_of(request).find("two passes need one micro-batch"), std::string::npos);
  request.recipe.max_grad_norm = 0;
  EXPECT_NE(refusal_of(request).find("no update waits for the norm"), std::string::npos);
  request.trains = false;
  EXPECT_TRUE(may_have_passes(request, 8, false));
  EXPECT_FALSE(may_have_passes(request, 8, true));
}

TEST(Sizes, the_longer_the_program_the_fewer_are_affordable) {
  const Sizes all = micro_batches(64);  // 11 of them
  EXPECT_EQ(affordable(all, forward_ops(8'181)), all);
  for (const size_t ops : {8'182, 20'000, 39'000}) {
    const Sizes some = affordable(all, forward_ops(ops));
    EXPECT_LT(some.size(), all.size());
    EXPECT_GE(some.size(), 3U);
    EXPECT_LE(ops * some.size(), std::max<size_t>(90'000, 3 * ops));
    // The whole batch, the largest that accumulates, and the smallest.
    EXPECT_EQ(some[0], 64);
    EXPECT_EQ(some[1], 32);
    EXPECT_EQ(some.back(), 1);
  }
  EXPECT_EQ(affordable(all, forward_ops(kMostOpsOfMany + 1)), (Sizes{64, 1}));
  EXPECT_EQ(affordable({8, 4}, forward_ops(kMostOpsOfMany + 1)), (Sizes{8, 4}));
}

TEST(Sizes, the_largest_that_accumulates_is_smaller_than_the_batch) {
  EXPECT_EQ(largest_accumulating({8, 4, 2}, 8), 4);
  EXPECT_EQ(largest_accumulating({4, 2}, 8), 4);
  EXPECT_EQ(largest_accumulating({8}, 8), std::nullopt);
}

}  // namespace
}  // namespace snug::choose

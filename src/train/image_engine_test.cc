// SPDX-License-Identifier: Apache-2.0
// Residual networks in the engine: plans do not change results, running statistics move once an
// update, batches are not split unless that is allowed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "backend/reference/reference.h"
#include "choose/sizes.h"
#include "plan/problem/validate.h"
#include "run_model/model_network.h"
#include "snug/error.h"
#include "train/testing.h"

namespace snug::train {
namespace {

TEST(Image_engine, every_strategy_gives_the_same_bits_of_weights_and_statistics) {
  const auto backend = cpu();
  for (const char* name : {"resnet-8", "resnet-20"}) {
    for (const int64_t micro_batch : {4, 2}) {
      std::string wanted;
      for (const char* strategy : {"none", "all", "sqrt", "every:2"}) {
        TestRun run(*backend, TestRun::resnet_config(strategy, name), 4, micro_batch);
        run.initialize_cpu();
        for (int64_t i = 0; i < 2; ++i) EXPECT_TRUE(std::isfinite(run.update_cpu(i)));
        if (wanted.empty()) wanted = run.bytes();
        EXPECT_EQ(run.bytes() == wanted, true) << name << " " << strategy << " " << micro_batch;
        run.engine->check_memory();
        EXPECT_EQ(run.engine->measured_arena_bytes(), run.plan.arena_bytes) << strategy;
      }
    }
  }
}

TEST(Image_engine, reference_agrees_with_the_cpu) {
  const auto reference = make_reference_backend();
  const auto backend = cpu();
  TestRun slow(*reference, TestRun::resnet_config("all"), 4, 4);
  TestRun fast(*backend, TestRun::resnet_config("none"), 4, 4);
  slow.initialize_reference();
  fast.initialize_cpu();
  for (int64_t i = 0; i < 2; ++i) EXPECT_NEAR(fast.update_cpu(i), slow.update_reference(i), 1e-3);
}

// The mean of the first convolution's outputs over a batch is known from the batch; the buffer goes
// a tenth of the way to it, once, whether the batch is in one piece or in two.
TEST(Image_engine, gradients_lie_where_the_gradients_lay_that_nobody_else_reads) {
  const auto backend = cpu();
  const TestRun run(*backend, TestRun::resnet_config("all"), 4, 4);
  const plan::Problem& problem = run.plan.train.front().lowered.problem;
  int64_t overwritten = 0;
  for (const plan::Op& op : problem.ops) {
    for (const auto& [output, input] : op.reuses) {
      EXPECT_EQ(op.phase, Phase::backward);
      for (const plan::Op& other : problem.ops) {
        const auto& inputs = other.inputs;
        EXPECT_TRUE(&other == &op ||
                    std::find(inputs.begin(), inputs.end(), input) == inputs.end());
      }
      ++overwritten;
    }
  }
  EXPECT_GT(overwritten, 10);
  EXPECT_TRUE(plan::check(problem, run.plan.train.front().plan).empty());
}

TEST(Image_engine, what_only_the_next_op_reads_is_one_storage_with_its_output) {
  const auto backend = cpu();
  TestRun run(*backend, TestRun::resnet_config("none"), 4, 4);
  const Graph& graph = run.plan.train.front().graph;
  const runtime::Lowered& lowered = run.plan.train.front().lowered;
  std::map<std::string, int> ops;
  std::vector<NodeId> nodes;
  for (const plan::OpId i : lowered.nodes_of_op.ids()) {
    if (lowered.problem.ops[i].phase == Phase::forward) ++ops[lowered.problem.ops[i].name];
    nodes.insert(nodes.end(), lowered.nodes_of_op[i].begin(), lowered.nodes_of_op[i].end());
  }
  std::sort(nodes.begin(), nodes.end());
  EXPECT_EQ(std::adjacent_find(nodes.begin(), nodes.end()), nodes.end());
  // Every relu lies where the sum or the normalised value lay; but the convolution's output is
  // read again by the gradient of the batch norm.
  EXPECT_GT(ops["batch_norm+relu"], 0);
  EXPECT_GT(ops["batch_norm+add+relu"], 0);
  EXPECT_EQ(ops["relu"], 0);
  EXPECT_EQ(ops["conv2d+batch_norm"], 0);
  for (const plan::OpId i : lowered.nodes_of_op.ids()) {
    if (lowered.problem.ops[i].name != "batch_norm+relu") continue;
    const Node& norm = graph.node(lowered.nodes_of_op[i].front());
    const Node& relu = graph.node(lowered.nodes_of_op[i].back());
    const auto storage = [&](ValueId id) { return lowered.storage_of_value[id]; };
    EXPECT_EQ(storage(norm.outputs[0]), storage(relu.outputs[0]));
    EXPECT_NE(storage(norm.inputs[0]), storage(relu.outputs[0]));
  }
}

TEST(Image_engine, running_statistics_move_once_an_update) {
  const auto reference = make_reference_backend();
  for (const int64_t micro_batch : {4, 2}) {
    for (const char* strategy : {"none", "all"}) {
      TestRun run(*reference, TestRun::resnet_config(strategy), 4, micro_batch);
      run.initialize_reference();
      // Far from every batch: only its share is left.
      std::ranges::fill(run.engine->edit<double>("bn1.running_mean"), 1e6);
      std::ranges::fill(run.engine->edit<double>("bn1.running_var"), 1e6);
      (void)run.update_reference(0);
      const auto mean = run.engine->view<double>("bn1.running_mean");
      const auto variance = run.engine->view<double>("bn1.running_var");
      for (const double value : mean) EXPECT_NEAR(value / 1e6, 0.9, 1e-5) << strategy;
      for (const double value : variance) EXPECT_NEAR(value / 1e6, 0.9, 1e-5) << strategy;
    }
  }
}

TEST(Splits, batch_statistics_forbid_a_split_unless_it_is_allowed) {
  RunConfig config = TestRun::resnet_config("auto");
  const run_model::Model resnet = fitted_model(config);
  EXPECT_TRUE(resnet.traits.has_batch_statistics);
  choose::RunPlanRequest request;
  request.network = network::describe_network(run_model::network_of(resnet), {}).def;
  request.global_batch = 12;
  EXPECT_EQ(choose::micro_batches_of(request), (std::vector<int64_t>{12}));
  request.allow_coupled_split = true;
  EXPECT_EQ(choose::micro_batches_of(request), (std::vector<int64_t>{12, 6, 4, 3, 2, 1}));
  request.micro_batch = 5;
  const auto text_of = [&] {
    try {
      (void)choose::micro_batches_of(request);
      return std::string();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_config);
      EXPECT_EQ(error.where(), "micro_batch_size");
      return std::string(error.what());
    }
  };
  EXPECT_NE(text_of().find("5 does not divide the batch of 12"), std::string::npos) << text_of();
  request.micro_batch = 4;
  EXPECT_EQ(text_of(), "");
  request.allow_coupled_split = false;
  EXPECT_NE(text_of().find("set allow_batch_norm_split"), std::string::npos) << text_of();
  request.trains = false;  // evaluation uses the running statistics
  EXPECT_EQ(choose::micro_batches_of(request), (std::vector<int64_t>{4}));
}

TEST(Splits, models_without_batch_statistics_are_split_freely) {
  RunConfig config;
  config.model = "vgg-16";
  const run_model::Model vgg = fitted_model(config);
  EXPECT_FALSE(vgg.traits.has_batch_statistics);
  choose::RunPlanRequest request;
  request.network = network::describe_network(run_model::network_of(vgg), {}).def;
  request.global_batch = 8;
  EXPECT_EQ(choose::micro_batches_of(request), choose::micro_batches(8));
}

TEST(Model, keys_of_other_families_are_refused) {
  const auto refusal = [](const char* model, const char* key, const char* value) {
    RunConfig config;
    config.model = model;
    config.set(key, value);
    try {
      (void)fitted_model(config);
      return std::string();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_config);
      return error.where() + ": " + error.what();
    }
  };
  EXPECT_NE(
      refusal("bert-tiny", "image_size", "32").find("does not take it; it is for vgg and resnet"),
      std::string::npos);
  EXPECT_NE(refusal("vgg-16", "stage_blocks", "1,1").find("does not take it; it is for resnet"),
            std::string::npos);
  EXPECT_NE(refusal("vgg-16", "max_seq_length", "64").find("reads images"), std::string::npos);
  EXPECT_NE(refusal("bert-tiny", "allow_batch_norm_split", "true").find("no batch norm"),
            std::string::npos);
  EXPECT_NE(refusal("resnet-50", "hidden_dropout_prob", "0.1").find("does not take it; it is for "),
            std::string::npos);
  EXPECT_NE(refusal("resnet-50", "stage_blocks", "1,1").find("widths"), std::string::npos);
  EXPECT_NE(refusal("resnet-21", "seed", "1").find("resnet-20"), std::string::npos);
  EXPECT_EQ(refusal("resnet-50", "stage_blocks", "3,24,36,3"), "");
}

}  // namespace
}  // namespace snug::train

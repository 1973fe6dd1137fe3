// SPDX-License-Identifier: Apache-2.0
// Which states and decay a parameter gets. The steps themselves are compared with PyTorch in
// tests/nn.
#include "optim/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "graph/verify.h"
#include "ops/registry.h"
#include "snug/error.h"

namespace snug::optim {
namespace {

struct OneParameter {
  explicit OneParameter(const std::string& name, const Shape& shape = {2, 3})
      : parameter(builder.parameter(name, {DType::f32, shape})),
        gradient(builder.input("gradient", {DType::f32, shape})),
        hyper(builder.input("hyper", {DType::f32, {4}})) {}
  const Node& last() const { return builder.graph().nodes.back(); }

  GraphBuilder builder{op_registry(), "update"};
  ValueId parameter;
  ValueId gradient;
  ValueId hyper;
};

TEST(Decay, leaves_out_biases_and_norms) {
  for (const char* name :
       {"classifier.bias", "bert.embeddings.LayerNorm.weight", "a.layer_norm.weight", "norm.weight",
        "blocks.3.norm.weight", "x.rmsnorm.weight"}) {
    EXPECT_FALSE(decays(name)) << name;
  }
  for (const char* name :
       {"classifier.weight", "bert.embeddings.word_embeddings.weight", "normal.weight"}) {
    EXPECT_TRUE(decays(name)) << name;
  }
}

TEST(Append_update, adamw_has_two_states_and_runs_in_the_update) {
  OneParameter p("dense.weight");
  const auto after =
      append_update(p.builder, p.parameter, p.gradient, p.hyper, kNone, {.weight_decay = 0.1});
  ASSERT_EQ(after.size(), 3u);
  EXPECT_EQ(*p.last().op->name, "adamw");
  EXPECT_EQ(p.last().phase, Phase::update);
  EXPECT_EQ(p.last().attrs.real("weight_decay"), 0.1);
  EXPECT_EQ(storage_of(p.builder.graph(), after[0]), p.parameter);
  EXPECT_EQ(storage_of(p.builder.graph(), after[1]), p.builder.graph().find("m.dense.weight"));
  EXPECT_EQ(storage_of(p.builder.graph(), after[2]), p.builder.graph().find("v.dense.weight"));
  EXPECT_EQ(p.builder.phase(), Phase::forward);
  verify(p.builder.graph());
}

TEST(Append_update, biases_do_not_decay) {
  OneParameter p("dense.bias");
  (void)append_update(p.builder, p.parameter, p.gradient, p.hyper, kNone, {.weight_decay = 0.1});
  EXPECT_EQ(p.last().attrs.real("weight_decay"), 0);
}

TEST(Append_update, vectors_do_not_decay_whatever_their_name) {
  OneParameter p("layer1.0.bn1.weight", {3});
  (void)append_update(p.builder, p.parameter, p.gradient, p.hyper, kNone, {.weight_decay = 0.1});
  EXPECT_EQ(p.last().attrs.real("weight_decay"), 0);
}

TEST(Append_update, sgd_has_a_state_only_with_momentum) {
  OneParameter plain("w");
  EXPECT_EQ(append_update(plain.builder, plain.parameter, plain.gradient, plain.hyper, kNone,
                          {.algorithm = Algorithm::sgd})
                .size(),
            1u);
  EXPECT_EQ(*plain.last().op->name, "sgd");
  OneParameter momentum("w");
  const Options options = {.algorithm = Algorithm::sgd, .momentum = 0.9, .nesterov = true};
  const auto after = append_update(momentum.builder, momentum.parameter, momentum.gradient,
                                   momentum.hyper, kNone, options);
  EXPECT_EQ(*momentum.last().op->name, "sgd_momentum");
  EXPECT_TRUE(momentum.last().attrs.boolean("nesterov"));
  EXPECT_EQ(storage_of(momentum.builder.graph(), after[1]),
            momentum.builder.graph().find("momentum.w"));
  EXPECT_EQ(state_names(options, "w"), std::vector<std::string>{"momentum.w"});
}

TEST(Append_update, only_parameters_are_updated) {
  OneParameter p("w");
  try {
    (void)append_update(p.builder, p.gradient, p.gradient, p.hyper, kNone, {});
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_graph);
    EXPECT_EQ(error.where(), "gradient");
    EXPECT_NE(std::string(error.what()).find("only a parameter can be updated"), std::string::npos);
  }
}

TEST(Append_clip, needs_a_gradient) {
  GraphBuilder builder(op_registry(), "clip");
  try {
    (void)append_clip(builder, {}, 1);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_graph);
    EXPECT_NE(std::string(error.what()).find("there is no gradient to measure"), std::string::npos);
  }
}

TEST(Hyper_values, hold_rate_and_bias_corrections) {
  const auto adamw = hyper_values({.beta1 = 0.5, .beta2 = 0.75}, 0.1, 2);
  EXPECT_EQ(adamw, (std::array<double, 4>{0.1, 0.75, 1 - 0.75 * 0.75, 0}));
  EXPECT_EQ(hyper_values({.algorithm = Algorithm::sgd}, 0.1, 1),
            (std::array<double, 4>{0.1, 0, 0, 0}));
}

}  // namespace
}  // namespace snug::optim

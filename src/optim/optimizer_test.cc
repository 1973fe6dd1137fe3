// SPDX-License-Identifier: Apache-2.0
// Which states and decay a parameter gets. The steps themselves are compared with PyTorch in
// tests/nn.
#include "optim/optimizer.h"
#include "graph/storage.h"

#include <gtest/gtest.h>

#include <cmath>

#include "graph/verify.h"
#include "ops/optimizer/optimizers.h"
#include "ops/registry.h"
#include "snug/error.h"

namespace snug::optim {
namespace {

Options adamw_with_decay() { return make_options("adamw", {}, 0.1); }

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
      append_update(p.builder, p.parameter, p.gradient, p.hyper, kNone, adamw_with_decay());
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
  (void)append_update(p.builder, p.parameter, p.gradient, p.hyper, kNone, adamw_with_decay());
  EXPECT_EQ(p.last().attrs.real("weight_decay"), 0);
}

TEST(Append_update, vectors_do_not_decay_whatever_their_name) {
  OneParameter p("layer1.0.bn1.weight", {3});
  (void)append_update(p.builder, p.parameter, p.gradient, p.hyper, kNone, adamw_with_decay());
  EXPECT_EQ(p.last().attrs.real("weight_decay"), 0);
}

TEST(Append_update, sgd_has_a_state_only_with_momentum) {
  OneParameter plain("w");
  EXPECT_EQ(append_update(plain.builder, plain.parameter, plain.gradient, plain.hyper, kNone,
                          make_options("sgd"))
                .size(),
            1u);
  EXPECT_EQ(*plain.last().op->name, "sgd");
  OneParameter momentum("w");
  const Options options = make_options("sgd", {{"momentum", 0.9}, {"nesterov", 1}});
  const auto after = append_update(momentum.builder, momentum.parameter, momentum.gradient,
                                   momentum.hyper, kNone, options);
  EXPECT_EQ(*momentum.last().op->name, "sgd_momentum");
  EXPECT_TRUE(momentum.last().attrs.boolean("nesterov"));
  EXPECT_EQ(storage_of(momentum.builder.graph(), after[1]),
            momentum.builder.graph().find("momentum.w"));
  EXPECT_EQ(states_of(options, "w", {2, 3}).size(), 1u);
}

TEST(Append_update, only_parameters_are_updated) {
  OneParameter p("w");
  try {
    (void)append_update(p.builder, p.gradient, p.gradient, p.hyper, kNone, adamw_with_decay());
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
    EXPECT_NE(std::string(error.what()).find("no weight that is trained has a gradient"),
              std::string::npos);
  }
}

TEST(Fed_values, hold_rate_and_bias_corrections) {
  const Options adamw = make_options("adamw", {{"beta1", 0.5}, {"beta2", 0.75}});
  EXPECT_EQ(fed_values(adamw, 0.1, 2), (FedValues{0.1, 0.75, 1 - 0.75 * 0.75, 0}));
  EXPECT_EQ(fed_values(make_options("sgd"), 0.1, 1), (FedValues{0.1, 0, 0, 0}));
}

void expect_refused(const std::string& name, const HyperValues& given, const std::string& text) {
  try {
    (void)make_options(name, given);
    ADD_FAILURE() << "no error: " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::bad_config);
    EXPECT_EQ(error.where(), "optim");
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
}

TEST(Make_options, refuses_what_is_not_understood) {
  expect_refused("sdg", {}, "there is no optimizer 'sdg'\nhint: there are adamw, sgd");
  expect_refused("sgd", {{"beta1", 0.9}},
                 "sgd has no hyper-parameter 'beta1'\nhint: it has momentum, nesterov");
  expect_refused("adamw", {{"beta1", 1}}, "beta1 of adamw is out of range\nhint: allowed: [0, 1)");
  expect_refused("adamw", {{"epsilon", 0}}, "allowed: > 0");
  expect_refused("adamw", {{"epsilon", 1e300}}, "finite in 32 bits");
  expect_refused("adamw", {{"beta2", 0.999999999999}}, "in 32 bits too");
  expect_refused("lars", {{"nesterov", 1}, {"momentum", 0}}, "needs a momentum above 0");
  expect_refused("sgd", {{"nesterov", 0.5}}, "allowed: 0 or 1");
  expect_refused("sgd", {{"nesterov", 1}}, "nesterov needs a momentum above 0");
}

// Every optimizer of the list: its op has the inputs that its states say, and is found.
TEST(Optimizers, each_has_states_that_its_step_takes) {
  for (const Optimizer* each : optimizers()) {
    SCOPED_TRACE(*each->name);
    OneParameter p("dense.weight");
    const Options options = make_options(*each->name);
    const auto after = append_update(p.builder, p.parameter, p.gradient, p.hyper, kNone, options);
    EXPECT_EQ(after.size(), 1 + states_of(options, "dense.weight", {2, 3}).size());
    EXPECT_EQ(p.last().op->alias->kind, AliasKind::must_overwrite);
    for (const NamedState& state : states_of(options, "dense.weight", {2, 3})) {
      EXPECT_TRUE(state.name.ends_with(".dense.weight"));
      EXPECT_FALSE(state.name.starts_with("grad.")) << "the name of an accumulated gradient";
    }
    verify(p.builder.graph());
  }
}

}  // namespace
}  // namespace snug::optim

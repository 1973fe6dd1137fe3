// SPDX-License-Identifier: Apache-2.0
#include "nn/layers.h"

#include <gtest/gtest.h>

#include "graph/verify.h"
#include "ops/registry.h"
#include "snug/error.h"

namespace snug::nn {
namespace {

TEST(Layers, parameters_are_named_after_their_scope) {
  GraphBuilder b(op_registry(), "layers");
  const ValueId ids = b.input("ids", {DType::i32, {2, 3}});
  {
    const ScopeGuard scope(b, "block.0");
    ValueId x = embedding(b, "words", ids, 7, 4);
    x = layer_norm(b, "LayerNorm", x, 1e-5);
    x = linear(b, "dense", x, 6);
    EXPECT_EQ(b.shape(x), (Shape{2, 3, 6}));
    EXPECT_EQ(b.graph().nodes.back().scope, "block.0.dense");
  }
  EXPECT_EQ(b.scope(), "");
  const auto shape_of = [&](const char* name) { return b.shape(b.graph().find(name)); };
  EXPECT_EQ(shape_of("block.0.words.weight"), (Shape{7, 4}));
  EXPECT_EQ(shape_of("block.0.LayerNorm.weight"), (Shape{4}));
  EXPECT_EQ(shape_of("block.0.LayerNorm.bias"), (Shape{4}));
  EXPECT_EQ(shape_of("block.0.dense.weight"), (Shape{6, 4}));
  EXPECT_EQ(shape_of("block.0.dense.bias"), (Shape{6}));
  verify(b.graph());
}

TEST(Layers, dropout_without_rate_or_rng_is_nothing) {
  GraphBuilder b(op_registry(), "layers");
  const ValueId x = b.parameter("x", {DType::f32, {2, 3}});
  const ValueId rng = b.input("rng", {DType::i64, {3}});
  EXPECT_EQ(dropout(b, x, rng, 0), x);
  EXPECT_EQ(dropout(b, x, kNone, 0.5), x);
  EXPECT_NE(dropout(b, x, rng, 0.5), x);
  EXPECT_EQ(b.next_random_ordinal(), 1);
}

TEST(Layers, activations_have_hugging_faces_names) {
  EXPECT_EQ(find_activation("gelu"), Activation::gelu);
  EXPECT_EQ(find_activation("gelu_new"), Activation::gelu_tanh);
  EXPECT_EQ(find_activation("gelu_pytorch_tanh"), Activation::gelu_tanh);
  EXPECT_EQ(find_activation("gelu_fast"), Activation::gelu_tanh);
  EXPECT_EQ(find_activation("gelu_accurate"), Activation::gelu_tanh);
  EXPECT_EQ(find_activation("gelu_python"), Activation::gelu);
  EXPECT_EQ(find_activation("relu"), Activation::relu);
  EXPECT_FALSE(find_activation("swish").has_value());
  GraphBuilder b(op_registry(), "layers");
  const ValueId x = b.parameter("x", {DType::f32, {2, 3}});
  for (const auto& [activation, op] :
       {std::pair{Activation::gelu, "gelu"}, std::pair{Activation::gelu_tanh, "gelu"},
        std::pair{Activation::relu, "relu"}, std::pair{Activation::tanh, "tanh"},
        std::pair{Activation::sigmoid, "sigmoid"}}) {
    (void)activate(b, x, activation);
    EXPECT_EQ(*b.graph().nodes.back().op->name, op);
  }
}

TEST(Layers, linear_needs_rows) {
  GraphBuilder b(op_registry(), "layers");
  const ValueId x = b.parameter("x", {DType::f32, {3}});
  try {
    (void)linear(b, "dense", x, 2);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::shape_mismatch);
    EXPECT_EQ(error.where(), "dense");
    EXPECT_NE(std::string(error.what()).find("a linear layer needs rows, not f32[3]"),
              std::string::npos)
        << error.what();
  }
}

TEST(Layers, one_name_is_taken_once) {
  GraphBuilder b(op_registry(), "layers");
  const ValueId x = b.parameter("x", {DType::f32, {2, 3}});
  (void)linear(b, "dense", x, 2);
  try {
    (void)linear(b, "dense", x, 2);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_graph);
    EXPECT_NE(
        std::string(error.what()).find("a weight cannot be called 'dense.weight': a weight is"),
        std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace snug::nn

// SPDX-License-Identifier: Apache-2.0
// Which nodes store 16 bits: the cases of TensorFlow's auto_mixed_precision tests, named as there,
// and what this house adds: weights, outputs, overrides.
#include "compile/mixed_precision.h"

#include <gtest/gtest.h>

#include "graph/builder.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "ops/registry.h"
#include "snug/error.h"

namespace snug::compile {
namespace {

constexpr int64_t kSize = 4;

/// One op after the other on a square matrix; products are of a value with itself.
class Chain {
 public:
  Chain()
      : builder_(op_registry(), "g"), last_(builder_.input("x", {DType::f32, {kSize, kSize}})) {}
  Chain& then(const std::string& op, Attrs attrs = {}) {
    const bool is_binary = op == "matmul" || op == "add" || op == "mul";
    std::vector<ValueId> inputs = {last_};
    if (is_binary) inputs.push_back(last_);
    if (op == "matmul") inputs.push_back(kNone);
    last_ = builder_.op(op, inputs, std::move(attrs))[0];
    return *this;
  }
  Chain& in(const std::string& scope) {
    builder_.set_scope(scope);
    return *this;
  }
  Chain& all(std::initializer_list<const char*> ops) {
    for (const char* op : ops) then(op);
    return *this;
  }
  [[nodiscard]] Graph graph() {
    builder_.mark_output(last_, "y");
    return builder_.take();
  }

 private:
  GraphBuilder builder_;
  ValueId last_;
};

Graph repainted(const Graph& graph, const MixedPrecision& precision = {DType::bf16}) {
  Graph made = apply_mixed_precision(graph, precision, op_registry());
  verify(made);
  return made;
}

int casts(const Graph& graph) {
  int count = 0;
  for (const Node& node : graph.nodes) count += *node.op->name == "cast" ? 1 : 0;
  return count;
}

/// "exp relu* matmul*": what stores 16 bits has a star; casts are left out.
std::string painted(const Graph& graph) {
  std::string text;
  for (const Node& node : graph.nodes) {
    if (*node.op->name == "cast") continue;
    text += (text.empty() ? "" : " ") + *node.op->name;
    if (graph.type(node.outputs[0]).dtype != DType::f32) text += "*";
  }
  return text;
}

// TensorFlow's own cases by their names. Two have nothing to say here: PreserveCPUNodes (a graph is
// of one device) and PreserveIdentityAfterVariable (a weight is read by its value, not through an
// op).
TEST(AutoMixedPrecision, NoOp) {
  const Graph graph = Chain().all({"exp", "relu", "sqrt", "relu"}).graph();
  EXPECT_EQ(print(repainted(graph)), print(graph));
}

TEST(AutoMixedPrecision, AlreadyFp16) {
  Chain chain;
  chain.then("cast", {{"to", std::string("f16")}}).all({"relu", "matmul", "relu"});
  const Graph graph = chain.graph();
  const Graph made = repainted(graph, {DType::f16});
  EXPECT_EQ(painted(made), "relu* matmul* relu*");
  EXPECT_EQ(casts(made), 2) << "the network's own, and one for the output";
}

TEST(AutoMixedPrecision, Simple) {
  const Graph made = repainted(
      Chain()
          .all({"exp", "relu", "sqrt", "relu", "matmul", "relu", "tanh", "relu", "exp", "relu"})
          .graph());
  EXPECT_EQ(painted(made), "exp relu sqrt relu* matmul* relu* tanh relu exp relu");
  EXPECT_EQ(casts(made), 2);
}

TEST(AutoMixedPrecision, InferBetweenAllow) {
  const Graph made =
      repainted(Chain().all({"matmul", "gelu", "relu", "add", "matmul", "exp"}).graph());
  EXPECT_EQ(painted(made), "matmul* gelu* relu* add* matmul* exp");
}

TEST(AutoMixedPrecision, DenyCutsWhatLiesBetweenAllow) {
  const Graph made = repainted(Chain().all({"matmul", "exp", "tanh", "matmul"}).graph());
  EXPECT_EQ(painted(made), "matmul* exp tanh matmul*");
}

TEST(AutoMixedPrecision, BidirectionalClearChain) {
  GraphBuilder b(op_registry(), "g");
  const ValueId x = b.input("x", {DType::f32, {kSize, kSize}});
  const ValueId first = b.op1("relu", {x});
  const ValueId second = b.op1("transpose", {first}, {{"perm", std::vector<int64_t>{1, 0}}});
  const ValueId product = b.op1("matmul", {first, first, kNone});
  b.mark_output(b.op1("relu", {second}), "beside");
  b.mark_output(b.op1("relu", {product}), "behind");
  EXPECT_EQ(painted(repainted(b.take())), "relu* transpose* matmul* relu* relu*");
}

TEST(AutoMixedPrecision, PreserveFetches) {
  const Graph made = repainted(Chain().all({"matmul", "relu"}).graph());
  ASSERT_EQ(made.outputs.size(), 1u);
  EXPECT_EQ(made.type(made.outputs[0]).dtype, DType::f32);
  EXPECT_EQ(made.value(made.outputs[0]).name, "y");
}

TEST(AutoMixedPrecision, FusedBatchNorm) {
  GraphBuilder b(op_registry(), "g");
  const ValueId x = b.input("x", {DType::f32, {2, kSize, kSize, 3}});
  const ValueId w = b.parameter("conv.weight", {DType::f32, {3, 3, 1, 1}});
  const ValueId gamma = b.parameter("norm.weight", {DType::f32, {3}});
  const ValueId beta = b.parameter("norm.bias", {DType::f32, {3}});
  const ValueId y = b.op1("conv2d", {x, w, kNone});
  const ValueId normal = b.op("batch_norm", {y, gamma, beta})[0];
  b.mark_output(b.op1("conv2d", {b.op1("relu", {normal}), w, kNone}), "y");
  const Graph made = repainted(b.take());
  EXPECT_EQ(painted(made), "conv2d* batch_norm* relu* conv2d*");
  for (const Node& node : made.nodes) {
    if (*node.op->name != "batch_norm") continue;
    EXPECT_EQ(made.type(node.inputs[1]).dtype, DType::f32) << "weights of norms stay";
    EXPECT_EQ(made.type(node.outputs[1]).dtype, DType::f32) << "statistics stay";
  }
  // x, the weight once for both, and the output.
  EXPECT_EQ(casts(made), 3);
}

TEST(Mixed_precision, casts_of_weights_run_once_an_update_and_biases_stay) {
  GraphBuilder b(op_registry(), "g");
  const ValueId x = b.input("x", {DType::f32, {2, 3}});
  const ValueId w = b.parameter("w", {DType::f32, {4, 3}});
  const ValueId bias = b.parameter("b", {DType::f32, {4}});
  b.mark_output(b.op1("matmul", {x, w, bias}, {{"transpose_b", true}}), "y");
  const Graph made = repainted(b.take());
  int of_weights = 0;
  for (const Node& node : made.nodes) {
    if (*node.op->name == "matmul") {
      EXPECT_EQ(made.type(node.inputs[2]).dtype, DType::f32);
      continue;
    }
    const bool is_weight = made.value(node.inputs[0]).kind == ValueKind::parameter;
    EXPECT_EQ(node.phase, is_weight ? Phase::prologue : Phase::forward);
    of_weights += is_weight ? 1 : 0;
  }
  EXPECT_EQ(of_weights, 1);
}

TEST(Mixed_precision, overrides_deny_and_allow_by_scope) {
  const auto graph = [] {
    return Chain().in("a").all({"matmul", "gelu"}).in("b").all({"matmul", "relu"}).graph();
  };
  EXPECT_EQ(painted(repainted(graph(), {DType::bf16, {{"b", DType::f32}}})),
            "matmul* gelu matmul relu");
  EXPECT_EQ(painted(repainted(graph(), {DType::bf16, {{"a.gelu", DType::f32}}})),
            "matmul* gelu matmul* relu*");
  EXPECT_EQ(painted(repainted(graph(), {DType::f32, {{"a*", DType::f16}}})),
            "matmul* gelu* matmul relu");
}

TEST(Mixed_precision, overrides_that_change_nothing_are_refused) {
  const Graph graph = Chain().in("a").all({"matmul", "exp"}).graph();
  const auto refusal = [&](const MixedPrecision& precision) {
    try {
      (void)repainted(graph, precision);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::bad_config);
      return std::string(error.what());
    }
    return std::string("nothing");
  };
  EXPECT_NE(refusal({DType::bf16, {{"nowhere", DType::f32}}})
                .find("'nowhere' matches nothing that could be f32"),
            std::string::npos);
  EXPECT_NE(refusal({DType::bf16, {{"a.exp", DType::bf16}}})
                .find("'a.exp' matches nothing that could be bf16"),
            std::string::npos);
  EXPECT_NE(refusal({DType::bf16, {{"a", DType::f16}}}).find("a network has one type of 16 bits"),
            std::string::npos);
}

}  // namespace
}  // namespace snug::compile

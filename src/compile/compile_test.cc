// SPDX-License-Identifier: Apache-2.0
// The page: which stages a program goes through, what is traced once, and what a rewriter does.
#include "compile/compile.h"

#include <gtest/gtest.h>

#include <map>

#include "compile/compile_testing.h"
#include "compile/rewriter.h"
#include "compile/share_views.h"
#include "compile/weight_storage.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "ops/elementwise/elementwise.h"
#include "ops/embedding/embedding.h"
#include "ops/matmul/matmul.h"
#include "ops/registry.h"

namespace snug::compile {
namespace {

constexpr int64_t kWidth = 64;

// Two layers over a table of embeddings; `built` counts.
NetworkDef two_layers(int* built) {
  NetworkDef network;
  network.build = [built](GraphBuilder& builder, const BuildRequest& request) -> ValueId {
    ++*built;
    const ValueId ids = builder.input("ids", {DType::i32, {request.rows}});
    const ValueId table = builder.parameter("table", {DType::f32, {100, kWidth}});
    const ValueId x = embedding(builder, table, ids);
    const ValueId w = builder.parameter("layer.weight", {DType::f32, {kWidth, kWidth}});
    const ValueId head = builder.parameter("head.weight", {DType::f32, {3, kWidth}});
    const ValueId y = matmul(builder, relu(builder, matmul(builder, x, w, {.transpose_b = true})),
                             head, {.transpose_b = true});
    if (!request.training) {
      builder.mark_output(y, "y");
      return kNone;
    }
    return squared_error(builder, y);
  };
  network.init_rule = [](const std::string&, const Shape&) { return InitRule{}; };
  network.is_head = [](const std::string& name) { return name.starts_with("head."); };
  return network;
}

Recipe adamw() {
  Recipe recipe;
  recipe.optimizer = optim::make_options("adamw");
  return recipe;
}

std::string stages_of(const NetworkDef& network, const Recipe& recipe, int64_t micro_batches) {
  std::string names;
  const CompileHooks hooks{.after = [&](const Compiled& compiled) {
    names += (names.empty() ? "" : " ") + std::string(compiled.stage);
    if (compiled.graph != nullptr) {
      verify(*compiled.graph);
    }
  }};
  (void)build_train_graph(network, recipe, {4}, micro_batches, hooks);
  return names;
}

TEST(Compile, a_program_goes_through_the_rewrites_that_it_asks_for) {
  int built = 0;
  const NetworkDef plain = two_layers(&built);
  EXPECT_EQ(stages_of(plain, adamw(), 1),
            "trace forward backward remove_dead share_views row_sparse fuse_accumulate");
  EXPECT_EQ(stages_of(plain, adamw(), 2),
            "trace forward backward remove_dead share_views row_sparse fuse_accumulate "
            "split_prologue");
  NetworkDef drawn = plain;
  drawn.draws = DrawNumbering::operands;
  const NetworkDef changed =
      with_changes(drawn, {.lora = {.match = {"layer.weight"}},
                           .storage = make_weight_storage({}, "bfloat16", "float32"),
                           .training = {.dtype = DType::bf16},
                           .evaluation = {}});
  EXPECT_EQ(stages_of(changed, adamw(), 1),
            "trace number_draws adapters weight_storage mixed_precision direct_reads forward "
            "backward remove_dead share_views row_sparse fuse_accumulate");
}

TEST(Compile, a_network_is_built_once_for_each_request) {
  int built = 0;
  const NetworkDef network = with_changes(two_layers(&built), {});
  EXPECT_EQ(parameter_names(network),
            (std::vector<std::string>{"table", "layer.weight", "head.weight"}));
  EXPECT_EQ(built, 1);
  (void)weights_of(network);
  (void)build_update_graph(network, adamw());
  EXPECT_EQ(built, 1) << "names and types are known";
  const std::string whole = print(build_train_graph(network, adamw(), {4}, 1));
  Recipe two_passes = adamw();
  two_passes.has_two_passes = true;
  (void)build_train_graph(network, two_passes, {4}, 1);
  EXPECT_EQ(built, 2) << "another form of one split has the same forward part";
  EXPECT_EQ(print(build_train_graph(network, adamw(), {4}, 1)), whole);
  (void)build_eval_graph(network, {4});
  (void)build_eval_graph(network, {4});
  EXPECT_EQ(built, 3);
  let_traces_go(network);
  EXPECT_EQ(print(build_train_graph(network, adamw(), {4}, 1)), whole);
  EXPECT_EQ(built, 4);
}

TEST(Compile, a_trace_says_the_roles_of_its_weights) {
  int built = 0;
  const NetworkDef network = with_changes(
      two_layers(&built),
      {.lora = {.match = {"layer.weight"}}, .storage = {}, .training = {}, .evaluation = {}});
  std::map<std::string, Weight> weights;
  for (const Weight& weight : weights_of(network)) weights[weight.value.name] = weight;
  EXPECT_EQ(weights.size(), 5U);
  EXPECT_TRUE(weights["table"].is_table && weights["table"].is_frozen);
  EXPECT_TRUE(weights["head.weight"].is_head && !weights["head.weight"].is_frozen);
  EXPECT_TRUE(!weights["layer.weight"].is_table && weights["layer.weight"].is_frozen);
  EXPECT_FALSE(weights["layer.lora_A.weight"].is_frozen);
}

Graph parsed(const std::string& body) {
  return parse_graph("graph \"g\" {\n" + body + "}\n", op_registry());
}
std::string printed(const Graph& graph) {
  verify(graph);
  const std::string text = print(graph);
  return text.substr(text.find('\n') + 1, text.size() - text.find('\n') - 3);
}

// Not of another phase, of another shape, or what has a name.
TEST(Share_views, alike_they_are_one) {
  const std::string head =
      "  %0 = input \"x\" : f32[2,3]\n"
      "  %1 = reshape(%0) {shape=[6]} : f32[6] @\"a\" forward\n"
      "  %2 = exp(%1) : f32[6] @\"a\" forward\n";
  EXPECT_EQ(
      printed(share_views(parsed(head + "  %3 = reshape(%0) {shape=[6]} : f32[6] @\"b\" forward\n"
                                        "  %4 = add(%2, %3) : f32[6] @\"b\" forward\n"
                                        "  output \"y\" %4\n"),
                          op_registry())),
      head +
          "  %3 = add(%2, %1) : f32[6] @\"b\" forward\n"
          "  output \"y\" %3\n");
  const std::string others = head +
                             "  %3 = reshape(%0) {shape=[6]} : f32[6] @\"b\" backward\n"
                             "  %4 = reshape(%0) {shape=[3,2]} : f32[3,2] @\"b\" forward\n"
                             "  %5 = neg(%3) : f32[6] @\"b\" backward\n"
                             "  %6 = reshape(%0) {shape=[6]} : f32[6] @\"b\" forward\n"
                             "  output \"flat\" %6\n";
  EXPECT_EQ(printed(share_views(parsed(others), op_registry())), others);
}

// Names, outputs, scopes and phases go where values go.
TEST(Rewriter, inserts_replaces_and_drops) {
  Rewriter rewriter(parsed("  %0 = input \"x\" : f32[2]\n"
                           "  %1 = input \"unused\" : f32[2]\n"
                           "  %2 = exp(%0) : f32[2] @\"a\" forward\n"
                           "  %3 = neg(%2) : f32[2] @\"b\" forward\n"
                           "  %4 = tanh(%3) : f32[2] @\"c\" update\n"
                           "  output \"half\" %3\n"
                           "  output \"y\" %4\n"),
                    op_registry());
  rewriter.drop(ValueId(1));
  rewriter.for_each_node([&](Node& node, NodeId id) {
    if (id == NodeId(1))
      return rewriter.replace(node.outputs[0], scale(rewriter, node.inputs[0], -1));
    if (id == NodeId(2)) node.inputs[0] = relu(rewriter, node.inputs[0]);
    rewriter.keep(node);
  });
  EXPECT_EQ(printed(rewriter.take()),
            "  %0 = input \"x\" : f32[2]\n"
            "  %1 = exp(%0) : f32[2] @\"a\" forward\n"
            "  %2 = scale(%1) {factor=-1.0} : f32[2] @\"b\" forward\n"
            "  %3 = relu(%2) : f32[2] @\"c\" update\n"
            "  %4 = tanh(%3) : f32[2] @\"c\" update\n"
            "  output \"half\" %2\n"
            "  output \"y\" %4\n");
}

TEST(Rewriter, what_is_built_behind_a_node_may_stand_for_it) {
  Rewriter rewriter(parsed("  %0 = input \"x\" : f32[2]\n"
                           "  %1 = exp(%0) : f32[2] @\"a\" forward\n"
                           "  %2 = neg(%1) : f32[2] @\"b\" forward\n"
                           "  output \"inner\" %1\n"
                           "  output \"y\" %2\n"),
                    op_registry());
  rewriter.for_each_node([&](Node& node, NodeId id) {
    const ValueId made = node.outputs[0];
    rewriter.keep(node);
    if (id == NodeId(0)) rewriter.replace(made, add(rewriter, made, made));
  });
  EXPECT_EQ(printed(rewriter.take()),
            "  %0 = input \"x\" : f32[2]\n"
            "  %1 = exp(%0) : f32[2] @\"a\" forward\n"
            "  %2 = add(%1, %1) : f32[2] @\"a\" forward\n"
            "  %3 = neg(%2) : f32[2] @\"b\" forward\n"
            "  output \"inner\" %2\n"
            "  output \"y\" %3\n");
}

TEST(Rewriter, types_follow_operands_where_they_are_asked_to) {
  Rewriter rewriter(parsed("  %0 = input \"x\" : f32[2,2]\n"
                           "  %1 = relu(%0) : f32[2,2] @\"\" forward\n"
                           "  %2 = neg(%1) : f32[2,2] @\"\" forward\n"
                           "  output \"y\" %2\n"),
                    op_registry());
  rewriter.for_each_node([&](Node& node, NodeId id) {
    if (id == NodeId(0)) node.inputs[0] = cast(rewriter, node.inputs[0], DType::bf16);
    if (id == NodeId(1)) node.inputs[0] = cast(rewriter, node.inputs[0], DType::f32);
    rewriter.keep_retyped(node);
  });
  const Graph graph = rewriter.take();
  verify(graph);
  EXPECT_EQ(graph.type(graph.nodes[NodeId(1)].outputs[0]).dtype, DType::bf16);
  EXPECT_EQ(graph.type(graph.outputs[0]).dtype, DType::f32);
}

}  // namespace
}  // namespace snug::compile

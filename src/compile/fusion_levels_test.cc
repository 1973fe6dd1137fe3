// SPDX-License-Identifier: Apache-2.0
// Levels of fusion: which rule a node has, and what lowering takes from ops that stay by
// themselves.
#include "compile/fusion_levels.h"

#include <gtest/gtest.h>

#include "compile/compile.h"
#include "graph/builder.h"
#include "graph/op_def.h"
#include "ops/registry.h"

namespace snug::compile {
namespace {

// Every op but products is computed by rows, eight of them.
class ByRows final : public Backend {
 public:
  [[nodiscard]] std::string name() const override { return "by rows"; }
  [[nodiscard]] int64_t alignment() const override { return 64; }
  [[nodiscard]] int64_t storage_bytes(const TensorType& type) const override {
    return byte_count(type);
  }
  [[nodiscard]] KernelChoice select(const NodeSpec& spec) const override {
    KernelChoice choice{.kernel = "rows", .seconds = 1, .saved_seconds = 0.5, .far_seconds = 1};
    if (*spec.op->name == "matmul") return choice;
    choice.row_form.grid = {.rows = 8};
    choice.row_form.inputs.assign(spec.inputs.size(), 256);
    choice.row_form.outputs.assign(spec.outputs.size(), 256);
    return choice;
  }
  [[nodiscard]] std::unique_ptr<Kernel> create(const NodeSpec&) const override { return nullptr; }
  [[nodiscard]] std::unique_ptr<Queue> create_queue() const override { return nullptr; }
};

// exp in a, tanh and exp in b, and a neg in no scope.
Graph chain() {
  GraphBuilder builder(op_registry(), "chain");
  ValueId x = builder.parameter("w", {DType::f32, {8, 64}});
  const auto add = [&](const char* op) {
    x = builder.op1(op, {x});
    builder.mark_output(x, "y" + std::to_string(x.number()));
  };
  {
    const ScopeGuard scope(builder, "a");
    add("exp");
  }
  {
    const ScopeGuard scope(builder, "b");
    add("tanh");
    add("exp");
  }
  add("neg");
  return builder.graph();
}

// One letter an op: f where it may join others.
std::string fused(const FusionLevels& levels) {
  const Graph graph = chain();
  std::string text;
  const runtime::Lowered lowered = lower(graph, ByRows(), {.fusion = levels});
  for (const plan::OpId id : lowered.problem.ops.ids()) {
    const bool is_given = lowered.problem.ops[id].rowwise->form.is_given();
    EXPECT_EQ(lowered.nodes_by_rows[id], is_given ? 1 : 0);
    text += is_given ? 'f' : '-';
  }
  return text;
}

TEST(FusionLevels, the_first_rule_that_matches_scope_or_scope_and_op_decides) {
  EXPECT_EQ(fused({}), "ffff");
  EXPECT_EQ(fused({.level = FusionLevel::off}), "----");
  EXPECT_EQ(fused({.overrides = {{"b", FusionLevel::off}}}), "f--f");
  EXPECT_EQ(fused({.overrides = {{"*.exp", FusionLevel::off}}}), "-f-f");
  EXPECT_EQ(fused({.overrides = {{"b.exp", FusionLevel::fusible}, {"b*", FusionLevel::off}}}),
            "f-ff");
  EXPECT_EQ(fused({.overrides = {{"b*", FusionLevel::off}, {"b.exp", FusionLevel::fusible}}}),
            "f--f");
  EXPECT_EQ(fused({.level = FusionLevel::off,
                   .overrides = {{"b*", FusionLevel::full}, {"neg", FusionLevel::fusible}}}),
            "-fff");
}

// How many of two ops that write over a product join row programs.
int32_t behind_product(const FusionLevels& levels) {
  GraphBuilder builder(op_registry(), "product");
  const ValueId x = builder.input("x", {DType::f32, {8, 64}});
  const ValueId w = builder.parameter("w", {DType::f32, {64, 64}});
  const ValueId product = builder.op1("matmul", {x, w, kNone});
  builder.mark_output(builder.op1("exp", {builder.op1("tanh", {product})}), "y");
  const runtime::Lowered lowered = lower(builder.graph(), ByRows(), {.fusion = levels});
  EXPECT_EQ(lowered.problem.ops.size(), 1u);
  const plan::Op& op = lowered.problem.ops[plan::OpId(0)];
  EXPECT_EQ(op.rowwise->form.is_given(), lowered.nodes_by_rows[plan::OpId(0)] > 0);
  EXPECT_EQ(op.rowwise->has_head, op.rowwise->form.is_given());
  return lowered.nodes_by_rows[plan::OpId(0)];
}

TEST(FusionLevels, what_follows_a_product_joins_row_programs_where_the_product_is_at_full) {
  EXPECT_EQ(behind_product({}), 2);
  EXPECT_EQ(behind_product({.level = FusionLevel::fusible}), 0);
  EXPECT_EQ(behind_product({.level = FusionLevel::off}), 0);
  EXPECT_EQ(behind_product({.overrides = {{"matmul", FusionLevel::fusible}}}), 0);
  EXPECT_EQ(behind_product({.overrides = {{"matmul", FusionLevel::off}}}), 0);
  EXPECT_EQ(behind_product({.overrides = {{"tanh", FusionLevel::fusible}}}), 2);
  EXPECT_EQ(behind_product({.overrides = {{"tanh", FusionLevel::off}}}), 1);
  EXPECT_EQ(
      behind_product({.level = FusionLevel::fusible, .overrides = {{"matmul", FusionLevel::full}}}),
      2);
}

TEST(FusionLevels, each_level_has_a_word) {
  for (const FusionLevel level : {FusionLevel::off, FusionLevel::fusible, FusionLevel::full})
    EXPECT_EQ(fusion_level_of(word_of(level)), level);
  EXPECT_EQ(fusion_level_of("fast"), std::nullopt);
}

TEST(FusionLevels, equal_ops_at_other_levels_keep_the_signature_of_their_kind) {
  // Blocks of layers are alike to the search whatever joins in them later.
  const Graph graph = chain();
  const runtime::Lowered lowered =
      lower(graph, ByRows(), {.fusion = {.overrides = {{"a.exp", FusionLevel::off}}}});
  const auto& ops = lowered.problem.ops;
  EXPECT_EQ(ops[plan::OpId(0)].signature, ops[plan::OpId(2)].signature);
  EXPECT_NE(ops[plan::OpId(0)].rowwise, ops[plan::OpId(2)].rowwise);
}

}  // namespace
}  // namespace snug::compile

// SPDX-License-Identifier: Apache-2.0
// When the gradient of a table is row-sparse.
#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "compile/compile.h"
#include "compile/compile_testing.h"
#include "ops/embedding/embedding.h"
#include "ops/matmul/matmul.h"
#include "ops/registry.h"

namespace snug::compile {
namespace {

constexpr int64_t kWidth = 16;

struct Table {
  int64_t rows = 100;
  bool is_tied = false;    // a layer multiplies with it, too
  bool is_summed = false;  // two rows an output
};

NetworkDef network_of(const Table& given) {
  NetworkDef network;
  network.build = [given](GraphBuilder& builder, const BuildRequest& request) -> ValueId {
    const ValueId table = builder.parameter("table", {DType::f32, {given.rows, kWidth}});
    ValueId x = kNone;
    if (given.is_summed) {
      const Shape shape = {request.rows, 2};
      x = embedding_sum(builder, table, builder.input("ids", {DType::i32, shape}),
                        builder.input("weights", {DType::f32, shape}));
    } else {
      x = embedding(builder, table, builder.input("ids", {DType::i32, {request.rows}}));
    }
    const ValueId head =
        given.is_tied ? table : builder.parameter("head", {DType::f32, {given.rows, kWidth}});
    const ValueId y = matmul(builder, x, head, {.transpose_b = true});
    return squared_error(builder, y);
  };
  network.init_rule = [](const std::string&, const Shape&) { return InitRule{}; };
  network.is_head = [](const std::string&) { return false; };
  return network;
}

Recipe recipe_of(const char* optimizer) {
  Recipe recipe;
  recipe.optimizer = optim::make_options(optimizer);
  return recipe;
}

// What makes the gradient of the table in a batch of ten rows, and whether its update is told which
// row is which.
struct Found {
  std::string op;
  bool is_told = false;
  friend bool operator==(const Found&, const Found&) = default;
};
void PrintTo(const Found& found, std::ostream* out) { *out << found.op << " " << found.is_told; }

Found found_in(const Table& table, const Recipe& recipe, int64_t micro_batches = 1) {
  const Graph graph = build_train_graph(network_of(table), recipe, {10}, micro_batches);
  Found found;
  for (const Node& node : graph.nodes) {
    if (node.op->name->starts_with("embedding_") && node.phase == Phase::backward)
      found.op = *node.op->name;
    const std::optional<SparseOperand>& sparse = node.op->sparse_operand;
    if (sparse && sparse->row_of && node.inputs[*sparse->row_of] != kNone) found.is_told = true;
  }
  return found;
}

TEST(Row_sparse, the_gradient_of_a_table_has_the_rows_that_occur) {
  for (const char* optimizer : {"adamw", "sgd", "lamb"}) {
    EXPECT_EQ(found_in({}, recipe_of(optimizer)), (Found{"embedding_grad_rows", true}));
    EXPECT_EQ(found_in({.is_summed = true}, recipe_of(optimizer)),
              (Found{"embedding_sum_grad_rows", true}));
  }
  Recipe without_clip = recipe_of("adamw");
  without_clip.max_grad_norm = 0;
  EXPECT_EQ(found_in({}, without_clip), (Found{"embedding_grad_rows", true}));
}

TEST(Row_sparse, half_of_the_rows_may_occur) {
  EXPECT_EQ(found_in({.rows = 20}, recipe_of("adamw")), (Found{"embedding_grad_rows", true}));
  EXPECT_EQ(found_in({.rows = 19}, recipe_of("adamw")), (Found{"embedding_grad", false}));
}

TEST(Row_sparse, what_else_reads_the_gradient_wants_it_whole) {
  EXPECT_EQ(found_in({}, recipe_of("adafactor")), (Found{"embedding_grad", false}));
  EXPECT_FALSE(found_in({.is_tied = true}, recipe_of("adamw")).is_told);
  EXPECT_EQ(found_in({}, recipe_of("adamw"), 2), (Found{"embedding_grad_accumulate", false}));
}

// In batches of 30 rows, of which a micro-batch has ten.
Recipe with_sums(const Table& table, Recipe recipe) {
  recipe.row_sparse = row_sparse_sums_of(network_of(table), recipe, {30});
  return recipe;
}

TEST(Row_sparse, sums_over_micro_batches_have_the_rows_that_occur_in_an_update) {
  for (const bool is_summed : {false, true}) {
    const Table table{.rows = 200, .is_summed = is_summed};
    const Recipe recipe = with_sums(table, recipe_of("adamw"));
    EXPECT_EQ(recipe.row_sparse, (RowSparseSums{{"table", is_summed ? 60 : 30}}));
    const std::string op =
        is_summed ? "embedding_sum_grad_rows_accumulate" : "embedding_grad_rows_accumulate";
    EXPECT_EQ(found_in(table, recipe, 3), (Found{op, false}));
    const Graph update = build_update_graph(network_of(table), recipe);
    const ValueId sum = update.find("grad.table");
    ASSERT_NE(sum, kNone);
    EXPECT_EQ(update.type(sum).shape, (Shape{is_summed ? 60 : 30, kWidth}));
    EXPECT_EQ(update.type(update.find("grad.table.row_of")).shape, (Shape{200}));
    size_t cleared = 0;
    for (const Node& node : update.nodes) {
      if (*node.op->name == "set_zero") ++cleared;
    }
    EXPECT_EQ(cleared, 4U);  // those of the table and of the head
  }
}

TEST(Row_sparse, sums_are_whole_where_more_rows_may_occur_or_something_wants_them_whole) {
  EXPECT_EQ(with_sums({.rows = 60}, recipe_of("adamw")).row_sparse.size(), 1U);
  EXPECT_TRUE(with_sums({.rows = 59}, recipe_of("adamw")).row_sparse.empty());
  EXPECT_TRUE(with_sums({.rows = 200}, recipe_of("adafactor")).row_sparse.empty());
  EXPECT_TRUE(with_sums({.rows = 200, .is_tied = true}, recipe_of("adamw")).row_sparse.empty());
  Recipe narrow = recipe_of("adamw");
  narrow.gradients = DType::bf16;
  EXPECT_TRUE(with_sums({.rows = 200}, narrow).row_sparse.empty());
  Recipe frozen = recipe_of("adamw");
  frozen.freeze = {"table"};
  EXPECT_TRUE(with_sums({.rows = 200}, frozen).row_sparse.empty());
}

}  // namespace
}  // namespace snug::compile

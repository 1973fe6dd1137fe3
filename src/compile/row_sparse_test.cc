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

}  // namespace
}  // namespace snug::compile

// SPDX-License-Identifier: Apache-2.0
// Lowering as a text in and a text out: which values are one storage, what is written in place,
// what runs once.
#include <gtest/gtest.h>

#include "compile/compile.h"
#include "graph/text.h"
#include "ops/registry.h"

namespace snug::compile {
namespace {

// Every kernel needs `scratch` bytes for each letter of its op's name; nothing runs.
class Sized final : public Backend {
 public:
  explicit Sized(int64_t scratch_bytes) : scratch_bytes_(scratch_bytes) {}
  [[nodiscard]] std::string name() const override { return "sized"; }
  [[nodiscard]] int64_t alignment() const override { return 64; }
  [[nodiscard]] int64_t storage_bytes(const TensorType& type) const override {
    return byte_count(type);
  }
  [[nodiscard]] KernelChoice select(const NodeSpec& spec) const override {
    return {.kernel = "none",
            .scratch_bytes = scratch_bytes_ * static_cast<int64_t>(spec.op->name->size()),
            .seconds = 1,
            .far_seconds = 1,
            .uncertainty = 0};
  }
  [[nodiscard]] std::unique_ptr<Kernel> create(const NodeSpec&) const override { return nullptr; }
  [[nodiscard]] std::unique_ptr<Queue> create_queue() const override { return nullptr; }

 private:
  int64_t scratch_bytes_;
};

// "exp: x -> exp 64", "accumulate once: sum g -> sum", "relu_grad once: y dy -> dx 64 over dy"; the
// bytes of what lies in the arena, and at the end what is kept.
std::string text_of(const plan::Problem& problem) {
  const auto name = [&](plan::StorageId id) { return " " + problem.storages[id].name; };
  std::string text;
  for (const plan::Op& op : problem.ops) {
    text += op.name + (op.may_recompute ? "" : " once") + ":";
    for (const plan::StorageId id : op.inputs) text += name(id);
    text += " ->";
    for (const plan::StorageId id : op.outputs) {
      const plan::Storage& storage = problem.storages[id];
      text += name(id) + (storage.resident ? "" : " " + std::to_string(storage.bytes));
    }
    for (const auto& [output, input] : op.reuses) text += " over" + name(input);
    if (op.scratch_bytes > 0) text += " scratch " + std::to_string(op.scratch_bytes);
    text += "\n";
  }
  text += "keep";
  for (const plan::StorageId id : problem.keep) text += name(id);
  return text + "\n";
}

std::string lowered(const std::string& body, int64_t scratch_bytes = 0) {
  const Graph graph = parse_graph("graph \"g\" {\n" + body + "}\n", op_registry());
  return text_of(lower(graph, Sized(scratch_bytes)).problem);
}

TEST(Lower_text, ops_read_and_write_storages_of_whole_units) {
  EXPECT_EQ(lowered("  %0 = input \"x\" : f32[17]\n"
                    "  %1 = parameter \"w\" : f32[17]\n"
                    "  %2 = mul(%0, %1) : f32[17] @\"layer\" forward\n"
                    "  %3 = mul(%2, %2) : f32[17] @\"\" forward\n"
                    "  output \"y\" %3\n"
                    "  output \"z\" %2\n",
                    5),
            "mul: x w -> z 128 scratch 64\n"
            "mul: z -> y 128 scratch 64\n"
            "keep y z\n");
}

// A view has no op and no bytes of its own; what reads it reads its input.
TEST(Lower_text, views_are_their_inputs) {
  EXPECT_EQ(lowered("  %0 = input \"x\" : f32[2,16]\n"
                    "  %1 = exp(%0) : f32[2,16] @\"\" forward\n"
                    "  %2 = reshape(%1) {shape=[32]} : f32[32] @\"\" forward\n"
                    "  %3 = neg(%2) : f32[32] @\"\" backward\n"
                    "  %4 = reshape(%0) {shape=[32]} : f32[32] @\"\" forward\n"
                    "  %5 = mul(%4, %3) : f32[32] @\"\" backward\n"
                    "  output \"y\" %5\n"
                    "  output \"e\" %1\n"),
            "exp: x -> e 128\n"
            "neg once: e -> neg 128\n"
            "mul once: x neg -> y 128 over neg\n"
            "keep y e\n");
}

// Forward: an op whose output may be written over an input that nobody else reads is one with the
// op that makes it, and one storage.
TEST(Lower_text, forward_ops_join_the_one_that_they_overwrite) {
  EXPECT_EQ(lowered("  %0 = input \"x\" : f32[4,4]\n"
                    "  %1 = parameter \"w\" : f32[4,4]\n"
                    "  %2 = matmul(%0, %1, _) : f32[4,4] @\"layer\" forward\n"
                    "  %3 = relu(%2) : f32[4,4] @\"layer\" forward\n"
                    "  %4 = add(%3, %0) : f32[4,4] @\"layer\" forward\n"
                    "  output \"y\" %4\n",
                    64),
            "matmul+relu+add: x w -> y 64 scratch 384\n"
            "keep y\n");
}

// The same text but for a second reader, an output, a reader through a view, another size, an input
// that is resident, or an operand that is made later: two ops.
TEST(Lower_text, what_somebody_else_reads_is_not_overwritten) {
  const std::string head =
      "  %0 = input \"x\" : f32[4,4]\n"
      "  %1 = input \"row\" : f32[1,4]\n"
      "  %2 = exp(%0) : f32[4,4] @\"\" forward\n";
  EXPECT_EQ(lowered(head + "  %3 = relu(%2) : f32[4,4] @\"\" forward\n"
                           "  %4 = sum_squares(%2) : f32[] @\"\" forward\n"
                           "  output \"y\" %3\n"
                           "  output \"n\" %4\n"),
            "exp: x -> exp 64\nrelu: exp -> y 64\nsum_squares: exp -> n 64\nkeep y n\n");
  EXPECT_EQ(lowered(head + "  %3 = relu(%2) : f32[4,4] @\"\" forward\n"
                           "  output \"y\" %3\n"
                           "  output \"e\" %2\n"),
            "exp: x -> e 64\nrelu: e -> y 64\nkeep y e\n");
  EXPECT_EQ(lowered(head + "  %3 = reshape(%2) {shape=[16]} : f32[16] @\"\" forward\n"
                           "  %4 = relu(%2) : f32[4,4] @\"\" forward\n"
                           "  %5 = sum_squares(%3) : f32[] @\"\" forward\n"
                           "  output \"y\" %4\n"
                           "  output \"n\" %5\n"),
            "exp: x -> exp 64\nrelu: exp -> y 64\nsum_squares: exp -> n 64\nkeep y n\n");
  EXPECT_EQ(lowered("  %0 = input \"x\" : f32[4,4]\n"
                    "  %1 = input \"row\" : f32[1,4]\n"
                    "  %2 = exp(%1) : f32[1,4] @\"\" forward\n"
                    "  %3 = add(%2, %0) : f32[4,4] @\"\" forward\n"
                    "  output \"y\" %3\n"),
            "exp: row -> exp 64\nadd: exp x -> y 64\nkeep y\n");
  EXPECT_EQ(lowered("  %0 = input \"x\" : f32[4,4]\n"
                    "  %1 = relu(%0) : f32[4,4] @\"\" forward\n"
                    "  output \"y\" %1\n"),
            "relu: x -> y 64\nkeep y\n");
  EXPECT_EQ(
      lowered("  %0 = input \"x\" : f32[4,4]\n"
              "  %1 = exp(%0) : f32[4,4] @\"\" forward\n"
              "  %2 = tanh(%0) : f32[4,4] @\"\" forward\n"
              "  %3 = sum_squares(%2) : f32[] @\"\" forward\n"
              "  %4 = sub(%1, %2) : f32[4,4] @\"\" forward\n"
              "  output \"y\" %4\n"
              "  output \"n\" %3\n"),
      "exp: x -> exp 64\ntanh: x -> tanh 64\nsum_squares: tanh -> n 64\nsub: exp tanh -> y 64\n"
      "keep y n\n");
}

// Backward: ops run once, so the place of a gradient that is read for the last time is its
// reader's.
TEST(Lower_text, backward_ops_write_over_gradients) {
  const std::string head =
      "  %0 = input \"x\" : f32[16]\n"
      "  %1 = relu(%0) : f32[16] @\"\" forward\n"
      "  %2 = exp(%1) : f32[16] @\"\" forward\n"
      "  %3 = mul(%2, %1) : f32[16] @\"\" backward\n"
      "  %4 = relu_grad(%1, %3) : f32[16] @\"\" backward\n";
  EXPECT_EQ(lowered(head + "  output \"dx\" %4\n"),
            "relu: x -> relu 64\n"
            "exp: relu -> exp 64\n"
            "mul once: exp relu -> mul 64 over exp\n"
            "relu_grad once: relu mul -> dx 64 over mul\n"
            "keep dx\n");
  EXPECT_EQ(lowered(head + "  output \"dx\" %4\n  output \"y\" %1\n  output \"e\" %2\n"),
            "relu: x -> y 64\n"
            "exp: y -> e 64\n"
            "mul once: e y -> mul 64\n"
            "relu_grad once: y mul -> dx 64 over mul\n"
            "keep dx y e\n");
}

// A sum and an update are the resident itself; such an op runs once, in the forward part, too.
TEST(Lower_text, residents_that_must_be_overwritten_are_the_output) {
  EXPECT_EQ(lowered("  %0 = state \"grad.w\" : f32[16]\n"
                    "  %1 = input \"dy\" : f32[16]\n"
                    "  %2 = accumulate(%0, %1) : f32[16] @\"\" forward\n"
                    "  %3 = set_zero(%2) : f32[16] @\"\" update\n"),
            "accumulate once: grad.w dy -> grad.w\n"
            "set_zero once: grad.w -> grad.w\n"
            "keep\n");
}

// What reads a resident before it changes does not join an op behind the change.
TEST(Lower_text, running_statistics_are_moved_by_one_op) {
  const std::string text = lowered(
      "  %0 = input \"x\" : f32[2,2,2,4]\n"
      "  %1 = parameter \"gamma\" : f32[4]\n"
      "  %2 = buffer \"running_mean\" : f32[4]\n"
      "  %3 = buffer \"running_variance\" : f32[4]\n"
      "  %4, %5, %6 = batch_norm(%0, %1, %1) : f32[2,2,2,4], f32[4], f32[4] @\"\" forward\n"
      "  %7, %8 = running_statistics(%2, %3, %5, %6) {rows=8} : f32[4], f32[4] @\"\" forward\n"
      "  %9 = relu(%4) : f32[2,2,2,4] @\"\" forward\n"
      "  output \"y\" %9\n");
  EXPECT_EQ(text,
            "batch_norm+relu: x gamma -> y 128 batch_norm.mean 64 batch_norm.variance 64\n"
            "running_statistics once: running_mean running_variance batch_norm.mean "
            "batch_norm.variance -> running_mean running_variance\n"
            "keep y\n");
}

// A node that reads a statistic after it was moved does not join an op before the move.
TEST(Lower_text, a_resident_that_changes_in_between_keeps_ops_apart) {
  EXPECT_EQ(lowered("  %0 = input \"x\" : f32[2,2,2,4]\n"
                    "  %1 = parameter \"gamma\" : f32[4]\n"
                    "  %2 = buffer \"mean\" : f32[4]\n"
                    "  %3 = buffer \"variance\" : f32[4]\n"
                    "  %4 = exp(%0) : f32[2,2,2,4] @\"\" forward\n"
                    "  %5, %6 = running_statistics(%2, %3, %1, %1) {rows=8} : f32[4], f32[4] "
                    "@\"\" forward\n"
                    "  %7 = batch_norm_inference(%4, %1, %1, %5, %6) : f32[2,2,2,4] @\"\" forward\n"
                    "  output \"y\" %7\n"),
            "exp: x -> exp 128\n"
            "running_statistics once: mean variance gamma -> mean variance\n"
            "batch_norm_inference: exp gamma mean variance -> y 128\n"
            "keep y\n");
}

// Where a slice begins is no part of what an op costs; how long it is, is.
TEST(Lower_text, equal_steps_have_equal_signatures_and_others_do_not) {
  const Graph graph = parse_graph(
      "graph \"g\" {\n"
      "  %0 = input \"x\" : f32[4,8]\n"
      "  %1 = slice(%0) {axis=1, start=0, stop=4} : f32[4,4] @\"step.0\" forward\n"
      "  %2 = slice(%0) {axis=1, start=4, stop=8} : f32[4,4] @\"step.1\" forward\n"
      "  %3 = slice(%0) {axis=1, start=0, stop=2} : f32[4,2] @\"step.2\" forward\n"
      "  output \"a\" %1\n  output \"b\" %2\n  output \"c\" %3\n}\n",
      op_registry());
  const plan::Problem problem = lower(graph, Sized(0)).problem;
  EXPECT_EQ(problem.ops[plan::OpId(0)].signature, problem.ops[plan::OpId(1)].signature);
  EXPECT_NE(problem.ops[plan::OpId(0)].signature, problem.ops[plan::OpId(2)].signature);
  EXPECT_EQ(problem.ops[plan::OpId(1)].scope, "step.1");
}

// The trait of the op that a group begins with or takes up.
TEST(Lower_text, an_op_is_expensive_where_one_of_its_nodes_is) {
  const Graph graph = parse_graph(
      "graph \"g\" {\n"
      "  %0 = input \"x\" : f32[4,4]\n"
      "  %1 = matmul(%0, %0, _) : f32[4,4] @\"\" forward\n"
      "  %2 = relu(%1) : f32[4,4] @\"\" forward\n"
      "  %3 = sum_squares(%2) : f32[] @\"\" forward\n"
      "  output \"y\" %2\n  output \"n\" %3\n}\n",
      op_registry());
  const plan::Problem problem = lower(graph, Sized(0)).problem;
  ASSERT_EQ(problem.ops.size(), 2u);
  EXPECT_TRUE(problem.ops[plan::OpId(0)].is_expensive);
  EXPECT_FALSE(problem.ops[plan::OpId(1)].is_expensive);
}

}  // namespace
}  // namespace snug::compile

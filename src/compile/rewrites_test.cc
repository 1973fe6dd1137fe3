// SPDX-License-Identifier: Apache-2.0
// Each pass as a text in and a text out: what it rewrites, and what looks alike and must stay.
#include <gtest/gtest.h>

#include "compile/fuse_accumulate.h"
#include "compile/remove_dead.h"
#include "compile/rewriter.h"
#include "compile/split_prologue.h"
#include "graph/graph_testing.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "ops/registry.h"
#include "snug/error.h"

namespace snug::compile {
namespace {

Graph parsed(const std::string& body) {
  return parse_graph("graph \"g\" {\n" + body + "}\n", op_registry());
}
std::string printed(const Graph& graph) {
  verify(graph);
  const std::string text = print(graph);
  const std::string head = "graph \"g\" {\n";
  EXPECT_TRUE(text.starts_with(head) && text.ends_with("}\n")) << text;
  return text.substr(head.size(), text.size() - head.size() - 2);
}
/// In the order of compile.cc.
Graph cleaned(Graph graph) {
  return fuse_accumulate(remove_dead(std::move(graph), op_registry()), op_registry());
}
std::string without_dead(const std::string& body) {
  return printed(remove_dead(parsed(body), op_registry()));
}
std::string fused(const std::string& body) {
  return printed(fuse_accumulate(parsed(body), op_registry()));
}

TEST(Remove_dead, drops_what_nobody_reads_and_numbers_anew) {
  EXPECT_EQ(without_dead("  %0 = input \"x\" : f32[2]\n"
                         "  %1 = exp(%0) : f32[2] @\"a\" forward\n"
                         "  %2 = neg(%1) : f32[2] @\"a\" forward\n"
                         "  %3 = tanh(%0) : f32[2] @\"b\" forward\n"
                         "  output \"y\" %3\n"),
            "  %0 = input \"x\" : f32[2]\n"
            "  %1 = tanh(%0) : f32[2] @\"b\" forward\n"
            "  output \"y\" %1\n");
}

// Residents, nodes that overwrite one, views on the way to an output, all outputs of a node of
// which one is read, and what is an output and read by nobody.
TEST(Remove_dead, keeps_what_has_an_effect) {
  const std::string body =
      "  %0 = input \"x\" : f32[2,3]\n"
      "  %1 = parameter \"unused\" : f32[4]\n"
      "  %2 = state \"sum\" : f32[2,3]\n"
      "  %3 = parameter \"gamma\" : f32[3]\n"
      "  %4 = exp(%0) : f32[2,3] @\"\" forward\n"
      "  %5 = accumulate(%2, %4) : f32[2,3] @\"\" update\n"
      "  %6 = reshape(%0) {shape=[6]} : f32[6] @\"\" forward\n"
      "  %7, %8, %9 = layer_norm(%0, %3, %3) : f32[2,3], f32[2], f32[2] @\"\" forward\n"
      "  output \"flat\" %6\n"
      "  output \"mean\" %8\n";
  EXPECT_EQ(without_dead(body), body);
}

TEST(Fuse_accumulate, a_product_is_added_up_in_place) {
  EXPECT_EQ(
      fused("  %0 = input \"x\" : f32[8,4]\n"
            "  %1 = input \"dy\" : f32[8,3]\n"
            "  %2 = state \"grad.w\" : f32[3,4]\n"
            "  %3 = matmul(%1, %0, _) {transpose_a=true} : f32[3,4] @\"layer\" backward\n"
            "  %4 = accumulate(%2, %3) : f32[3,4] @\"update\" update\n"),
      "  %0 = input \"x\" : f32[8,4]\n"
      "  %1 = input \"dy\" : f32[8,3]\n"
      "  %2 = state \"grad.w\" : f32[3,4]\n"
      "  %3 = matmul_accumulate(%2, %1, %0) {transpose_a=true} : f32[3,4] @\"update\" update\n");
}

TEST(Fuse_accumulate, so_are_the_rows_of_an_embedding) {
  EXPECT_EQ(fused("  %0 = input \"ids\" : i32[5]\n"
                  "  %1 = input \"dy\" : f32[5,4]\n"
                  "  %2 = state \"grad.table\" : f32[9,4]\n"
                  "  %3 = embedding_grad(%0, %1) {rows=9} : f32[9,4] @\"\" backward\n"
                  "  %4 = accumulate(%2, %3) : f32[9,4] @\"\" backward\n"),
            "  %0 = input \"ids\" : i32[5]\n"
            "  %1 = input \"dy\" : f32[5,4]\n"
            "  %2 = state \"grad.table\" : f32[9,4]\n"
            "  %3 = embedding_grad_accumulate(%2, %0, %1) : f32[9,4] @\"\" backward\n");
}

TEST(Fuse_accumulate, so_are_rows_that_were_summed) {
  EXPECT_EQ(fused("  %0 = input \"ids\" : i32[2,5]\n"
                  "  %1 = input \"weights\" : f32[2,5]\n"
                  "  %2 = input \"dy\" : f32[2,4]\n"
                  "  %3 = state \"grad.table\" : f32[9,4]\n"
                  "  %4 = embedding_sum_grad(%0, %1, %2) {rows=9} : f32[9,4] @\"\" backward\n"
                  "  %5 = accumulate(%3, %4) : f32[9,4] @\"\" backward\n"),
            "  %0 = input \"ids\" : i32[2,5]\n"
            "  %1 = input \"weights\" : f32[2,5]\n"
            "  %2 = input \"dy\" : f32[2,4]\n"
            "  %3 = state \"grad.table\" : f32[9,4]\n"
            "  %4 = embedding_sum_grad_accumulate(%3, %0, %1, %2) : f32[9,4] @\"\" backward\n");
}

// Two sums into one accumulator stay in their order.
TEST(Fuse_accumulate, uses_of_a_shared_weight_are_added_one_after_the_other) {
  EXPECT_EQ(fused("  %0 = input \"a\" : f32[2,2]\n"
                  "  %1 = state \"grad.w\" : f32[2,2]\n"
                  "  %2 = matmul(%0, %0, _) : f32[2,2] @\"\" backward\n"
                  "  %3 = accumulate(%1, %2) : f32[2,2] @\"\" backward\n"
                  "  %4 = matmul(%0, %0, _) {transpose_b=true} : f32[2,2] @\"\" backward\n"
                  "  %5 = accumulate(%3, %4) : f32[2,2] @\"\" backward\n"),
            "  %0 = input \"a\" : f32[2,2]\n"
            "  %1 = state \"grad.w\" : f32[2,2]\n"
            "  %2 = matmul_accumulate(%1, %0, %0) : f32[2,2] @\"\" backward\n"
            "  %3 = matmul_accumulate(%2, %0, %0) {transpose_b=true} : f32[2,2] @\"\" backward\n");
}

// A temporary that somebody else reads, an output, operands that have no such form, a product that
// is not made by a node, and a sum that is no accumulation.
TEST(Fuse_accumulate, what_only_looks_alike_stays) {
  const std::string residents =
      "  %0 = input \"a\" : f32[2,2]\n"
      "  %1 = input \"b\" : f32[3,2,2]\n"
      "  %2 = input \"bias\" : f32[2]\n"
      "  %3 = state \"sum\" : f32[2,2]\n"
      "  %4 = state \"sums\" : f32[3,2,2]\n";
  for (const char* nodes : {"  %5 = matmul(%0, %0, _) : f32[2,2] @\"\" backward\n"
                            "  %6 = accumulate(%3, %5) : f32[2,2] @\"\" backward\n"
                            "  %7 = sum_squares(%5) : f32[] @\"\" backward\n"
                            "  output \"norm\" %7\n",
                            "  %5 = matmul(%0, %0, _) : f32[2,2] @\"\" backward\n"
                            "  %6 = accumulate(%3, %5) : f32[2,2] @\"\" backward\n"
                            "  output \"gradient\" %5\n",
                            "  %5 = matmul(%0, %0, %2) : f32[2,2] @\"\" backward\n"
                            "  %6 = accumulate(%3, %5) : f32[2,2] @\"\" backward\n",
                            "  %5 = matmul(%1, %1, _) : f32[3,2,2] @\"\" backward\n"
                            "  %6 = accumulate(%4, %5) : f32[3,2,2] @\"\" backward\n",
                            "  %5 = matmul(%1, %0, _) : f32[3,2,2] @\"\" backward\n"
                            "  %6 = accumulate(%4, %5) : f32[3,2,2] @\"\" backward\n",
                            "  %5 = exp(%0) : f32[2,2] @\"\" backward\n"
                            "  %6 = accumulate(%3, %5) : f32[2,2] @\"\" backward\n",
                            "  %5 = accumulate(%3, %0) : f32[2,2] @\"\" backward\n",
                            "  %5 = matmul(%0, %0, _) : f32[2,2] @\"\" backward\n"
                            "  %6 = add(%3, %5) : f32[2,2] @\"\" backward\n"
                            "  output \"y\" %6\n"})
    EXPECT_EQ(fused(residents + nodes), residents + nodes);
}

TEST(Fuse_accumulate, every_op_with_such_a_form_has_a_text_here) {
  int forms = 0;
  for (const OpDef* op : op_registry().all()) forms += op->accumulating_form != nullptr ? 1 : 0;
  EXPECT_EQ(forms, 3)
      << "matmul, embedding_grad and embedding_sum_grad have; a new one needs a text above";
}

// A chain made twice (tied weights, or two layers of one builder), a view on the way, and a weight
// that is read as it is, too.
TEST(Split_prologue, takes_out_what_is_made_of_weights_and_makes_it_once) {
  const WithPrologue split =
      split_prologue(parsed("  %0 = input \"x\" : f32[2,4]\n"
                            "  %1 = parameter \"w\" : f32[4,4]\n"
                            "  %2 = cast(%1) {to=\"bf16\"} : bf16[4,4] @\"a\" prologue\n"
                            "  %3 = cast(%2) {to=\"f32\"} : f32[4,4] @\"a\" prologue\n"
                            "  %4 = matmul(%0, %3, _) : f32[2,4] @\"a\" forward\n"
                            "  %5 = cast(%1) {to=\"bf16\"} : bf16[4,4] @\"b\" prologue\n"
                            "  %6 = cast(%5) {to=\"f32\"} : f32[4,4] @\"b\" prologue\n"
                            "  %7 = reshape(%6) {shape=[16]} : f32[16] @\"b\" prologue\n"
                            "  %8 = matmul(%4, %6, _) : f32[2,4] @\"b\" forward\n"
                            "  %9 = matmul(%8, %1, _) : f32[2,4] @\"c\" forward\n"
                            "  %10 = sum_squares(%7) : f32[] @\"c\" forward\n"
                            "  output \"y\" %9\n"
                            "  output \"norm\" %10\n"));
  const std::string made = R"(cast(cast(w) {to=\"bf16\"}) {to=\"f32\"})";
  EXPECT_EQ(printed(split.main),
            "  %0 = input \"x\" : f32[2,4]\n"
            "  %1 = parameter \"w\" : f32[4,4]\n"
            "  %2 = cached \"" +
                made +
                "\" : f32[4,4]\n"
                "  %3 = matmul(%0, %2, _) : f32[2,4] @\"a\" forward\n"
                "  %4 = reshape(%2) {shape=[16]} : f32[16] @\"b\" prologue\n"
                "  %5 = matmul(%3, %2, _) : f32[2,4] @\"b\" forward\n"
                "  %6 = matmul(%5, %1, _) : f32[2,4] @\"c\" forward\n"
                "  %7 = sum_squares(%4) : f32[] @\"c\" forward\n"
                "  output \"y\" %6\n"
                "  output \"norm\" %7\n");
  const std::string prologue = print(split.prologue);
  EXPECT_EQ(prologue,
            "graph \"prologue\" {\n"
            "  %0 = parameter \"w\" : f32[4,4]\n"
            "  %1 = cast(%0) {to=\"bf16\"} : bf16[4,4] @\"a\" prologue\n"
            "  %2 = cast(%1) {to=\"f32\"} : f32[4,4] @\"a\" prologue\n"
            "  %3 = reshape(%2) {shape=[16]} : f32[16] @\"b\" prologue\n"
            "  cached \"" +
                made +
                "\" %2\n"
                "}\n");
  EXPECT_EQ(print(parse_graph(prologue, op_registry())), prologue);
}

TEST(Split_prologue, a_graph_without_one_stays_as_it_is) {
  const std::string body =
      "  %0 = input \"x\" : f32[2]\n"
      "  %1 = neg(%0) : f32[2] @\"\" forward\n"
      "  output \"y\" %1\n";
  const WithPrologue split = split_prologue(parsed(body));
  EXPECT_EQ(printed(split.main), body);
  EXPECT_TRUE(split.prologue.nodes.empty());
}

TEST(Split_prologue, what_may_differ_between_micro_batches_is_no_part_of_it) {
  const std::string input = "  %0 = input \"x\" : f32[2]\n";
  EXPECT_THROW((void)parsed(input + "  %1 = neg(%0) : f32[2] @\"\" prologue\n"), Error);
  EXPECT_THROW((void)parsed(input + "  %1 = neg(%0) : f32[2] @\"\" forward\n"
                                    "  %2 = neg(%1) : f32[2] @\"\" prologue\n"),
               Error);
}

TEST(Compact, residents_come_first_and_values_that_nobody_makes_go) {
  Graph graph = parsed(
      "  %0 = input \"x\" : f32[2]\n"
      "  %1 = exp(%0) : f32[2] @\"\" forward\n"
      "  %2 = parameter \"w\" : f32[2]\n"
      "  %3 = mul(%0, %2) : f32[2] @\"\" forward\n"
      "  output \"y\" %3\n");
  graph.nodes.erase(graph.nodes.begin());
  EXPECT_EQ(printed(compact(std::move(graph))),
            "  %0 = input \"x\" : f32[2]\n"
            "  %1 = parameter \"w\" : f32[2]\n"
            "  %2 = mul(%0, %1) : f32[2] @\"\" forward\n"
            "  output \"y\" %2\n");
}

// A pass that forgets a reader, or moves a node before what it reads.
TEST(Compact, a_wrong_pass_is_found) {
  const std::string body =
      "  %0 = input \"x\" : f32[2]\n"
      "  %1 = exp(%0) : f32[2] @\"\" forward\n"
      "  %2 = neg(%1) : f32[2] @\"\" forward\n"
      "  output \"y\" %2\n";
  Graph without_maker = parsed(body);
  without_maker.nodes.erase(without_maker.nodes.begin());
  EXPECT_THROW((void)compact(std::move(without_maker)), Error);
  Graph out_of_order = parsed(body);
  std::swap(out_of_order.nodes[NodeId(0)], out_of_order.nodes[NodeId(1)]);
  EXPECT_THROW((void)compact(std::move(out_of_order)), Error);
}

// A sum that moves behind a reader of the former one: the text is a graph, the verifier refuses it.
TEST(Rewrites, a_read_of_what_was_overwritten_is_refused) {
  const std::string head =
      "  %0 = input \"x\" : f32[2]\n"
      "  %1 = state \"sum\" : f32[2]\n";
  const std::string read = " = neg(%1) : f32[2] @\"\" backward\n";
  const std::string sum = " = accumulate(%1, %0) : f32[2] @\"\" backward\n";
  EXPECT_NO_THROW((void)parsed(head + "  %2" + read + "  %3" + sum + "  output \"y\" %2\n"));
  EXPECT_THROW((void)parsed(head + "  %2" + sum + "  %3" + read + "  output \"y\" %3\n"), Error);
}

// A dead reader of a gradient keeps it from being added up in place, so it goes first.
TEST(Rewrites, what_is_dead_goes_before_sums_are_made_in_place) {
  const Graph graph = parsed(
      "  %0 = input \"a\" : f32[2,2]\n"
      "  %1 = state \"sum\" : f32[2,2]\n"
      "  %2 = matmul(%0, %0, _) : f32[2,2] @\"\" backward\n"
      "  %3 = sum_squares(%2) : f32[] @\"\" backward\n"
      "  %4 = accumulate(%1, %2) : f32[2,2] @\"\" backward\n");
  EXPECT_EQ(printed(cleaned(graph)),
            "  %0 = input \"a\" : f32[2,2]\n"
            "  %1 = state \"sum\" : f32[2,2]\n"
            "  %2 = matmul_accumulate(%1, %0, %0) : f32[2,2] @\"\" backward\n");
  EXPECT_EQ(printed(remove_dead(fuse_accumulate(graph, op_registry()), op_registry())),
            "  %0 = input \"a\" : f32[2,2]\n"
            "  %1 = state \"sum\" : f32[2,2]\n"
            "  %2 = matmul(%0, %0, _) : f32[2,2] @\"\" backward\n"
            "  %3 = accumulate(%1, %2) : f32[2,2] @\"\" backward\n")
      << "the other order is worse";
}

// On graphs over all ops: valid graphs stay valid, outputs stay, and a second run changes nothing.
TEST(Rewrites, random_graphs_stay_whole) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Graph graph = random_graph(seed, 40);
    const Graph once = cleaned(graph);
    EXPECT_EQ(once.outputs.size(), graph.outputs.size());
    EXPECT_EQ(print(cleaned(once)), print(once)) << "seed " << seed;
    EXPECT_EQ(print(parse_graph(print(once), op_registry())), print(once)) << "seed " << seed;
  }
}

}  // namespace
}  // namespace snug::compile

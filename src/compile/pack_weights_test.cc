// SPDX-License-Identifier: Apache-2.0
// Which weights are packed, and what becomes of the products that read them.
#include "compile/pack_weights.h"

#include <gtest/gtest.h>

#include "compile/split_prologue.h"
#include "graph/text.h"
#include "ops/registry.h"

namespace snug::compile {
namespace {

Graph parsed(const std::string& body) {
  return parse_graph("graph \"g\" {\n" + body + "}\n", op_registry());
}
std::string body_of(const Graph& graph) {
  const std::string text = print(graph);
  const size_t begin = text.find('\n') + 1;
  return text.substr(begin, text.size() - begin - 2);
}

constexpr int64_t kWidth = 4;
constexpr WeightPanels kPanels{.columns = kWidth, .most_rows = 128};

// A weight that is read twice across, and then as it lies.
const char* const kSteps =
    "  %0 = input \"x\" : f32[2,6]\n"
    "  %1 = parameter \"w\" : f32[6,6]\n"
    "  %2 = parameter \"b\" : f32[6]\n"
    "  %3 = matmul(%0, %1, %2) {transpose_b=true} : f32[2,6] @\"s\" "
    "forward\n"
    "  %4 = matmul(%3, %1, %3) {transpose_b=true} : f32[2,6] @\"s\" "
    "forward\n"
    "  %5 = matmul(%4, %1, _) : f32[2,6] @\"s\" "
    "backward\n"
    "  output \"y\" %5\n";

TEST(Pack_weights, are_those_that_more_than_one_product_reads_in_one_way) {
  const PackedWeights once = packable_weights(parsed(kSteps), kPanels, false);
  EXPECT_EQ(once.width, kWidth);
  EXPECT_EQ(once.weights, (std::set<PackedWeights::Weight>{{"w", true}}));
  // What runs several times an update reads each of them more than once.
  const PackedWeights repeated = packable_weights(parsed(kSteps), kPanels, true);
  EXPECT_EQ(repeated.weights, (std::set<PackedWeights::Weight>{{"w", false}, {"w", true}}));
  EXPECT_TRUE(packable_weights(parsed(kSteps), {}, true).empty());
}

TEST(Pack_weights, products_read_panels_made_in_front_of_the_first) {
  const Graph packed =
      pack_weights(parsed(kSteps), op_registry(), packable_weights(parsed(kSteps), kPanels, true));
  EXPECT_EQ(body_of(packed),
            "  %0 = input \"x\" : f32[2,6]\n"
            "  %1 = parameter \"w\" : f32[6,6]\n"
            "  %2 = parameter \"b\" : f32[6]\n"
            "  %3 = pack_weight(%1) {transpose=true, width=4} : f32[2,6,4] @\"w\" prologue\n"
            "  %4 = packed_matmul(%0, %3, %2) {columns=6} : f32[2,6] @\"s\" forward\n"
            "  %5 = packed_matmul(%4, %3, %4) {columns=6} : f32[2,6] @\"s\" forward\n"
            "  %6 = pack_weight(%1) {width=4} : f32[2,6,4] @\"w\" prologue\n"
            "  %7 = packed_matmul(%5, %6, _) {columns=6} : f32[2,6] @\"s\" backward\n"
            "  output \"y\" %7\n");
  const WithPrologue split = split_prologue(packed);
  EXPECT_EQ(split.prologue.nodes.size(), 2U);
  EXPECT_NE(print(split.main).find("cached \"pack_weight(w) {transpose=true, width=4}\""),
            std::string::npos)
      << print(split.main);
}

TEST(Pack_weights, others_stay) {
  // Rows of the first operand across, a weight made of another, one of 16 bits, an activation.
  const std::string body =
      "  %0 = input \"x\" : f32[6,6]\n"
      "  %1 = parameter \"across\" : f32[6,6]\n"
      "  %2 = parameter \"made\" : f32[6,6]\n"
      "  %3 = parameter \"half\" : bf16[6,6]\n"
      "  %4 = input \"h\" : bf16[6,6]\n"
      "  %5 = matmul(%0, %1, _) {transpose_a=true, transpose_b=true} : f32[6,6] @\"\" "
      "forward\n"
      "  %6 = neg(%2) : f32[6,6] @\"\" forward\n"
      "  %7 = matmul(%5, %6, _) {transpose_b=true} : f32[6,6] @\"\" "
      "forward\n"
      "  %8 = matmul(%4, %3, _) {transpose_b=true} : bf16[6,6] @\"\" "
      "forward\n"
      "  %9 = matmul(%7, %0, _) {transpose_b=true} : f32[6,6] @\"\" "
      "forward\n"
      "  output \"y\" %9\n"
      "  output \"z\" %8\n";
  EXPECT_TRUE(packable_weights(parsed(body), kPanels, true).empty());
  EXPECT_EQ(body_of(pack_weights(parsed(body), op_registry(), {})), body);
}

// If one of a weight's products has many rows, packing is a small part of what it takes anyway.
TEST(Pack_weights, of_many_rows_stay) {
  const auto with_rows = [](int64_t rows) {
    const std::string n = std::to_string(rows);
    return parsed("  %0 = input \"x\" : f32[" + n + ",2,6]\n" +
                  "  %1 = parameter \"w\" : f32[6,6]\n"
                  "  %2 = matmul(%0, %1, _) {transpose_b=true} : f32[" +
                  n + ",2,6] @\"\" forward\n  output \"y\" %2\n");
  };
  EXPECT_FALSE(packable_weights(with_rows(64), kPanels, true).empty());
  EXPECT_TRUE(packable_weights(with_rows(65), kPanels, true).empty());
}

}  // namespace
}  // namespace snug::compile

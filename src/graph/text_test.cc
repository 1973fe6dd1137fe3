// SPDX-License-Identifier: Apache-2.0
// The text form: round trips of random graphs, one case for every parser error, hostile input.
#include "graph/text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "base/philox.h"
#include "graph/graph_testing.h"
#include "graph/storage.h"
#include "graph/verify.h"
#include "ops/registry.h"
#include "snug/error.h"

namespace snug {
namespace {

TEST(Graph_text, random_graphs_survive_print_and_parse) {
  size_t nodes = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    const Graph graph = random_graph(seed, 48);
    ASSERT_NO_THROW(verify(graph)) << "seed " << seed;
    const std::string text = print(graph);
    const Graph parsed = parse_graph(text, op_registry());
    EXPECT_EQ(print(parsed), text) << "seed " << seed;
    ASSERT_EQ(parsed.nodes.size(), graph.nodes.size());
    EXPECT_EQ(parsed.outputs, graph.outputs);
    for (const NodeId id : graph.nodes.ids()) {
      EXPECT_EQ(parsed.nodes[id].inputs, graph.nodes[id].inputs);
      EXPECT_EQ(parsed.nodes[id].attrs, graph.nodes[id].attrs);
      EXPECT_EQ(parsed.nodes[id].scope, graph.nodes[id].scope);
      EXPECT_EQ(parsed.nodes[id].phase, graph.nodes[id].phase);
    }
    for (const ValueId id : graph.values.ids()) {
      EXPECT_EQ(parsed.values[id].type, graph.values[id].type);
      EXPECT_EQ(parsed.values[id].kind, graph.values[id].kind);
      EXPECT_EQ(parsed.values[id].name, graph.values[id].name);
    }
    nodes += graph.nodes.size();
  }
  EXPECT_GT(nodes, 60u * 15) << "the generator hardly builds anything";
}

TEST(Graph_text, parts_names_and_marks_survive) {
  const std::string text =
      "graph \"g\" {\n"
      "  %0 = input \"x\" : f32[8,4]\n"
      "  %1 = exp(%0) : f32[8,4] @\"\" forward [0, 3]\n"
      "  %2 = exp(%1) : f32[8,4] @\"\" backward [7]\n"
      "  output \"y\" %2\n"
      "  name \"hidden\" %1\n"
      "  mark %1\n"
      "}\n";
  const Graph graph = parse_graph(text, op_registry());
  EXPECT_EQ(print(graph), text);
  EXPECT_EQ(graph.nodes[NodeId(0)].parts, (std::vector<int32_t>{0, 3}));
  EXPECT_TRUE(graph.value(graph.find("hidden")).is_marked);
  EXPECT_THROW((void)parse_graph("graph \"g\" {\n  %0 = input \"x\" : f32[8]\n"
                                 "  %1 = exp(%0) : f32[8] @\"\" forward [-1]\n}\n",
                                 op_registry()),
               Error);
}

TEST(Graph_text, reads_as_documented) {
  const std::string text =
      "graph \"mlp\" {\n"
      "  %0 = input \"x\" : f32[8,4]\n"
      "  %1 = parameter \"w\" : f32[3,4]\n"
      "  %2 = matmul(%0, %1, _) {transpose_b=true} : f32[8,3] @\"layer.0\" forward\n"
      "  %3 = state \"total\" : f32[8,3]\n"
      "  %4 = accumulate(%3, %2) : f32[8,3] @\"\" update\n"
      "  output \"y\" %2\n"
      "}\n";
  const Graph graph = parse_graph(text, op_registry());
  EXPECT_EQ(print(graph), text);
  EXPECT_EQ(graph.value(graph.find("w")).kind, ValueKind::parameter);
  EXPECT_EQ(graph.find("y"), ValueId(2));
  EXPECT_EQ(graph.nodes[NodeId(0)].inputs[2], kNone);
  EXPECT_FALSE(graph.nodes[NodeId(0)].attrs.boolean("transpose_a"));
  EXPECT_EQ(storage_of(graph, ValueId(4)), ValueId(3));
}

TEST(Graph_text, reals_come_back_to_the_bit) {
  for (double factor : {0.1, -0.0, 3e38, 1e-300, 5e-324, 1.0 / 3, 3.0, 1e20,
                        std::numeric_limits<double>::infinity()}) {
    GraphBuilder builder(op_registry(), "reals");
    (void)builder.op1("scale", {builder.input("x", {DType::f32, {}})}, {{"factor", factor}});
    const double read =
        parse_graph(print(builder.graph()), op_registry()).nodes[NodeId(0)].attrs.real("factor");
    EXPECT_EQ(std::signbit(read), std::signbit(factor));
    EXPECT_EQ(read, factor);
  }
}

TEST(Graph_text, quotes_and_newlines_in_names_survive) {
  GraphBuilder builder(op_registry(), "a \"quoted\" \\ name");
  const ValueId x = builder.input("line\nbreak", {DType::f32, {}});
  const ScopeGuard scope(builder, "sc\\\"ope");
  builder.mark_output(builder.op1("exp", {x}), "out\"");
  const Graph graph = parse_graph(print(builder.graph()), op_registry());
  EXPECT_EQ(graph.name, "a \"quoted\" \\ name");
  EXPECT_EQ(graph.values[ValueId(0)].name, "line\nbreak");
  EXPECT_EQ(graph.nodes[NodeId(0)].scope, "sc\\\"ope");
  EXPECT_EQ(graph.values[ValueId(1)].name, "out\"");
}

struct BadText {
  const char*
      statement;  // third line of a graph that has x: f32[2,3], ids: i32[2] and total: f32[2,3]
  const char* message;
  ErrorCode code = ErrorCode::invalid_graph;
};
constexpr BadText kBadTexts[] = {
    {"%7 = exp(%0) : f32[2,3] @\"\" forward", "[line 4] values are numbered in order: %3 expected"},
    {"%3 = exp(%3) : f32[2,3] @\"\" forward", "[line 4] %3 is not made yet"},
    {"%3 = exp(%9) : f32[2,3] @\"\" forward", "[line 4] %9 is not made yet"},
    {"%3 = exp(%-1) : f32[2,3] @\"\" forward", "[line 4] %-1 is not made yet"},
    {"%3 = exq(%0) : f32[2,3] @\"\" forward", "[line 4] there is no op named 'exq'"},
    {"%3 = exp(%0, %0) : f32[2,3] @\"\" forward", "[line 4] op exp takes 1 inputs, not 2"},
    {"%3 = exp(_) : f32[2,3] @\"\" forward", "[line 4] input 'x' of exp is absent"},
    {"%3 = exp(%0 : f32[2,3] @\"\" forward", "[line 4] ',' expected"},
    {"%3 = exp(%0) : f32[3,2] @\"\" forward", "[line 4] the type is f32[2,3], not f32[3,2]"},
    {"%3 = exp(%0) : f64[2,3] @\"\" forward", "[line 4] there is no element type 'f64'"},
    {"%3 = exp(%0) : f32[2,-3] @\"\" forward", "[line 4] a dimension is negative"},
    {"%3 = exp(%0) : f32[2,x] @\"\" forward", "[line 4] a whole number is expected"},
    {"%3 = exp(%0) : f32[1,1,1,1,1,1,1,2,3] @\"\" forward", "[line 4] more than 8 dimensions"},
    {"%3 = input \"big\" : f32[4294967296,4294967296]",
     "[line 4] the tensor has more than 2^63 bytes"},
    {"%3 = input \"big\" : f32[99999999999999999999]", "[line 4] a whole number is expected"},
    {"%3 = exp(%0) : f32[2,3] @\"\" sideways", "[line 4] there is no phase 'sideways'"},
    {"%3 = exp(%0) : f32[2,3] forward", "[line 4] '@' expected"},
    {"%3 = exp(%0) {speed=1} : f32[2,3] @\"\" forward", "[line 4] op exp has no attribute 'speed'"},
    {"%3 = scale(%0) : f32[2,3] @\"\" forward", "[line 4] op scale needs the attribute 'factor'"},
    {"%3 = scale(%0) {factor=2} : f32[2,3] @\"\" forward",
     "[line 4] attribute 'factor' of scale has the wrong kind: 2"},
    {"%3 = scale(%0) {factor=2.0.0} : f32[2,3] @\"\" forward",
     "[line 4] '2.0.0' is not an attribute value"},
    {"%3 = scale(%0) {factor=} : f32[2,3] @\"\" forward", "[line 4] a whole number is expected"},
    {"%3 = scale(%0) {factor=2.0, factor=3.0} : f32[2,3] @\"\" forward",
     "[line 4] attribute 'factor' is given twice"},
    {"%3, %4 = exp(%0) : f32[2,3], f32[2,3] @\"\" forward", "[line 4] exp has 1 outputs, not 2"},
    {"%3 = exp(%1) : f32[2] @\"\" forward", "[line 4] x must be f32, bf16 or f16, not i32[2]",
     ErrorCode::shape_mismatch},
    {"%3 = slice(%0) {axis=9, start=0, stop=1} : f32[2,3] @\"\" forward",
     "[line 4] axis 9 is out of range for rank 2", ErrorCode::shape_mismatch},
    {"output \"y\" _", "[line 4] an output needs a value"},
    {"output \"\" %0", "[line 4] an output needs a name"},
    {"output \"y\" %0", "[line 4] %0 has the name 'x' already"},
    {"outptu \"y\" %0", "[line 4] 'output' expected"},
    {"%3 = input \"\" : f32[]", "[%3] a resident value needs a name"},
    {"%3 = input \"x\" : f32[]", "[%3] the name 'x' is used twice"},
    {"%3 = accumulate(%2, %0) : f32[2,3] @\"\" update %4 = exp(%2) : f32[2,3] @\"\" update",
     "[node 1 exp] %2 is read after it was overwritten"},
    {"%3 = exp(%0) : f32[2,3] @\"\" update %4 = accumulate(%3, %0) : f32[2,3] @\"\" update",
     "[node 1 accumulate] only resident values may be overwritten"},
};

TEST(Graph_text, every_error_names_line_and_reason) {
  for (const BadText& bad : kBadTexts) {
    const std::string text =
        "graph \"g\" { %0 = input \"x\" : f32[2,3]\n%1 = input \"ids\" : i32[2]\n%2 = state "
        "\"total\" : "
        "f32[2,3]\n" +
        std::string(bad.statement) + "\n}\n";
    try {
      (void)parse_graph(text, op_registry());
      ADD_FAILURE() << "no error for: " << bad.statement;
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), bad.message) << bad.statement;
      EXPECT_EQ(to_string(error.code()), to_string(bad.code)) << bad.statement;
    }
  }
}

TEST(Graph_text, frame_errors_name_the_line) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "[line 1] a word is expected"},
      {"grph \"g\" {}", "[line 1] 'graph' expected"},
      {"graph g {}", "[line 1] '\"' expected"},
      {"graph \"g\" {", "[line 1] a word is expected"},
      {"graph \"g", "[line 1] '\"' expected"},
      {"graph \"g\" {\n}\n more", "[line 3] text after the closing brace"},
  };
  for (const auto& [text, message] : cases) {
    try {
      (void)parse_graph(text, op_registry());
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), message) << text;
    }
  }
}

// Whatever the text, the parser answers with a graph or an Error that is not our own bug.
void parse_hostile(const std::string& text) {
  try {
    verify(parse_graph(text, op_registry()));
  } catch (const Error& error) {
    EXPECT_NE(error.code(), ErrorCode::internal) << error.what() << "\n" << text;
  }
}

TEST(Graph_text, every_cut_of_a_text_is_refused_cleanly) {
  const std::string text = print(random_graph(4, 12));
  for (size_t length = 0; length < text.size(); ++length) parse_hostile(text.substr(0, length));
}

TEST(Graph_text, mutated_texts_are_refused_cleanly_or_read) {
  const std::string alphabet = "%0123456789-_.,()[]{}=\"\\:@ \nabefnrstu\xff";
  for (uint64_t seed = 0; seed < 1500; ++seed) {
    PhiloxStream random(seed, 77);
    std::string text = print(random_graph(seed % 10, 8));
    for (uint64_t change = 0; change <= random.below(4); ++change) {
      const auto at = static_cast<size_t>(random.below(text.size()));
      const char c = alphabet[static_cast<size_t>(random.below(alphabet.size()))];
      switch (random.below(3)) {
        case 0:
          text[at] = c;
          break;
        case 1:
          text.insert(at, 1, c);
          break;
        default:
          text.erase(at, 1 + static_cast<size_t>(random.below(5)));
          break;
      }
    }
    parse_hostile(text);
  }
}

}  // namespace
}  // namespace snug

// SPDX-License-Identifier: Apache-2.0
// What an op promises beside its mathematics: shape rule, cost, what its gradient keeps, its text
// form, its errors.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <regex>
#include <set>

#include "autodiff/autodiff.h"
#include "graph/text.h"
#include "graph/verify.h"
#include "op/all_cases.h"
#include "op/case_graph.h"
#include "ops/registry.h"

namespace snug {
namespace {

class Op : public testing::TestWithParam<OpCase> {};
class Bad_op : public testing::TestWithParam<OpCase> {};

// Appends the gradients of all outputs that the case differentiates, by all inputs that have one.
void differentiate(const OpCase& c, CaseGraph& graph) {
  const OpDef& op = *graph.builder.graph().node(graph.node).op;
  if (!std::holds_alternative<VjpFn>(*op.gradient)) return;
  std::vector<ValueId> wrt;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const ValueId id = graph.inputs[i];
    if (id != kNone && c.inputs[i].has_gradient && is_differentiated(graph.builder.type(id).dtype))
      wrt.push_back(id);
  }
  for (int index : c.differentiated_outputs) {
    const ValueId output = graph.outputs[static_cast<size_t>(index)];
    const ValueId seed =
        graph.builder.input("dy" + std::to_string(index), graph.builder.type(output));
    (void)autodiff::append_gradients(graph.builder, output, seed, wrt);
  }
}

Keeps reads_of_backward(const CaseGraph& graph) {
  Keeps reads;
  const Graph& g = graph.builder.graph();
  for (const NodeId n : g.nodes.ids()) {
    if (n <= graph.node) continue;
    for (ValueId id : g.nodes[n].inputs) {
      for (size_t i = 0; i < graph.inputs.size(); ++i) {
        if (id != kNone && id == graph.inputs[i]) reads.inputs |= 1u << i;
      }
      for (size_t i = 0; i < graph.outputs.size(); ++i) {
        if (id == graph.outputs[i]) reads.outputs |= 1u << i;
      }
    }
  }
  return reads;
}

TEST_P(Op, graph_with_its_gradient_is_valid_and_survives_print_and_parse) {
  const OpCase& c = GetParam();
  CaseGraph graph = build_case(c, c.magnitudes.front());
  differentiate(c, graph);
  EXPECT_NO_THROW(verify(graph.builder.graph()));
  const std::string text = print(graph.builder.graph());
  EXPECT_EQ(print(parse_graph(text, op_registry())), text);
}

TEST_P(Op, gradient_reads_only_what_it_keeps) {
  const OpCase& c = GetParam();
  CaseGraph graph = build_case(c, c.magnitudes.front());
  differentiate(c, graph);
  const Keeps kept = *graph.builder.graph().node(graph.node).op->keeps;
  const Keeps reads = reads_of_backward(graph);
  EXPECT_EQ(reads.inputs & ~kept.inputs, 0u) << "inputs";
  EXPECT_EQ(reads.outputs & ~kept.outputs, 0u) << "outputs";
}

TEST_P(Op, cost_counts_work_and_bytes) {
  const OpCase& c = GetParam();
  const CaseGraph graph = build_case(c, c.magnitudes.front());
  const NodeSpec spec = spec_of(graph.builder.graph(), graph.node);
  const Cost cost = (*spec.op->cost)({spec.inputs, spec.outputs, spec.attrs});
  double bytes = 0;
  int64_t elements = 0;
  for (const TensorType& type : spec.outputs) {
    bytes += static_cast<double>(byte_count(type));
    elements += element_count(type);
  }
  for (double part : {cost.flops, cost.bytes_read, cost.bytes_written})
    EXPECT_TRUE(std::isfinite(part) && part >= 0);
  if (spec.op->alias->kind == AliasKind::view) {
    EXPECT_EQ(cost.flops + cost.bytes_read + cost.bytes_written, 0);
  } else if (elements > 0) {
    EXPECT_GE(cost.bytes_written, bytes);
  }
}

TEST_P(Bad_op, case_fails_with_code_and_text) {
  const OpCase& c = GetParam();
  try {
    const CaseGraph graph = build_case(c, 1);
    (void)evaluate(graph.builder.graph(), graph.feeds);
    ADD_FAILURE() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(to_string(error.code()), to_string(c.error)) << error.what();
    EXPECT_FALSE(c.error_text.empty());
    EXPECT_NE(std::string(error.what()).find(c.error_text), std::string::npos) << error.what();
    EXPECT_NE(error.where().find(c.op), std::string::npos)
        << "the place is '" << error.where() << "'";
  }
}

const auto kName = [](const auto& param) { return test_name(param.param); };
INSTANTIATE_TEST_SUITE_P(Ops, Op, testing::ValuesIn(good_op_cases()), kName);
INSTANTIATE_TEST_SUITE_P(Ops, Bad_op, testing::ValuesIn(bad_op_cases()), kName);

TEST(Registry, every_op_has_a_good_and_a_bad_case_and_names_are_unique) {
  std::set<std::string> names;
  std::set<std::string> good;
  std::set<std::string> bad;
  for (const OpCase& c : all_op_cases()) {
    EXPECT_NE(op_registry().find(c.op), nullptr) << "a case for '" << c.op << "', which is no op";
    EXPECT_TRUE(names.insert(test_name(c)).second) << "two cases are named " << test_name(c);
    (c.error == ErrorCode::ok ? good : bad).insert(c.op);
  }
  for (const OpDef* op : op_registry().all()) EXPECT_EQ(good.count(*op->name), 1u) << *op->name;
  // Element-wise ops share three shape rules; each rule has its bad cases, not each op.
  EXPECT_GE(bad.size(), op_registry().all().size() / 3);
}

// A gradient that keeps more than it reads costs memory in every plan.
TEST(Registry, gradients_keep_nothing_that_no_case_reads) {
  std::map<std::string, Keeps> reads;
  for (const OpCase& c : good_op_cases()) {
    CaseGraph graph = build_case(c, c.magnitudes.front());
    differentiate(c, graph);
    const Keeps found = reads_of_backward(graph);
    reads[c.op].inputs |= found.inputs;
    reads[c.op].outputs |= found.outputs;
  }
  for (const OpDef* op : op_registry().all()) {
    EXPECT_EQ(op->keeps->inputs, reads[*op->name].inputs) << *op->name;
    EXPECT_EQ(op->keeps->outputs, reads[*op->name].outputs) << *op->name;
  }
}

// What prices, plans, rewrites and lowers nodes asks OpDef; an op is added in its folder only.
TEST(Registry, ops_are_named_in_no_room_that_prices_plans_or_rewrites) {
  namespace fs = std::filesystem;
  int files = 0;
  for (const char* room : {"backend/cpu", "compile", "plan", "runtime"}) {
    const fs::path folder = fs::path(SNUG_SOURCE_DIR) / "src" / room;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder)) {
      const std::string name = entry.path().filename().string();
      if (entry.path().extension() != ".cc" && entry.path().extension() != ".h") continue;
      if (name.find("test") != std::string::npos) continue;
      std::ifstream file(entry.path());
      const std::string all{std::istreambuf_iterator<char>(file), {}};
      // What builds a node says which.
      const std::string text = std::regex_replace(all, std::regex(R"(\bop1?\("\w+")"), "");
      ++files;
      for (const OpDef* op : op_registry().all()) {
        if (*op->name == "sqrt") continue;  // is a strategy, too
        EXPECT_EQ(text.find("\"" + *op->name + "\""), std::string::npos)
            << entry.path() << " names " << *op->name;
      }
    }
  }
  EXPECT_GT(files, 50);
}

// The op that adds up in place has the type of what it replaces, and is found.
TEST(Registry, accumulating_forms_are_ops_whose_sum_is_the_output) {
  int forms = 0;
  for (const OpCase& c : good_op_cases()) {
    const CaseGraph graph = build_case(c, c.magnitudes.front());
    const OpDef& op = *graph.builder.graph().node(graph.node).op;
    if (op.accumulating_form == nullptr) continue;
    const Node& node = graph.builder.graph().node(graph.node);
    const InputTypes types = input_types(graph.builder.graph(), node);
    InputTypes given = {graph.builder.type(graph.outputs[0])};
    for (const TensorType& type : types.given()) given.add(type);
    const auto form = op.accumulating_form(types, node.attrs);
    if (!form) continue;
    ++forms;
    const OpDef* sum = op_registry().find(form->op);
    ASSERT_NE(sum, nullptr) << test_name(c);
    EXPECT_EQ(sum->alias->kind, AliasKind::must_overwrite);
    const auto outputs =
        infer_types(*sum, given, complete_attrs(*sum, form->attrs, *sum->name), *sum->name);
    EXPECT_EQ(outputs, std::vector<TensorType>{given[0]}) << test_name(c);
  }
  EXPECT_GT(forms, 3);
}

TEST(Registry, aliases_name_existing_operands_of_one_size) {
  for (const OpDef* op : op_registry().all()) {
    for (const auto& [output, input] : op->alias->pairs) {
      EXPECT_LT(static_cast<size_t>(output), op->outputs->size()) << *op->name;
      EXPECT_LT(static_cast<size_t>(input), op->inputs->size()) << *op->name;
    }
  }
  for (const OpCase& c : good_op_cases()) {
    const CaseGraph graph = build_case(c, c.magnitudes.front());
    const OpDef& op = *graph.builder.graph().node(graph.node).op;
    if (op.alias->kind != AliasKind::must_overwrite) continue;
    for (const auto& [output, input] : op.alias->pairs) {
      EXPECT_EQ(graph.builder.type(graph.outputs[static_cast<size_t>(output)]),
                graph.builder.type(graph.inputs[static_cast<size_t>(input)]))
          << test_name(c);
    }
  }
}

}  // namespace
}  // namespace snug

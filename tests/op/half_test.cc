// SPDX-License-Identifier: Apache-2.0
// Every op that may store 16 bits, and its gradient, with operands in 16 bits: each node's kernel
// against the reference, which rounds what it stores, within one place of what is stored.
#include <gtest/gtest.h>

#include <cmath>

#include "autodiff/autodiff.h"
#include "base/philox.h"
#include "op/all_cases.h"
#include "op/cpu_kernels.h"
#include "ops/registry.h"

namespace snug {
namespace {

class In_16_bits : public testing::TestWithParam<OpCase> {};

struct HalfGraph {
  GraphBuilder builder;
  RefValues feeds;
};

void feed_rounded(HalfGraph& graph, ValueId id, std::vector<double> data) {
  for (double& x : data) x = as_stored(DType::f32, static_cast<double>(static_cast<float>(x)));
  graph.feeds[id] = std::move(data);
}

// The case with casts in front of what is narrow, and its gradients. Every second cast is that of a
// weight.
HalfGraph build_half(const OpCase& c, DType half) {
  const CaseGraph plain = build_case(c, 1);
  const Graph& g = plain.builder.graph();
  const Node& node = g.node(plain.node);
  const InputTypes types = input_types(g, node);
  const Precision& precision = node.op->precision;
  HalfGraph made{.builder = GraphBuilder(op_registry(), c.op + "." + c.name), .feeds = {}};
  GraphBuilder& b = made.builder;
  std::vector<ValueId> inputs;
  std::vector<ValueId> wrt;
  for (size_t i = 0; i < plain.inputs.size(); ++i) {
    if (plain.inputs[i] == kNone) {
      inputs.push_back(kNone);
      continue;
    }
    const TensorType& type = types[i];
    const bool is_floating_input = is_floating(type.dtype);
    const ValueId id = b.parameter("x" + std::to_string(i), type);
    feed_rounded(made, id, plain.feeds.at(plain.inputs[i]));
    inputs.push_back(id);
    if (is_floating_input && c.inputs[i].has_gradient) wrt.push_back(id);
    const bool is_narrow = precision.narrow == nullptr || (precision.narrow(types) >> i & 1U) != 0;
    if (!is_floating_input || !is_narrow) continue;
    const PhaseGuard phase(b, i % 2 == 1 ? Phase::prologue : Phase::forward);
    inputs.back() = b.op1("cast", {id}, {{"to", std::string(to_string(half))}});
  }
  Attrs attrs = node.attrs;
  if (precision.has_to) attrs.set("to", std::string(to_string(half)));
  const std::vector<ValueId> outputs = b.op(c.op, inputs, attrs);
  const bool has_gradient = std::holds_alternative<VjpFn>(*node.op->gradient);
  if (!has_gradient || wrt.empty() || c.differentiated_outputs.empty()) return made;
  const ValueId output = outputs[static_cast<size_t>(c.differentiated_outputs[0])];
  const ValueId seed = b.input("seed", b.type(output));
  PhiloxStream random(3);
  std::vector<double> cotangent(static_cast<size_t>(element_count(b.type(output))));
  for (double& x : cotangent) x = as_stored(b.type(output).dtype, random.normal());
  made.feeds[seed] = std::move(cotangent);
  const auto gradients = autodiff::append_gradients(b, output, seed, wrt);
  for (const auto& [id, gradient] : gradients)
    EXPECT_EQ(b.type(gradient), b.type(id)) << "a gradient of another type";
  return made;
}

// Node `id` alone, fed with what the reference has for its inputs.
CaseGraph alone(const Graph& graph, const Node& node, const RefValues& values) {
  CaseGraph one{.builder = GraphBuilder(op_registry(), *node.op->name),
                .node = NodeId(0),
                .inputs = {},
                .outputs = {},
                .feeds = {}};
  for (const ValueId id : node.inputs) {
    if (id == kNone) {
      one.inputs.push_back(kNone);
      continue;
    }
    one.inputs.push_back(
        one.builder.input("x" + std::to_string(one.inputs.size()), graph.type(id)));
    one.feeds[one.inputs.back()] = values.at(id);
  }
  one.outputs = one.builder.op(*node.op->name, one.inputs, node.attrs);
  return one;
}

double place_of(DType dtype) {
  return dtype == DType::bf16 ? 0x1p-7 : dtype == DType::f16 ? 0x1p-10 : 0;
}

// What lies between the products of these kernels is rounded to bf16 before it is multiplied; the
// others compute in f32.
double epsilon_of(const std::string& kernel) {
  const bool rounds = kernel.ends_with("_bf16_products") || kernel.ends_with("_bf16_tiles");
  return rounds ? 0x1p-9 : kEpsilonF32;
}

void check_node(const Graph& graph, const Node& node, const RefValues& values,
                const Backend& backend) {
  const CaseGraph one = alone(graph, node, values);
  const NodeSpec spec = spec_of(one.builder.graph(), one.node);
  const KernelChoice choice = backend.select(spec);
  SCOPED_TRACE(choice.kernel + ": " + signature_of(spec));
  const CpuRun run = run_kernel(*backend.create(spec), choice.scratch_bytes, one, 2);
  ASSERT_EQ(run.code, ErrorCode::ok);
  EXPECT_EQ(run.violation, "");
  const std::vector<std::vector<double>> bounds = error_bounds(one, epsilon_of(choice.kernel));
  const RefValues want = evaluate(one.builder.graph(), one.feeds);
  for (size_t i = 0; i < one.outputs.size(); ++i) {
    const TensorType& type = one.builder.type(one.outputs[i]);
    const std::vector<double> found = decode(type, run.outputs[i]);
    const std::vector<double>& wanted = want.at(one.outputs[i]);
    ASSERT_EQ(found.size(), wanted.size());
    for (size_t j = 0; j < wanted.size(); ++j) {
      // Rounded from the other side: one place; and subnormal numbers of f16.
      const double bound = bounds[i][j] + place_of(type.dtype) * std::abs(wanted[j]) +
                           (type.dtype == DType::f16 ? 0x1p-24 : 0);
      const bool is_equal =
          found[j] == wanted[j] || (std::isnan(found[j]) && std::isnan(wanted[j]));
      ASSERT_TRUE(is_equal || std::abs(found[j] - wanted[j]) <= bound)
          << "output " << i << ", element " << j << ": " << found[j] << " instead of " << wanted[j]
          << ", allowed " << bound;
    }
  }
}

bool has_half_operand(const Graph& graph, const Node& node) {
  const auto is_half = [&](ValueId id) {
    return id != kNone && place_of(graph.type(id).dtype) > 0;
  };
  return std::any_of(node.inputs.begin(), node.inputs.end(), is_half) ||
         std::any_of(node.outputs.begin(), node.outputs.end(), is_half);
}

TEST_P(In_16_bits, every_kernel_agrees_with_the_reference) {
  const OpCase& c = GetParam();
  for (const DType half : {DType::bf16, DType::f16}) {
    const HalfGraph made = build_half(c, half);
    const Graph& graph = made.builder.graph();
    const RefValues values = evaluate(graph, made.feeds);
    for (const int threads : {1, 3}) {
      const auto backend = make_cpu_backend({.threads = threads, .profile = default_profile()});
      for (const Node& node : graph.nodes) {
        if (node.op->alias->kind == AliasKind::view || !has_half_operand(graph, node)) continue;
        check_node(graph, node, values, *backend);
        if (HasFatalFailure()) return;
      }
    }
  }
}

std::vector<OpCase> cases_in_16_bits() {
  std::vector<OpCase> cases = good_op_cases();
  std::erase_if(cases, [](const OpCase& c) {
    const Paint paint = op_registry().find(c.op)->precision.paint;
    return paint == Paint::none || paint == Paint::deny;
  });
  return cases;
}

INSTANTIATE_TEST_SUITE_P(Ops, In_16_bits, testing::ValuesIn(cases_in_16_bits()),
                         [](const auto& param) { return test_name(param.param); });

}  // namespace
}  // namespace snug

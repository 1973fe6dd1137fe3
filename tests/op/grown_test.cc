// SPDX-License-Identifier: Apache-2.0
// Every case again with axes as long as those of models: kernels cut what is larger than a cache, a
// tile or a slice, and the cases are too small to be cut. What goes wrong there is wrong by far:
// the distance is that of f32 sums in any order.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <optional>
#include <set>

#include "op/all_cases.h"
#include "op/cpu_kernels.h"
#include "ops/registry.h"
#include "snug/error.h"

namespace snug {
namespace {

constexpr double kMostElements = 1 << 18, kMostFlops = 5e6;
constexpr double kDistance = 5e-3;  // of the largest of an output
using Lengths = std::set<int64_t>;

bool may_grow(const CaseInput& input) {
  return input.domain != Domain::absent && input.domain != Domain::values &&
         input.domain != Domain::derived;
}

Lengths lengths_of(const OpCase& c) {
  Lengths found, fixed{0, 1};
  for (const CaseInput& input : c.inputs) {
    const Shape& shape = input.type.shape;
    if (may_grow(input)) found.insert(shape.begin(), shape.end());
    if (input.domain == Domain::values) fixed.insert(shape.begin(), shape.end());
  }
  std::erase_if(found, [&](int64_t length) { return fixed.contains(length); });
  return found;
}

// Axes of one length grow together, in all inputs.
OpCase grown(OpCase c, const Lengths& lengths, int64_t factor) {
  for (CaseInput& input : c.inputs) {
    if (!may_grow(input)) continue;
    for (int64_t& length : input.type.shape) length *= lengths.contains(length) ? factor : 1;
  }
  return c;
}

double elements_of(const OpCase& c) {
  double sum = 0;
  for (const CaseInput& input : c.inputs) {
    double count = 1;
    for (const int64_t length : input.type.shape) count *= static_cast<double>(length);
    sum += count;
  }
  return sum;
}

// None where the shapes do not go together any more.
std::optional<CaseGraph> graph_of(const OpCase& c) {
  try {
    CaseGraph graph = build_case(c, 1);
    const NodeSpec spec = spec_of(graph.builder.graph(), graph.node);
    const Cost cost = (*spec.op->cost)({spec.inputs, spec.outputs, spec.attrs});
    if (cost.flops > kMostFlops) return std::nullopt;
    return graph;
  } catch (const Error&) {
    return std::nullopt;
  }
}

// The largest of a few sizes that is within the limits.
std::optional<CaseGraph> largest(const OpCase& c, const Lengths& lengths) {
  for (const int64_t factor : {2048, 520, 129, 65, 17, 8, 3}) {
    const OpCase larger = grown(c, lengths, factor);
    if (elements_of(larger) > kMostElements) continue;
    std::optional<CaseGraph> graph = graph_of(larger);
    if (graph) return graph;
  }
  return std::nullopt;
}

double distance(const std::vector<double>& found, const std::vector<double>& wanted) {
  double largest = 0, most = 0;
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (std::isfinite(wanted[i])) largest = std::max(largest, std::abs(wanted[i]));
    const bool is_equal = found[i] == wanted[i] || (std::isnan(found[i]) && std::isnan(wanted[i]));
    const double difference = is_equal ? 0 : std::abs(found[i] - wanted[i]);
    most = std::isnan(difference) ? HUGE_VAL : std::max(most, difference);
  }
  return most == 0 ? 0 : most / largest;
}

double allowed(DType dtype) {
  if (dtype == DType::bf16) return 0x1p-7;
  return dtype == DType::f16 || dtype == DType::bf16x8 || dtype == DType::f32 ? kDistance : 0;
}

class Grown : public testing::TestWithParam<OpCase> {};

TEST_P(Grown, agrees_with_the_reference) {
  const OpCase& c = GetParam();
  const Lengths lengths = lengths_of(c);
  std::vector<Lengths> growths{lengths};
  if (lengths.size() > 1)
    std::transform(lengths.begin(), lengths.end(), std::back_inserter(growths),
                   [](int64_t length) { return Lengths{length}; });
  for (const Lengths& growth : growths) {
    const std::optional<CaseGraph> graph = largest(c, growth);
    if (!graph) continue;
    const NodeSpec spec = spec_of(graph->builder.graph(), graph->node);
    if (spec.op->alias->kind == AliasKind::view) return;
    SCOPED_TRACE(signature_of(spec));
    const RefValues expected = evaluate(graph->builder.graph(), graph->feeds);
    for (const CpuKernelDef* kernel : cpu_kernels_of(c.op)) {
      if (!reason_against(*kernel, spec, cpu_test_context(2)).empty()) continue;
      const CpuRun run = run_cpu_kernel(*kernel, *graph, 2, 1);
      EXPECT_EQ(run.code, ErrorCode::ok) << kernel->kernel;
      EXPECT_EQ(run.violation, "") << kernel->kernel;
      for (size_t i = 0; i < graph->outputs.size(); ++i) {
        const TensorType& type = graph->builder.type(graph->outputs[i]);
        EXPECT_LE(distance(decode(type, run.outputs[i]), expected.at(graph->outputs[i])),
                  allowed(type.dtype))
            << kernel->kernel << ", output " << i;
      }
    }
  }
}

const auto kName = [](const auto& param) { return test_name(param.param); };
INSTANTIATE_TEST_SUITE_P(Ops, Grown, testing::ValuesIn(good_op_cases()), kName);

}  // namespace
}  // namespace snug

// SPDX-License-Identifier: Apache-2.0
#include "op/case_graph.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "base/philox.h"
#include "ops/registry.h"

namespace snug {
namespace {

// A seed of its own for every case and input, the same on every machine.
uint64_t seed_of(const OpCase& op_case, size_t input) {
  uint64_t hash = 1469598103934665603ull + input;
  for (char c : op_case.op + "/" + op_case.name)
    hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return hash;
}

double to_f32(double x) { return static_cast<double>(static_cast<float>(x)); }

std::vector<double> draw_distinct(size_t count, PhiloxStream& random) {
  std::vector<double> data(count);
  for (size_t i = 0; i < count; ++i)
    data[i] = 0.25 * (static_cast<double>(i) - static_cast<double>(count) / 2);
  for (size_t i = count; i-- > 1;)
    std::swap(data[i], data[static_cast<size_t>(random.below(i + 1))]);
  return data;
}

std::vector<double> draw(const CaseInput& input, uint64_t seed, double magnitude, Fill fill) {
  PhiloxStream random(seed);
  const auto count = static_cast<size_t>(element_count(input.type));
  if (input.domain == Domain::values) {
    SNUG_CHECK(input.values.size() == count, "a case gives " + std::to_string(input.values.size()) +
                                                 " values for " + to_string(input.type));
    std::vector<double> data = input.values;
    if (input.type.dtype == DType::f32)
      std::transform(data.begin(), data.end(), data.begin(), to_f32);
    return data;
  }
  std::vector<double> data(count);
  if (input.domain == Domain::integers) {
    for (double& x : data) {
      x = input.type.dtype == DType::boolean
              ? (random.uniform() < input.high ? 1 : 0)
              : input.low + static_cast<double>(
                                random.below(static_cast<uint64_t>(input.high - input.low) + 1));
    }
    return data;
  }
  if (fill == Fill::small_integers) {
    for (double& x : data) x = static_cast<double>(random.below(17)) - 8;
    return data;
  }
  if (input.domain == Domain::distinct) data = draw_distinct(count, random);
  for (double& x : data) {
    if (input.domain == Domain::normal || input.domain == Domain::away_from_zero)
      x = random.normal();
    if (input.domain == Domain::away_from_zero) x += std::copysign(input.low, x);
    if (input.domain == Domain::positive)
      x = input.low + (input.high - input.low) * random.uniform();
    x = to_f32(x * magnitude);
  }
  return data;
}

// A derived input: the op is run on the inputs before it, in a graph of its own.
std::pair<TensorType, std::vector<double>> derive(const CaseInput& input, const CaseGraph& graph) {
  GraphBuilder builder(op_registry(), "derived");
  RefValues feeds;
  std::vector<ValueId> inputs;
  for (int index : input.op_inputs) {
    const ValueId from = index < 0 ? kNone : graph.inputs[static_cast<size_t>(index)];
    inputs.push_back(from == kNone ? kNone
                                   : builder.parameter("input" + std::to_string(inputs.size()),
                                                       graph.builder.type(from)));
    if (from != kNone) feeds[inputs.back()] = graph.feeds.at(from);
  }
  const ValueId output =
      builder.op(input.op, inputs, input.op_attrs)[static_cast<size_t>(input.op_output)];
  std::vector<double> data = evaluate(builder.graph(), feeds).at(output);
  if (builder.type(output).dtype == DType::f32)
    std::transform(data.begin(), data.end(), data.begin(), to_f32);
  return {builder.type(output), std::move(data)};
}

}  // namespace

CaseGraph build_case(const OpCase& op_case, double magnitude, Fill fill) {
  CaseGraph graph{.builder = GraphBuilder(op_registry(), op_case.op + "." + op_case.name),
                  .node = NodeId(0),
                  .inputs = {},
                  .outputs = {},
                  .feeds = {}};
  for (size_t i = 0; i < op_case.inputs.size(); ++i) {
    const CaseInput& input = op_case.inputs[i];
    if (input.domain == Domain::absent) {
      graph.inputs.push_back(kNone);
      continue;
    }
    TensorType type = input.type;
    std::vector<double> data;
    if (input.domain == Domain::derived) {
      std::tie(type, data) = derive(input, graph);
    } else {
      data = draw(input, seed_of(op_case, i), magnitude, fill);
    }
    for (double& x : data) x = as_stored(type.dtype, x);
    const std::string name = "input" + std::to_string(i);
    graph.inputs.push_back(is_differentiated(type.dtype) ? graph.builder.parameter(name, type)
                                                         : graph.builder.input(name, type));
    graph.feeds[graph.inputs.back()] = std::move(data);
  }
  graph.outputs = graph.builder.op(op_case.op, graph.inputs, op_case.attrs);
  return graph;
}

}  // namespace snug

// SPDX-License-Identifier: Apache-2.0
// Every differentiable op, every case, every magnitude: autodiff against finite differences on the
// reference backend.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "autodiff/autodiff.h"
#include "op/all_cases.h"
#include "op/case_graph.h"
#include "op/gradient_check.h"
#include "ops/registry.h"

namespace snug {
namespace {

bool is_differentiable(const OpCase& c) {
  const OpDef* op = op_registry().find(c.op);
  return op != nullptr && std::holds_alternative<VjpFn>(*op->gradient);
}

std::vector<OpCase> gradient_cases() {
  std::vector<OpCase> cases = good_op_cases();
  std::erase_if(cases, [](const OpCase& c) {
    return !is_differentiable(c) || c.differentiated_outputs.empty();
  });
  return cases;
}

std::vector<ValueId> differentiable_inputs(const OpCase& c, const CaseGraph& graph) {
  std::vector<ValueId> wrt;
  for (size_t i = 0; i < graph.inputs.size(); ++i) {
    const ValueId id = graph.inputs[i];
    if (id != kNone && c.inputs[i].has_gradient && is_differentiated(graph.builder.type(id).dtype))
      wrt.push_back(id);
  }
  return wrt;
}

class Gradient_of : public testing::TestWithParam<OpCase> {};

void check_output(const OpCase& c, const CaseGraph& forward, ValueId output) {
  GraphBuilder builder = forward.builder;
  const std::vector<double> cotangent = random_normal(element_count(builder.type(output)), 31);
  const std::vector<ValueId> wrt = differentiable_inputs(c, forward);
  ASSERT_FALSE(wrt.empty());
  const ValueId seed = builder.input("cotangent", builder.type(output));
  const std::map<ValueId, ValueId> gradients =
      autodiff::append_gradients(builder, output, seed, wrt);
  RefValues feeds = forward.feeds;
  feeds[seed] = cotangent;
  const RefValues values = evaluate(builder.graph(), feeds);
  const auto is_zero = [&](ValueId id) {
    const auto index = static_cast<size_t>(
        std::find(forward.inputs.begin(), forward.inputs.end(), id) - forward.inputs.begin());
    return c.zero_gradient || cotangent.empty() || c.inputs[index].zero_gradient;
  };
  for (ValueId id : wrt) {
    ASSERT_TRUE(gradients.count(id) != 0) << "no gradient for " << builder.graph().value(id).name;
    const std::vector<double>& gradient = values.at(gradients.at(id));
    ASSERT_EQ(gradient.size(), forward.feeds.at(id).size());
    if (gradient.empty()) continue;
    const FiniteDifference difference(forward.builder.graph(), forward.feeds, output, cotangent,
                                      id);
    if (is_zero(id)) {
      EXPECT_TRUE(std::all_of(gradient.begin(), gradient.end(),
                              [](double g) { return std::abs(g) <= 1e-12; }));
      EXPECT_LE(difference.norm(), 1e-9);
    } else {
      EXPECT_EQ(check_gradient(difference, gradient), "") << builder.graph().value(id).name;
    }
  }
}

TEST_P(Gradient_of, case_equals_finite_differences) {
  const OpCase& c = GetParam();
  for (double magnitude : c.magnitudes) {
    SCOPED_TRACE("magnitude " + std::to_string(magnitude));
    const CaseGraph forward = build_case(c, magnitude);
    for (int output : c.differentiated_outputs)
      check_output(c, forward, forward.outputs[static_cast<size_t>(output)]);
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, Gradient_of, testing::ValuesIn(gradient_cases()),
                         [](const auto& param) { return test_name(param.param); });

TEST(Gradient_harness, every_differentiable_op_has_a_case) {
  const std::vector<OpCase> cases = gradient_cases();
  for (const OpDef* op : op_registry().all()) {
    if (!std::holds_alternative<VjpFn>(*op->gradient)) continue;
    EXPECT_TRUE(std::any_of(cases.begin(), cases.end(), [&](const OpCase& c) {
      return c.op == *op->name;
    })) << *op->name;
  }
}

// The checker itself: y = x^2 at three points.
TEST(Gradient_harness, wrong_gradients_are_caught) {
  GraphBuilder builder(op_registry(), "square");
  const ValueId x = builder.parameter("x", {DType::f32, {3}});
  const ValueId y = builder.op1("mul", {x, x});
  const RefValues feeds = {{x, {0.5, -1.0, 2.0}}};
  const std::vector<double> cotangent = {1.0, 2.0, -0.5};
  const FiniteDifference difference(builder.graph(), feeds, y, cotangent, x);
  const std::vector<double> right = {1.0, -4.0, -2.0};
  EXPECT_EQ(check_gradient(difference, right), "");
  EXPECT_NE(check_gradient(difference, {1.0, -4.0, -2.0001}), "");
  EXPECT_NE(check_gradient(difference, {-4.0, 1.0, -2.0}), "");
  EXPECT_NE(check_gradient(difference, {1.0, -4.0, std::nan("")}), "");
  EXPECT_EQ(check_gradient(difference, {0, 0, 0}), "the gradient is zero");
}

}  // namespace
}  // namespace snug

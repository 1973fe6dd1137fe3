// SPDX-License-Identifier: Apache-2.0
// Steps of optimizers with a row-sparse gradient: the bits of the same step with the whole one.
#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "op/all_cases.h"
#include "op/cpu_kernels.h"
#include "ops/registry.h"

namespace snug {
namespace {

bool is_sparse(const OpCase& c) {
  const std::optional<SparseOperand>& sparse = op_registry().find(c.op)->sparse_operand;
  return sparse && sparse->row_of && c.inputs[*sparse->row_of].domain != Domain::absent;
}

// A norm of the gradient adds its squares up in another order.
bool has_norm_of_gradient(const OpCase& c) { return c.attrs.has("trust"); }

std::vector<OpCase> sparse_cases() {
  std::vector<OpCase> cases;
  for (const OpCase& c : good_op_cases()) {
    if (is_sparse(c) && !has_norm_of_gradient(c)) cases.push_back(c);
  }
  return cases;
}

// The same numbers with a whole gradient.
OpCase with_whole_gradient(const OpCase& c) {
  const CaseGraph drawn = build_case(c, 1);
  OpCase whole = c;
  for (size_t i = 0; i < whole.inputs.size(); ++i) {
    if (whole.inputs[i].domain == Domain::absent) continue;
    whole.inputs[i].domain = Domain::values;
    whole.inputs[i].values = drawn.feeds.at(drawn.inputs[i]);
  }
  const auto width = static_cast<std::ptrdiff_t>(c.inputs[0].type.shape[1]);
  const std::vector<double>& rows = drawn.feeds.at(drawn.inputs[1]);
  std::vector<double> gradient;
  for (const double row : whole.inputs.back().values) {
    if (row == 0) {
      gradient.insert(gradient.end(), static_cast<size_t>(width), 0.0);
    } else {
      const auto first = rows.begin() + (static_cast<std::ptrdiff_t>(row) - 1) * width;
      gradient.insert(gradient.end(), first, first + width);
    }
  }
  whole.inputs[1] = f32_values(c.inputs[0].type.shape, std::move(gradient));
  whole.inputs.back() = absent();
  return whole;
}

class Sparse_step : public testing::TestWithParam<OpCase> {};

TEST_P(Sparse_step, has_the_bits_of_the_whole_gradient) {
  const CaseGraph sparse = build_case(GetParam(), 1);
  const CaseGraph whole = build_case(with_whole_gradient(GetParam()), 1);
  const std::vector<const CpuKernelDef*> kernels = cpu_kernels_of(GetParam().op);
  ASSERT_EQ(kernels.size(), 1U);
  const CpuRun of_sparse = run_cpu_kernel(*kernels[0], sparse, 2, 1);
  const CpuRun of_whole = run_cpu_kernel(*kernels[0], whole, 2, 1);
  ASSERT_EQ(of_sparse.code, ErrorCode::ok);
  ASSERT_EQ(of_whole.code, ErrorCode::ok);
  EXPECT_TRUE(of_sparse.outputs == of_whole.outputs);
}

INSTANTIATE_TEST_SUITE_P(Ops, Sparse_step, testing::ValuesIn(sparse_cases()),
                         [](const auto& param) { return test_name(param.param); });

TEST(Sparse_step, is_there_for_all_optimizers_but_one) {
  std::set<std::string> ops;
  for (const OpCase& c : sparse_cases()) ops.insert(c.op);
  for (const char* op : {"adagrad", "adam", "adamw", "lamb", "lion", "rmsprop", "rmsprop_momentum",
                         "sgd", "sgd_momentum", "adamw_8bit"})
    EXPECT_TRUE(ops.contains(op)) << op;
  // Adafactor sums over the rows of a gradient, and over its columns.
  EXPECT_FALSE(op_registry().find("adafactor")->sparse_operand);
}

}  // namespace
}  // namespace snug

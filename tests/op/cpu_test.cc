// SPDX-License-Identifier: Apache-2.0
// Every CPU kernel that accepts a case, against the reference: values within the computed bound,
// exact on whole numbers for sums and products, the same bits for every thread count and run, and
// no byte written outside its own memory.
#include <gtest/gtest.h>

#include <cmath>

#include "op/all_cases.h"
#include "op/cpu_kernels.h"
#include "ops/coded/coded.h"
#include "ops/registry.h"

namespace snug {
namespace {

class Cpu_kernel : public testing::TestWithParam<OpCase> {};
class Cpu_kernel_on_bad_data : public testing::TestWithParam<OpCase> {};

bool is_view(const CaseGraph& graph) {
  return graph.builder.graph().node(graph.node).op->alias->kind == AliasKind::view;
}

std::vector<const CpuKernelDef*> accepting_kernels(const CaseGraph& graph, const std::string& op) {
  const NodeSpec spec = spec_of(graph.builder.graph(), graph.node);
  std::vector<const CpuKernelDef*> found = cpu_kernels_of(op);
  const CpuContext context = cpu_test_context(2);
  std::erase_if(found, [&](const CpuKernelDef* kernel) {
    return !reason_against(*kernel, spec, context).empty();
  });
  return found;
}

// A step rounds a weight that is stored in fewer bits to either of its two neighbours.
bool is_rounded_by_chance(const CaseGraph& graph, const TensorType& type) {
  const AliasKind kind = graph.builder.graph().node(graph.node).op->alias->kind;
  return kind == AliasKind::must_overwrite &&
         (type.dtype == DType::bf16 || type.dtype == DType::bf16x8);
}
double place_of(DType dtype, double x) {
  return std::ldexp(std::abs(x), dtype == DType::bf16 ? -7 : -15);
}

// "output 1, element 5: 0.25 instead of 0.5, allowed 1e-07"; empty where all elements are within
// their bounds.
std::string compare(const CaseGraph& graph, const CpuRun& run,
                    const std::vector<std::vector<double>>& bounds) {
  const RefValues expected = evaluate(graph.builder.graph(), graph.feeds);
  for (size_t i = 0; i < graph.outputs.size(); ++i) {
    const TensorType& type = graph.builder.type(graph.outputs[i]);
    const std::vector<double> found = decode(type, run.outputs[i]);
    const std::vector<double>& want = expected.at(graph.outputs[i]);
    for (size_t j = 0; j < want.size(); ++j) {
      double bound = type.dtype == DType::f32 && !bounds.empty() ? bounds[i][j] : 0;
      if (is_rounded_by_chance(graph, type)) bound = place_of(type.dtype, want[j]) + bounds[i][j];
      if (found[j] == want[j] || std::abs(found[j] - want[j]) <= bound) continue;
      if (std::isnan(found[j]) && std::isnan(want[j])) continue;
      char text[160];
      std::snprintf(text, sizeof text,
                    "output %zu, element %zu: %.9g instead of %.9g, allowed %.3g", i, j, found[j],
                    want[j], bound);
      return text;
    }
  }
  return {};
}

// The library may split a sum among threads; its own kernels are bit-equal for a given number of
// threads only.
bool is_library_kernel(const CpuKernelDef& def) {
  return std::string(def.kernel).rfind("onednn:", 0) == 0;
}

TEST_P(Cpu_kernel, agrees_with_the_reference_for_every_thread_count) {
  const OpCase& c = GetParam();
  for (double magnitude : c.magnitudes) {
    const CaseGraph graph = build_case(c, magnitude);
    if (is_view(graph)) return;
    const std::vector<const CpuKernelDef*> kernels = accepting_kernels(graph, c.op);
    ASSERT_FALSE(kernels.empty()) << "no CPU kernel takes "
                                  << signature_of(spec_of(graph.builder.graph(), graph.node));
    const std::vector<std::vector<double>> bounds = error_bounds(graph);
    for (const CpuKernelDef* kernel : kernels) {
      SCOPED_TRACE(std::string(kernel->kernel) + " magnitude " + std::to_string(magnitude));
      const CpuRun one = run_cpu_kernel(*kernel, graph, 1, 1);
      ASSERT_EQ(one.code, ErrorCode::ok);
      EXPECT_EQ(one.violation, "");
      EXPECT_EQ(compare(graph, one, bounds), "");
      for (int threads : {1, 2, 3}) {
        const CpuRun again = run_cpu_kernel(*kernel, graph, threads, 2);
        EXPECT_EQ(again.violation, "") << threads << " threads";
        if (threads == 1 || !is_library_kernel(*kernel)) {
          EXPECT_TRUE(again.outputs == one.outputs)
              << "other bits with " << threads << " threads, second run";
        } else {
          EXPECT_EQ(compare(graph, again, bounds), "") << threads << " threads";
          EXPECT_TRUE(run_cpu_kernel(*kernel, graph, threads, 1).outputs == again.outputs)
              << threads << " threads";
        }
      }
    }
  }
}

TEST_P(Cpu_kernel, is_exact_on_whole_numbers) {
  const OpCase& c = GetParam();
  if (!c.is_exact_on_integers) return;
  const CaseGraph graph = build_case(c, 1, Fill::small_integers);
  if (is_view(graph)) return;
  for (const CpuKernelDef* kernel : accepting_kernels(graph, c.op)) {
    EXPECT_EQ(compare(graph, run_cpu_kernel(*kernel, graph, 2, 1), {}), "") << kernel->kernel;
  }
}

TEST_P(Cpu_kernel_on_bad_data, reports_bad_data_and_writes_nothing_outside) {
  const OpCase& c = GetParam();
  const CaseGraph graph = build_case(c, 1);
  const std::vector<const CpuKernelDef*> kernels = accepting_kernels(graph, c.op);
  ASSERT_FALSE(kernels.empty());
  for (const CpuKernelDef* kernel : kernels) {
    for (int threads : {1, 3}) {
      const CpuRun run = run_cpu_kernel(*kernel, graph, threads, 1);
      EXPECT_EQ(run.code, ErrorCode::bad_data) << kernel->kernel;
      EXPECT_EQ(run.violation, "") << kernel->kernel;
    }
  }
}

std::vector<OpCase> bad_data_cases() {
  std::vector<OpCase> cases = bad_op_cases();
  std::erase_if(cases, [](const OpCase& c) { return c.error != ErrorCode::bad_data; });
  return cases;
}

const auto kName = [](const auto& param) { return test_name(param.param); };
INSTANTIATE_TEST_SUITE_P(Ops, Cpu_kernel, testing::ValuesIn(good_op_cases()), kName);
INSTANTIATE_TEST_SUITE_P(Ops, Cpu_kernel_on_bad_data, testing::ValuesIn(bad_data_cases()), kName);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Cpu_kernel_on_bad_data);

TEST(Cpu_backend, has_a_kernel_for_every_op_but_views) {
  for (const OpDef* op : op_registry().all()) {
    if (op->alias->kind == AliasKind::view) continue;
    EXPECT_FALSE(cpu_kernels_of(*op->name).empty()) << *op->name;
  }
}

NodeSpec coded_product(const Shape& weight, DType dtype, bool transpose_b, int64_t rows) {
  const int64_t summed = weight[transpose_b ? 1 : 0], width = weight[transpose_b ? 0 : 1];
  InputTypes inputs{TensorType{DType::f32, {rows, summed}}, TensorType{dtype, weight}};
  if (dtype == DType::u8) {
    inputs.add(TensorType{DType::f32, {weight[0], coded_blocks(weight[1])}});
  } else {
    inputs.add(std::nullopt);
  }
  inputs.add(std::nullopt);  // bias
  return {.op = op_registry().find("coded_matmul"),
          .inputs = inputs,
          .outputs = {{DType::f32, {rows, width}}},
          .attrs = {{"transpose_b", transpose_b}}};
}

// A product that falls back to plain code is right, and a hundred times slower.
TEST(Cpu_kernels, of_products_with_coded_weights_are_the_librarys_at_the_sizes_of_models) {
  const CpuKernelDef* const fast = cpu_kernels_of("coded_matmul").front();
  for (const Shape& weight : {Shape{256, 256}, Shape{768, 768}, Shape{3072, 768}, Shape{768, 3072},
                              Shape{128, 30000}, Shape{30522, 768}, Shape{1024, 4096}}) {
    for (const DType dtype : {DType::u8, DType::bf16, DType::bf16x8}) {
      for (const int64_t rows : {1, 8, 96, 512, 4096}) {
        for (const bool transpose_b : {false, true}) {
          const NodeSpec spec = coded_product(weight, dtype, transpose_b, rows);
          EXPECT_EQ(reason_against(*fast, spec, cpu_test_context(2)), "")
              << rows << " rows, " << signature_of(spec);
        }
      }
    }
  }
}

TEST(Cpu_harness, notices_wrong_values_and_red_zones) {
  const OpCase c{.op = "neg", .name = "planted", .inputs = {f32_normal({5})}};
  const CaseGraph graph = build_case(c, 1);
  const std::vector<std::vector<double>> bounds = error_bounds(graph);
  static float nudge = 0;
  static int64_t beyond = 0;
  struct Planted final : Kernel {
    ErrorCode run(const Launch& launch) const noexcept override {
      const auto* x = reinterpret_cast<const float*>(launch.inputs[0]);
      auto* y = reinterpret_cast<float*>(launch.outputs[0]);
      for (int64_t i = 0; i < 5; ++i) y[i] = -x[i] * (1 + nudge);
      for (int64_t i = 5; i < 5 + beyond; ++i) y[i] = 0;
      return ErrorCode::ok;
    }
  };
  const CpuKernelDef planted{
      .op = "neg",
      .kernel = "planted",
      .types = "f32 -> f32",
      .accepts = [](const NodeSpec&, const CpuContext&) { return std::string(); },
      .scratch_bytes = [](const NodeSpec&, const CpuContext&) { return int64_t{0}; },
      .create = [](const NodeSpec&, const CpuContext&) -> std::unique_ptr<Kernel> {
        return std::make_unique<Planted>();
      }};
  EXPECT_EQ(compare(graph, run_cpu_kernel(planted, graph, 1, 1), bounds), "");
  EXPECT_EQ(run_cpu_kernel(planted, graph, 1, 1).violation, "");
  nudge = 1e-5F;
  EXPECT_NE(compare(graph, run_cpu_kernel(planted, graph, 1, 1), bounds), "");
  beyond = 1;
  EXPECT_NE(run_cpu_kernel(planted, graph, 1, 1).violation, "");
}

}  // namespace
}  // namespace snug

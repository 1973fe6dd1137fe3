// SPDX-License-Identifier: Apache-2.0
// The reference backend: evaluation of graphs and the bound interface.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backend/reference/reference.h"
#include "op/all_cases.h"
#include "op/case_graph.h"
#include "ops/registry.h"

namespace snug {
namespace {

class Reference_backend : public testing::TestWithParam<OpCase> {};

constexpr size_t kRedZone = 8;
constexpr double kRedValue = -12345.678;

// A tensor between two red zones.
std::vector<double> guarded(size_t count, double value) {
  std::vector<double> memory(count + 2 * kRedZone, kRedValue);
  std::fill_n(memory.begin() + kRedZone, count, value);
  return memory;
}

TEST_P(Reference_backend, kernel_fills_its_outputs_and_nothing_else) {
  const OpCase& c = GetParam();
  const CaseGraph graph = build_case(c, c.magnitudes.front());
  const RefValues expected = evaluate(graph.builder.graph(), graph.feeds);
  const std::unique_ptr<Backend> backend = make_reference_backend();
  const NodeSpec spec = spec_of(graph.builder.graph(), graph.node);
  EXPECT_EQ(backend->select(spec).scratch_bytes, 0);
  EXPECT_GT(backend->select(spec).seconds, 0);
  const std::unique_ptr<Kernel> kernel = backend->create(spec);

  std::vector<std::vector<double>> outputs;
  std::vector<const std::byte*> input_pointers;
  std::vector<std::byte*> output_pointers;
  RefValues feeds = graph.feeds;
  double nothing = 0;
  for (ValueId id : graph.inputs) {
    const double* data = id == kNone            ? nullptr
                         : feeds.at(id).empty() ? &nothing
                                                : feeds.at(id).data();
    input_pointers.push_back(reinterpret_cast<const std::byte*>(data));
  }
  for (ValueId id : graph.outputs) {
    outputs.push_back(
        guarded(static_cast<size_t>(element_count(graph.builder.type(id))), std::nan("")));
    output_pointers.push_back(reinterpret_cast<std::byte*>(outputs.back().data() + kRedZone));
  }
  // What must be overwritten is its input's storage.
  if (spec.op->alias->kind == AliasKind::must_overwrite) {
    for (const auto& [output, input] : spec.op->alias->pairs) {
      std::vector<double>& memory = outputs[static_cast<size_t>(output)];
      const std::vector<double>& from = feeds.at(graph.inputs[static_cast<size_t>(input)]);
      std::copy(from.begin(), from.end(), memory.begin() + kRedZone);
      input_pointers[static_cast<size_t>(input)] = output_pointers[static_cast<size_t>(output)];
    }
  }
  ASSERT_EQ(kernel->run({input_pointers, output_pointers, nullptr}), ErrorCode::ok);
  EXPECT_EQ(feeds, graph.feeds) << "an input was written";
  for (size_t i = 0; i < outputs.size(); ++i) {
    const std::vector<double>& want = expected.at(graph.outputs[i]);
    std::vector<double> whole = guarded(want.size(), 0);
    std::copy(want.begin(), want.end(), whole.begin() + kRedZone);
    EXPECT_EQ(outputs[i], whole) << "output " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, Reference_backend, testing::ValuesIn(good_op_cases()),
                         [](const auto& param) { return test_name(param.param); });

TEST(Reference, sizes_are_eight_bytes_an_element) {
  const std::unique_ptr<Backend> backend = make_reference_backend();
  EXPECT_EQ(backend->name(), "reference");
  EXPECT_EQ(backend->alignment(), 64);
  EXPECT_EQ(backend->storage_bytes({DType::f32, {3, 5}}), 120);
  EXPECT_EQ(backend->storage_bytes({DType::boolean, {3}}), 24);
}

TEST(Reference, missing_and_misshapen_feeds_are_refused) {
  GraphBuilder builder(op_registry(), "sum");
  const ValueId x = builder.input("x", {DType::f32, {2}});
  const ValueId y = builder.op1("add", {x, x});
  EXPECT_EQ(evaluate(builder.graph(), {{x, {1, 2}}}).at(y), (std::vector<double>{2, 4}));
  try {
    (void)evaluate(builder.graph(), {});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_graph);
    EXPECT_STREQ(error.what(), "[%1 add] %0 has no value");
  }
  try {
    (void)evaluate(builder.graph(), {{x, {1, 2, 3}}});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::shape_mismatch);
    EXPECT_STREQ(error.what(), "[%1 add] %0 is f32[2] but was fed 3 elements");
  }
}

// By hand: the reference is the definition of correct, so it is compared with numbers, not with
// itself.
TEST(Reference, known_values) {
  const auto run = [](const char* op,
                      std::vector<std::pair<TensorType, std::vector<double>>> inputs,
                      Attrs attrs = {}) {
    GraphBuilder builder(op_registry(), "known");
    RefValues feeds;
    std::vector<ValueId> ids;
    for (auto& [type, data] : inputs) {
      ids.push_back(type.dtype == DType::i32 && data.empty()
                        ? kNone
                        : builder.input("x" + std::to_string(ids.size()), type));
      if (ids.back() != kNone) feeds[ids.back()] = data;
    }
    const ValueId y = builder.op(op, ids, std::move(attrs))[0];
    return evaluate(builder.graph(), feeds).at(y);
  };
  const auto f32 = [](Shape shape) { return TensorType{DType::f32, std::move(shape)}; };
  const TensorType none{DType::i32, {0}};
  using V = std::vector<double>;
  EXPECT_EQ(run("matmul", {{f32({2, 3}), {1, 2, 3, 4, 5, 6}},
                           {f32({3, 2}), {7, 8, 9, 10, 11, 12}},
                           {f32({2}), {1, -1}}}),
            (V{59, 63, 140, 153}));
  EXPECT_EQ(run("matmul", {{f32({2, 2}), {1, 2, 3, 4}}, {f32({2, 2}), {5, 6, 7, 8}}, {none, {}}},
                {{"transpose_a", true}, {"transpose_b", true}}),
            (V{23, 31, 34, 46}));
  EXPECT_EQ(run("sub", {{f32({2, 1}), {1, 2}}, {f32({3}), {10, 20, 30}}}),
            (V{-9, -19, -29, -8, -18, -28}));
  EXPECT_EQ(
      run("reduce_mean", {{f32({2, 3}), {1, 2, 3, 4, 5, 9}}}, {{"axes", std::vector<int64_t>{1}}}),
      (V{2, 6}));
  EXPECT_EQ(run("reduce_max", {{f32({2, 3}), {1, 7, 3, -4, -5, -9}}},
                {{"axes", std::vector<int64_t>{-1}}}),
            (V{7, -4}));
  EXPECT_EQ(run("sum_squares", {{f32({3}), {1, -2, 3}}}), (V{14}));
  EXPECT_EQ(
      run("sum_to", {{f32({2, 3}), {1, 2, 3, 4, 5, 6}}}, {{"shape", std::vector<int64_t>{3}}}),
      (V{5, 7, 9}));
  EXPECT_EQ(
      run("transpose", {{f32({2, 3}), {1, 2, 3, 4, 5, 6}}}, {{"perm", std::vector<int64_t>{1, 0}}}),
      (V{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(run("pad", {{f32({2}), {1, 2}}},
                {{"axis", int64_t{0}}, {"before", int64_t{1}}, {"after", int64_t{2}}}),
            (V{0, 1, 2, 0, 0}));
  EXPECT_EQ(run("cast", {{f32({4}), {-2.7, 2.7, 0, 3e9}}}, {{"to", std::string("i32")}}),
            (V{-2, 2, 0, 2147483647}));
  // torch.nn.functional.gelu in float64.
  const V exact = run("gelu", {{f32({3}), {-1, 0.5, 2}}});
  EXPECT_NEAR(exact[0], -0.15865525393145707, 1e-15);
  EXPECT_NEAR(exact[1], 0.34573123063700656, 1e-15);
  EXPECT_NEAR(exact[2], 1.9544997361036416, 1e-15);
  const V approximate = run("gelu", {{f32({2}), {-1, 2}}}, {{"approximate", std::string("tanh")}});
  EXPECT_NEAR(approximate[0], -0.15880800939172324, 1e-15);
  EXPECT_NEAR(approximate[1], 1.9545976940877751, 1e-15);
}

}  // namespace
}  // namespace snug

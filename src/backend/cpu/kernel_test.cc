// SPDX-License-Identifier: Apache-2.0
// The CPU kernels of matrix products, shapes, reductions, embeddings and updates against the
// reference backend on shapes that reach every path of theirs; bits over thread counts; the kernel
// that each product gets.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/onednn.h"
#include "backend/reference/reference.h"
#include "base/half.h"
#include "base/philox.h"
#include "graph/builder.h"
#include "ops/registry.h"

namespace snug {
namespace {

struct Operand {
  TensorType type = {};
  double low =
      0;  // integers: uniform in [low, high]; f32: N(0, 1), or its absolute value where low > 0
  double high = 0;
  bool is_present = true;
};
Operand f32(Shape shape) { return {.type = {DType::f32, std::move(shape)}}; }
Operand positive(Shape shape) { return {.type = {DType::f32, std::move(shape)}, .low = 1}; }
Operand ids(Shape shape, double rows) {
  return {.type = {DType::i32, std::move(shape)}, .high = rows - 1};
}
Operand absent() { return {.is_present = false}; }

struct Case {
  std::string op;
  std::vector<Operand> inputs;
  Attrs attrs = {};
};

Graph graph_of(const Case& c) {
  GraphBuilder builder(op_registry(), "case");
  std::vector<ValueId> values;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    // State: must-overwrite ops take nothing else.
    values.push_back(
        c.inputs[i].is_present ? builder.state("x" + std::to_string(i), c.inputs[i].type) : kNone);
  }
  builder.op(c.op, values, c.attrs);
  return builder.take();
}

std::vector<double> draw(const Operand& operand, uint64_t stream) {
  PhiloxStream random(7, stream);
  std::vector<double> values(static_cast<size_t>(element_count(operand.type)));
  for (double& value : values) {
    if (operand.type.dtype == DType::f32) {
      value = static_cast<double>(static_cast<float>(random.normal()));
      if (operand.low > 0) value = 0.01 + std::fabs(value);
      value = static_cast<double>(static_cast<float>(value));
    } else {
      value =
          operand.low +
          static_cast<double>(random.below(static_cast<uint64_t>(operand.high - operand.low) + 1));
    }
  }
  return values;
}

// Memory that starts at a multiple of 64, as the runtime's does.
class Buffer {
 public:
  explicit Buffer(int64_t bytes) : bytes_(static_cast<size_t>(bytes) + 64) {
    const auto address = reinterpret_cast<uintptr_t>(bytes_.data());
    data_ = bytes_.data() + ((64 - address % 64) % 64);
  }
  [[nodiscard]] std::byte* data() const { return data_; }

 private:
  std::vector<std::byte> bytes_;
  std::byte* data_;
};

void store(const std::vector<double>& values, DType dtype, std::byte* to) {
  for (size_t i = 0; i < values.size(); ++i) {
    switch (dtype) {
      case DType::f32:
        reinterpret_cast<float*>(to)[i] = static_cast<float>(values[i]);
        break;
      case DType::i32:
        reinterpret_cast<int32_t*>(to)[i] = static_cast<int32_t>(values[i]);
        break;
      case DType::i64:
        reinterpret_cast<int64_t*>(to)[i] = static_cast<int64_t>(values[i]);
        break;
      case DType::boolean:
      case DType::u8:
        reinterpret_cast<uint8_t*>(to)[i] = static_cast<uint8_t>(values[i]);
        break;
      case DType::bf16:
        reinterpret_cast<Bf16*>(to)[i] = to_bf16(static_cast<float>(values[i]));
        break;
      case DType::f16:
        reinterpret_cast<F16*>(to)[i] = to_f16(static_cast<float>(values[i]));
        break;
      case DType::bf16x8:
        FAIL() << "no case here stores weights";
    }
  }
}

struct Outcome {
  ErrorCode code = ErrorCode::ok;
  std::string kernel = {};
  std::vector<std::vector<float>> outputs = {};
};

// Also not a number, and minus zero.
bool has_equal_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](float x, float y) {
    return std::bit_cast<uint32_t>(x) == std::bit_cast<uint32_t>(y);
  });
}

Outcome run_on_cpu(const Case& c, int threads) {
  const Graph graph = graph_of(c);
  const auto backend = make_cpu_backend({.threads = threads, .profile = default_profile()});
  const NodeSpec spec = spec_of(graph, NodeId(0));
  const KernelChoice choice = backend->select(spec);
  const auto kernel = backend->create(spec);
  std::vector<Buffer> buffers;
  std::vector<const std::byte*> inputs;
  std::vector<std::byte*> outputs;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    if (!c.inputs[i].is_present) {
      inputs.push_back(nullptr);
      continue;
    }
    buffers.emplace_back(byte_count(c.inputs[i].type));
    store(draw(c.inputs[i], i), c.inputs[i].type.dtype, buffers.back().data());
    inputs.push_back(buffers.back().data());
  }
  for (const TensorType& type : spec.outputs) {
    buffers.emplace_back(byte_count(type));
    std::memset(buffers.back().data(), 0xFF,
                static_cast<size_t>(byte_count(type)));  // NaN: every byte must be written
    outputs.push_back(buffers.back().data());
  }
  const Alias& alias = *spec.op->alias;
  if (alias.kind == AliasKind::must_overwrite) {
    for (const auto& [out, in] : alias.pairs) {
      outputs[static_cast<size_t>(out)] = const_cast<std::byte*>(inputs[static_cast<size_t>(in)]);
    }
  }
  const Buffer scratch(choice.scratch_bytes + 64);
  std::memset(scratch.data(), 0xFF, static_cast<size_t>(choice.scratch_bytes) + 64);
  Outcome outcome{.kernel = choice.kernel};
  outcome.code = kernel->run({.inputs = inputs, .outputs = outputs, .scratch = scratch.data()});
  for (int64_t i = 0; i < 64; ++i) {
    EXPECT_EQ(scratch.data()[choice.scratch_bytes + i], std::byte{0xFF})
        << c.op << " wrote beyond its scratch";
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const auto* from = reinterpret_cast<const float*>(outputs[i]);
    outcome.outputs.emplace_back(from, from + element_count(spec.outputs[i]));
  }
  return outcome;
}

// Relative to the largest element of an output: the bound of a long float sum.
void expect_close_to_reference(const Case& c, const Outcome& outcome) {
  const Graph graph = graph_of(c);
  RefValues feeds;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    if (c.inputs[i].is_present) feeds[graph.find("x" + std::to_string(i))] = draw(c.inputs[i], i);
  }
  const RefValues values = evaluate(graph, feeds);
  for (size_t out = 0; out < outcome.outputs.size(); ++out) {
    const std::vector<double>& expected = values.at(graph.node(NodeId(0)).outputs[out]);
    ASSERT_EQ(expected.size(), outcome.outputs[out].size());
    double scale = 1e-30;
    for (const double value : expected) scale = std::max(scale, std::fabs(value));
    for (size_t i = 0; i < expected.size(); ++i) {
      const double error = std::fabs(static_cast<double>(outcome.outputs[out][i]) - expected[i]);
      ASSERT_TRUE(error <= 4e-6 * scale)
          << c.op << " by " << outcome.kernel << ", output " << out << "[" << i
          << "]: " << outcome.outputs[out][i] << " instead of " << expected[i];
    }
  }
}

Attrs sides(bool a, bool b) { return {{"transpose_a", a}, {"transpose_b", b}}; }
using Ints = std::vector<int64_t>;

std::vector<Case> product_cases() {
  std::vector<Case> cases = {
      {"matmul", {f32({5, 7}), f32({7, 3}), absent()}},
      {"matmul", {f32({2, 3, 7}), f32({5, 7}), f32({5})}, sides(false, true)},
      {"matmul", {f32({64, 32}), f32({64, 48}), absent()}, sides(true, false)},
      {"matmul", {f32({33, 17}), f32({9, 33}), absent()}, sides(true, true)},
      {"matmul", {f32({2, 4, 8, 16}), f32({2, 4, 16, 24}), absent()}},
      {"matmul", {f32({2, 4, 8, 16}), f32({2, 4, 24, 16}), f32({24})}, sides(false, true)},
      {"matmul", {f32({3, 16, 8}), f32({3, 16, 24}), absent()}, sides(true, false)},
      {"matmul", {f32({1, 1}), f32({1, 1}), f32({1})}},
      {"matmul", {f32({4, 0}), f32({0, 3}), f32({3})}},
      {"matmul", {f32({0, 4}), f32({4, 3}), absent()}},
      {"matmul", {f32({65, 40}), f32({40, 1536}), f32({1536})}},                     // packed
      {"matmul", {f32({300, 72}), f32({300, 1504}), absent()}, sides(true, false)},  // transposed
      {"matmul",
       {f32({64, 1408}), f32({64, 1504}), absent()},
       sides(true, false)},  // packed, a transposed
      {"matmul_accumulate", {f32({5, 3}), f32({5, 7}), f32({7, 3})}},
      {"matmul_accumulate", {f32({64, 48}), f32({128, 64}), f32({128, 48})}, sides(true, false)},
      {"matmul_accumulate",
       {f32({72, 1504}), f32({300, 72}), f32({300, 1504})},
       sides(true, false)},
      {"matmul_accumulate", {f32({64, 1504}), f32({64, 40}), f32({40, 1504})}},
      {"matmul_accumulate", {f32({4, 3}), f32({4, 0}), f32({0, 3})}},
  };
  return cases;
}

std::vector<Case> other_cases() {
  return {
      {"transpose", {f32({70, 33})}, {{"perm", Ints{1, 0}}}},
      {"transpose", {f32({2, 17, 3, 20})}, {{"perm", Ints{0, 2, 1, 3}}}},
      {"transpose", {f32({2, 17, 3, 20})}, {{"perm", Ints{0, 2, 3, 1}}}},
      {"transpose", {f32({3, 4, 5, 6})}, {{"perm", Ints{3, 2, 1, 0}}}},
      {"transpose", {f32({3, 4, 5, 6})}, {{"perm", Ints{2, 0, 3, 1}}}},
      {"transpose", {f32({1, 40, 1, 50})}, {{"perm", Ints{2, 3, 0, 1}}}},
      {"transpose", {f32({3, 0, 4})}, {{"perm", Ints{2, 1, 0}}}},
      {"transpose", {f32({500, 300})}, {{"perm", Ints{1, 0}}}},
      {"slice",
       {f32({7, 11})},
       {{"axis", int64_t{1}}, {"start", int64_t{3}}, {"stop", int64_t{9}}}},
      {"slice",
       {f32({70, 1000})},
       {{"axis", int64_t{-2}}, {"start", int64_t{3}}, {"stop", int64_t{60}}}},
      {"pad",
       {f32({7, 11})},
       {{"axis", int64_t{1}}, {"before", int64_t{2}}, {"after", int64_t{1}}}},
      {"pad",
       {f32({7, 11})},
       {{"axis", int64_t{0}}, {"before", int64_t{0}}, {"after", int64_t{4}}}},
      {"concat", {f32({3, 4, 2}), f32({3, 1, 2}), f32({3, 7, 2})}, {{"axis", int64_t{1}}}},
      {"broadcast_to", {f32({7})}, {{"shape", Ints{5, 7}}}},
      {"broadcast_to", {f32({5, 1, 3, 1})}, {{"shape", Ints{2, 5, 4, 3, 6}}}},
      {"broadcast_to", {f32({})}, {{"shape", Ints{300, 200}}}},
      {"sum_to", {f32({2, 5, 4, 3, 6})}, {{"shape", Ints{5, 1, 3, 1}}}},
      {"sum_to", {f32({1300, 700})}, {{"shape", Ints{700}}}},
      {"sum_to", {f32({40, 30})}, {{"shape", Ints{}}}},
      {"reduce_sum", {f32({1031, 67})}, {{"axes", Ints{0}}}},
      {"reduce_sum", {f32({9, 131, 67})}, {{"axes", Ints{1}}, {"keep_dims", true}}},
      {"reduce_sum", {f32({31, 1000})}, {{"axes", Ints{-1}}}},
      {"reduce_sum", {f32({2, 70001})}, {{"axes", Ints{1}}}},
      {"reduce_sum", {f32({5, 6, 7})}, {{"axes", Ints{0, 2}}}},
      {"reduce_sum", {f32({5, 0, 7})}, {{"axes", Ints{1}}}},
      {"reduce_sum", {f32({5, 7})}, {{"axes", Ints{}}}},
      {"reduce_mean", {f32({5, 3, 70})}, {{"axes", Ints{0, 1}}}},
      {"reduce_mean", {f32({5, 7, 3, 4})}, {{"axes", Ints{1, 3}}}},
      {"reduce_max", {f32({5, 37})}, {{"axes", Ints{1}}}},
      {"reduce_max", {f32({5, 37, 3})}, {{"axes", Ints{0, 2}}}},
      {"sum_squares", {f32({70001})}},
      {"sum_squares", {f32({})}},
      {"embedding", {f32({50, 40}), ids({7, 300}, 50)}},
      {"embedding_grad", {ids({7, 300}, 50), f32({7, 300, 40})}, {{"rows", int64_t{50}}}},
      {"embedding_grad", {ids({3}, 9), f32({3, 5})}, {{"rows", int64_t{9}}}},
      {"embedding_grad_accumulate", {f32({50, 40}), ids({600}, 50), f32({600, 40})}},
      {"embedding_sum", {f32({50, 413}), ids({71, 30}, 50), f32({71, 30})}},
      {"embedding_sum", {f32({50, 40}), ids({9000}, 50), f32({9000})}},
      {"embedding_sum_grad",
       {ids({7, 300}, 50), f32({7, 300}), f32({7, 413})},
       {{"rows", int64_t{50}}}},
      {"embedding_sum_grad_accumulate",
       {f32({50, 40}), ids({60, 10}, 50), f32({60, 10}), f32({60, 40})}},
      {"embedding_sum_grad_weights", {f32({50, 413}), ids({71, 30}, 50), f32({71, 413})}},
      {"accumulate", {f32({20001}), f32({20001})}},
      {"set_zero", {f32({20001})}},
      {"global_norm", {positive({}), positive({}), positive({})}, {{"max_norm", 1.0}}},
      {"global_norm", {positive({})}, {{"max_norm", 0.0}}},
      {"adamw",
       {f32({20001}), f32({20001}), f32({20001}), positive({20001}), absent(), positive({4}),
        positive({}), absent()},
       {{"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-8}, {"weight_decay", 0.01}}},
      {"adamw",
       {f32({3, 7}), f32({3, 7}), f32({3, 7}), positive({3, 7}), absent(), positive({4}), absent(),
        absent()},
       {{"beta1", 0.8}, {"beta2", 0.99}, {"eps", 1e-6}, {"weight_decay", 0.0}}},
      {"sgd",
       {f32({301}), f32({301}), absent(), positive({4}), positive({}), absent()},
       {{"weight_decay", 0.1}}},
      {"sgd_momentum",
       {f32({20001}), f32({20001}), f32({20001}), absent(), positive({4}), absent(), absent()},
       {{"momentum", 0.9}, {"weight_decay", 0.1}}},
      {"sgd_momentum",
       {f32({77}), f32({77}), f32({77}), absent(), positive({4}), positive({}), absent()},
       {{"momentum", 0.9}, {"nesterov", true}, {"weight_decay", 0.1}}},
  };
}

TEST(CpuKernels, Products_match_the_reference_with_every_kernel) {
  std::map<std::string, int> kernels;
  for (const Case& c : product_cases()) {
    for (const int threads : {1, 2, 3}) {
      const Outcome outcome = run_on_cpu(c, threads);
      EXPECT_EQ(outcome.code, ErrorCode::ok);
      expect_close_to_reference(c, outcome);
      ++kernels[outcome.kernel];
      const Outcome again = run_on_cpu(c, threads);
      EXPECT_TRUE(has_equal_bits(outcome.outputs[0], again.outputs[0]));
    }
  }
  EXPECT_GT(kernels["simd:matmul"], 0);
  if (kernels["onednn:matmul"] > 0) {  // a processor that oneDNN's blocked product knows
    EXPECT_GT(kernels["onednn:matmul_packed"], 0);
    EXPECT_GT(kernels["onednn:matmul_transposed"], 0);
  }
}

TEST(CpuKernels, Others_match_the_reference_and_their_bits_do_not_depend_on_threads) {
  for (const Case& c : other_cases()) {
    const Outcome one = run_on_cpu(c, 1);
    EXPECT_EQ(one.code, ErrorCode::ok);
    expect_close_to_reference(c, one);
    for (const int threads : {2, 3, 7}) {
      const Outcome outcome = run_on_cpu(c, threads);
      for (size_t out = 0; out < one.outputs.size(); ++out) {
        EXPECT_TRUE(has_equal_bits(one.outputs[out], outcome.outputs[out]))
            << c.op << " with " << threads << " threads";
      }
    }
  }
}

TEST(CpuKernels, An_id_out_of_range_is_bad_data) {
  for (const double low : {-1.0, 50.0}) {
    Operand bad = ids({30}, 50);
    bad.low = bad.high = low;
    EXPECT_EQ(run_on_cpu({"embedding", {f32({50, 4}), bad}}, 2).code, ErrorCode::bad_data);
    EXPECT_EQ(run_on_cpu({"embedding_sum", {f32({50, 4}), bad, f32({30})}}, 2).code,
              ErrorCode::bad_data);
    EXPECT_EQ(run_on_cpu({"embedding_grad", {bad, f32({30, 4})}, {{"rows", int64_t{50}}}}, 2).code,
              ErrorCode::bad_data);
    EXPECT_EQ(run_on_cpu({"embedding_grad_accumulate", {f32({50, 4}), bad, f32({30, 4})}}, 2).code,
              ErrorCode::bad_data);
  }
}

TEST(CpuBackend, Choice_has_rounded_scratch_and_a_predicted_time) {
  const Case c{"sum_squares", {f32({20000})}};
  const auto backend = make_cpu_backend({.threads = 2, .profile = default_profile()});
  const Graph graph = graph_of(c);
  const KernelChoice choice = backend->select(spec_of(graph, NodeId(0)));
  EXPECT_EQ(choice.kernel, "simd:sum_squares");
  EXPECT_EQ(choice.scratch_bytes, 64);  // two blocks, one double each
  EXPECT_GT(choice.seconds, 0);
  EXPECT_EQ(backend->alignment(), 64);
  EXPECT_EQ(backend->storage_bytes({DType::f32, {3}}), 12);
}

TEST(CpuBackend, Products_of_BERT_get_the_form_that_is_fast_for_their_shape) {
  const auto backend = make_cpu_backend({.threads = 2, .profile = default_profile()});
  const auto kernel_of = [&](Shape a, Shape b, const Attrs& attrs) {
    const Graph graph =
        graph_of({"matmul", {f32(std::move(a)), f32(std::move(b)), absent()}, attrs});
    return backend->select(spec_of(graph, NodeId(0))).kernel;
  };
  if (kernel_of({64, 64}, {64, 64}, {}) != "onednn:matmul")
    GTEST_SKIP() << "no blocked product for this processor";
  // y = x w^T, dx = dy w, dw = dy^T x of the feed-forward layers, 768 <-> 3072, 2048 rows.
  EXPECT_EQ(kernel_of({2048, 768}, {3072, 768}, sides(false, true)), "onednn:matmul");
  EXPECT_EQ(kernel_of({2048, 3072}, {3072, 768}, {}), "onednn:matmul_packed");  // many pages
  EXPECT_EQ(kernel_of({2048, 3072}, {2048, 768}, sides(true, false)), "onednn:matmul");
  EXPECT_EQ(kernel_of({2048, 768}, {768, 3072}, {}), "onednn:matmul_packed");  // wide rows
  EXPECT_EQ(kernel_of({2048, 768}, {2048, 3072}, sides(true, false)), "onednn:matmul_transposed");
  EXPECT_EQ(kernel_of({64, 768}, {768, 3072}, {}), "simd:matmul");  // few rows
  EXPECT_EQ(kernel_of({0, 768}, {768, 3072}, {}), "simd:matmul");
}

TEST(CpuBackend, Products_are_our_own_where_oneDNN_has_no_blocked_ones) {
  if (has_blocked_products()) GTEST_SKIP() << "oneDNN has blocked products for this processor";
  const auto backend = make_cpu_backend({.threads = 2, .profile = default_profile()});
  for (const DType type : {DType::f32, DType::bf16, DType::f16}) {
    const auto operand = [&](Shape shape) { return Operand{.type = {type, std::move(shape)}}; };
    for (const int64_t rows : {0, 1, 32, 2048}) {
      const Graph graph =
          graph_of({"matmul", {operand({rows, 768}), operand({768, 3072}), absent()}, {}});
      EXPECT_EQ(backend->select(spec_of(graph, NodeId(0))).kernel, "simd:matmul")
          << to_string(type) << ", " << rows << " rows";
    }
  }
}

// Sums onto one matrix, each by a kernel of its own or several by one: the same bits.
TEST(CpuBackend, Fused_sums_have_the_bits_of_one_sum_after_the_other) {
  struct Sums {
    int64_t m, n, rows;
    int32_t count;
  };
  for (const Sums& sums : {Sums{1, 1, 1, 2},
                           {7, 5, 3, 3},
                           {64, 48, 32, 8},
                           {37, 130, 8, 32},
                           {256, 33, 64, 4},
                           {130, 300, 1, 32}}) {
    for (const int threads : {1, 3}) {
      SCOPED_TRACE(std::to_string(sums.m) + " x " + std::to_string(sums.n) + " over " +
                   std::to_string(sums.rows) + ", " + std::to_string(threads) + " threads");
      const auto backend = make_cpu_backend({.threads = threads, .profile = default_profile()});
      const Shape a = {sums.rows, sums.m};
      const Shape b = {sums.rows, sums.n};
      const Shape sum = {sums.m, sums.n};
      const Graph graph = graph_of({"matmul_accumulate",
                                    {f32(sum), f32(a), f32(b)},
                                    {{"transpose_a", true}, {"transpose_b", false}}});
      const NodeSpec spec = spec_of(graph, NodeId(0));
      const KernelChoice choice = backend->select(spec);
      ASSERT_GE(choice.fused.most, sums.count);
      const auto drawn = [](const Shape& shape, uint64_t stream) {
        const std::vector<double> values = draw(f32(shape), stream);
        return std::vector<float>(values.begin(), values.end());
      };
      std::vector<float> apart = drawn(sum, 1);
      std::vector<float> together = apart;
      std::vector<std::vector<float>> operands;
      std::vector<std::byte> scratch(
          static_cast<size_t>(std::max(choice.scratch_bytes, choice.fused.scratch_bytes) + 64));
      void* aligned = scratch.data();
      size_t room = scratch.size();
      auto* const at = static_cast<std::byte*>(std::align(64, room - 64, aligned, room));
      const auto bytes = [](std::vector<float>& values) {
        return reinterpret_cast<std::byte*>(values.data());
      };
      for (int32_t i = 0; i < 2 * sums.count; ++i)
        operands.push_back(drawn(i % 2 == 0 ? a : b, 10 + static_cast<uint64_t>(i)));
      const auto one = backend->create(spec);
      std::vector<const std::byte*> inputs;
      for (int32_t i = 0; i < sums.count; ++i) {
        const size_t first = 2 * static_cast<size_t>(i);
        const std::byte* of_one[] = {bytes(apart), bytes(operands[first]),
                                     bytes(operands[first + 1])};
        std::byte* out[] = {bytes(apart)};
        ASSERT_EQ(one->run({.inputs = of_one, .outputs = out, .scratch = at}), ErrorCode::ok);
        inputs.insert(inputs.end(), {bytes(together), of_one[1], of_one[2]});
      }
      const std::vector<std::byte*> outputs(static_cast<size_t>(sums.count), bytes(together));
      const auto all = backend->create_fused(spec, sums.count);
      ASSERT_EQ(all->run({.inputs = inputs, .outputs = outputs, .scratch = at}), ErrorCode::ok);
      EXPECT_EQ(std::memcmp(apart.data(), together.data(), apart.size() * sizeof(float)), 0);
    }
  }
}

Attrs in_f32(Attrs attrs) {
  attrs.set("to", "f32");
  return attrs;
}

// The planner takes it that shorter rows fit where the longest do.
TEST(CpuBackend, Gradients_of_wide_weights_over_fewer_rows_need_no_more_scratch) {
  const auto backend = make_cpu_backend({.threads = 2, .profile = default_profile()});
  const Attrs of_weights = in_f32(sides(true, false));
  for (const DType dtype : {DType::f32, DType::bf16}) {
    for (const int64_t m : {64, 128, 300, 768}) {
      for (const int64_t n : {64, 768, 1500, 3072}) {
        int64_t before = 0;
        for (const int64_t k : {16, 48, 96, 128, 192, 248, 256, 320, 512, 1024, 2048}) {
          const Operand a{.type = {dtype, {k, m}}};
          const Operand b{.type = {dtype, {k, n}}};
          const Graph graph = graph_of({"matmul", {a, b, absent()}, of_weights});
          const int64_t scratch = backend->select(spec_of(graph, NodeId(0))).scratch_bytes;
          EXPECT_GE(scratch, before) << to_string(dtype) << " " << m << " x " << n << " over " << k;
          before = scratch;
        }
      }
    }
  }
}

// Small integers: every sum is exact.
Operand half(Shape shape) {
  return {.type = {DType::bf16, std::move(shape)}, .low = -3, .high = 3};
}
std::string kernel_of(Shape a, Shape b, const Attrs& attrs) {
  const auto backend = make_cpu_backend({.threads = 2, .profile = default_profile()});
  const Graph graph =
      graph_of({"matmul", {half(std::move(a)), half(std::move(b)), absent()}, attrs});
  return backend->select(spec_of(graph, NodeId(0))).kernel;
}
void expect_kernel_and_reference(const Case& c, const std::string& kernel) {
  const Outcome outcome = run_on_cpu(c, 2);
  EXPECT_EQ(outcome.kernel, kernel);
  EXPECT_EQ(outcome.code, ErrorCode::ok);
  expect_close_to_reference(c, outcome);
}

TEST(CpuBackend, Products_of_many_rows_of_bf16_are_our_own_on_tiles) {
  if (!has_bf16_tiles()) GTEST_SKIP() << "this processor has none";
  const Attrs of_weights = in_f32(sides(true, false));
  EXPECT_EQ(kernel_of({2048, 768}, {3072, 768}, sides(false, true)), "amx:matmul");
  EXPECT_EQ(kernel_of({2048, 3072}, {3072, 768}, {}), "amx:matmul");
  EXPECT_EQ(kernel_of({2048, 768}, {2048, 3072}, of_weights), "amx:matmul");
  // Too few rows, of dst or summed; a dst that cannot hold so long a sum; a product a batch
  // element.
  EXPECT_EQ(kernel_of({32, 768}, {768, 3072}, {}), "onednn:matmul");
  EXPECT_EQ(kernel_of({128, 768}, {128, 3072}, of_weights), "onednn:matmul");
  EXPECT_EQ(kernel_of({4096, 768}, {4096, 3072}, sides(true, false)), "onednn:matmul");
  EXPECT_EQ(kernel_of({512, 9000}, {9000, 64}, {}), "onednn:matmul_packed");
  EXPECT_EQ(kernel_of({2, 512, 64}, {2, 64, 64}, {}), "onednn:matmul");
  const Attrs forward = in_f32(sides(false, true));
  const Case cases[] = {
      {"matmul", {half({300, 66}), half({50, 66}), f32({50})}, forward},
      {"matmul", {half({300, 66}), half({66, 50}), absent()}, {{"to", std::string("f32")}}},
      {"matmul", {half({2100, 66}), half({2100, 50}), absent()}, of_weights},
      {"matmul_accumulate", {f32({66, 50}), half({515, 66}), half({515, 50})}, sides(true, false)}};
  for (const Case& c : cases) expect_kernel_and_reference(c, "amx:matmul");
}

TEST(CpuBackend, Gradients_of_weights_in_bf16_are_products_of_pairs_without_tiles) {
  if (!has_bf16_products() || has_bf16_tiles()) GTEST_SKIP() << "pairs are not the fastest here";
  const Attrs of_weights = in_f32(sides(true, false));
  EXPECT_EQ(kernel_of({4096, 768}, {4096, 3072}, of_weights), "simd:matmul_pairs");
  EXPECT_EQ(kernel_of({4096, 768}, {768, 3072}, {}), "onednn:matmul_packed");
  // A product a batch element; a dst of 16 bits; weights that are too narrow, or for so few rows.
  EXPECT_EQ(kernel_of({2, 4096, 768}, {2, 4096, 768}, of_weights), "onednn:matmul");
  EXPECT_EQ(kernel_of({4096, 768}, {4096, 768}, sides(true, false)), "onednn:matmul");
  EXPECT_EQ(kernel_of({4096, 768}, {4096, 2}, of_weights), "onednn:matmul");
  EXPECT_EQ(kernel_of({512, 768}, {512, 768}, of_weights), "onednn:matmul");
  const Case cases[] = {{"matmul", {half({4099, 768}), half({4099, 769}), absent()}, of_weights},
                        {"matmul_accumulate",
                         {f32({768, 768}), half({2048, 768}), half({2048, 768})},
                         sides(true, false)}};
  for (const Case& c : cases) expect_kernel_and_reference(c, "simd:matmul_pairs");
}

TEST(CpuBackend, An_op_without_a_kernel_is_unsupported) {
  const Graph graph = graph_of({"sum_squares", {f32({3})}});
  const OpDef foreign{.name = "foreign",
                      .inputs = std::vector<InputSpec>{"x"},
                      .is_variadic = false,
                      .outputs = std::vector<std::string>{"y"},
                      .attrs = std::vector<AttrSpec>{},
                      .infer = *graph.node(NodeId(0)).op->infer,
                      .gradient = not_differentiable("test"),
                      .keeps = Keeps{},
                      .cost = *graph.node(NodeId(0)).op->cost,
                      .alias = never_in_place()};
  NodeSpec spec = spec_of(graph, NodeId(0));
  spec.op = &foreign;
  const auto backend = make_cpu_backend({.threads = 1, .profile = default_profile()});
  try {
    (void)backend->select(spec);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_NE(std::string(error.what()).find("no CPU kernel takes foreign(f32[3])"),
              std::string::npos)
        << error.what();
  }
}

}  // namespace
}  // namespace snug

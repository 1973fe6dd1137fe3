// SPDX-License-Identifier: Apache-2.0
// What a kernel allocates while it runs: nothing of ours; of oneDNN a bounded number of small
// blocks, the same at every call, all freed.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>

#include "backend/cpu/allocation_testing.h"
#include "backend/cpu/cpu_backend.h"
#include "graph/builder.h"
#include "ops/registry.h"

namespace snug {
namespace {

// Runs a node `runs` times after a first run that is not counted (OpenMP starts its workers there).
Allocations count_runs(const std::string& op, const std::vector<TensorType>& inputs,
                       const Attrs& attrs, int runs) {
  GraphBuilder builder(op_registry(), "case");
  std::vector<ValueId> values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    values.push_back(
        inputs[i].shape == Shape{-1} ? kNone : builder.state("x" + std::to_string(i), inputs[i]));
  }
  builder.op(op, values, attrs);
  const auto backend = make_cpu_backend({.threads = 2, .profile = default_profile()});
  const NodeSpec spec = spec_of(builder.graph(), NodeId(0));
  const KernelChoice choice = backend->select(spec);
  const auto kernel = backend->create(spec);
  std::vector<std::byte*> memory;
  const auto allocate = [&](int64_t bytes) {
    memory.push_back(static_cast<std::byte*>(
        std::aligned_alloc(64, static_cast<size_t>((bytes + 64) / 64 * 64))));
    std::memset(memory.back(), 0, static_cast<size_t>(bytes));
    return memory.back();
  };
  std::vector<const std::byte*> in;
  std::vector<std::byte*> out;
  for (size_t i = 0; i < inputs.size(); ++i)
    in.push_back(values[i] == kNone ? nullptr : allocate(byte_count(inputs[i])));
  for (const TensorType& type : spec.outputs) out.push_back(allocate(byte_count(type)));
  const Launch launch{.inputs = in, .outputs = out, .scratch = allocate(choice.scratch_bytes)};
  EXPECT_EQ(kernel->run(launch), ErrorCode::ok);
  const Allocations counted = count_allocations([&] {
    for (int i = 0; i < runs; ++i) (void)kernel->run(launch);
  });
  for (std::byte* block : memory) std::free(block);
  return counted;
}

TensorType f32(Shape shape) { return {DType::f32, std::move(shape)}; }
TensorType absent() { return {DType::i32, {-1}}; }

TEST(Allocations, The_counter_sees_a_block) {
  void* volatile block = nullptr;
  const Allocations counted = count_allocations([&] { block = std::malloc(100); });
  EXPECT_EQ(counted.blocks, 1);
  EXPECT_EQ(counted.bytes, 100);
  EXPECT_EQ(counted.largest_bytes, 100);
  EXPECT_EQ(counted.left_over, 1);
  std::free(block);
}

TEST(Allocations, A_product_costs_a_few_small_blocks_of_oneDNN_and_keeps_none) {
  struct Product {
    const char* op;
    std::vector<TensorType> inputs;
    Attrs attrs;
  };
  const Product products[] = {
      {"matmul", {f32({256, 192}), f32({128, 192}), f32({128})}, {{"transpose_b", true}}},
      {"matmul", {f32({256, 64}), f32({64, 1536}), absent()}, {}},  // packed
      {"matmul",
       {f32({512, 64}), f32({512, 1536}), absent()},
       {{"transpose_a", true}}},  // transposed
      {"matmul", {f32({6, 32, 16}), f32({6, 16, 32}), absent()}, {}},
      {"matmul_accumulate",
       {f32({64, 128}), f32({512, 64}), f32({512, 128})},
       {{"transpose_a", true}}},
  };
  for (const Product& product : products) {
    const Allocations one = count_runs(product.op, product.inputs, product.attrs, 1);
    const Allocations ten = count_runs(product.op, product.inputs, product.attrs, 10);
    EXPECT_EQ(ten.blocks, 10 * one.blocks);
    EXPECT_LE(one.blocks, 24);
    EXPECT_LE(one.largest_bytes, 4096);
    EXPECT_EQ(ten.left_over, 0);
  }
}

TEST(Allocations, Own_kernels_allocate_nothing) {
  const TensorType w = f32({30000});
  const std::vector<int64_t> rows = {0};
  const std::vector<int64_t> swap = {1, 0};
  EXPECT_EQ(count_runs("transpose", {f32({300, 200})}, {{"perm", swap}}, 3).blocks, 0);
  EXPECT_EQ(count_runs("reduce_sum", {f32({2048, 100})}, {{"axes", rows}}, 3).blocks, 0);
  EXPECT_EQ(count_runs("sum_squares", {w}, {}, 3).blocks, 0);
  EXPECT_EQ(count_runs("concat", {w, w}, {{"axis", int64_t{0}}}, 3).blocks, 0);
  EXPECT_EQ(count_runs("embedding", {f32({9, 1000}), {DType::i32, {40}}}, {}, 3).blocks, 0);
  EXPECT_EQ(count_runs("embedding_grad_accumulate",
                       {f32({9, 1000}), {DType::i32, {40}}, f32({40, 1000})}, {}, 3)
                .blocks,
            0);
  EXPECT_EQ(count_runs("embedding_grad_rows", {{DType::i32, {40}}, f32({40, 1000})},
                       {{"rows", int64_t{99}}}, 3)
                .blocks,
            0);
  const TensorType ids = {DType::i32, {20, 40}};
  EXPECT_EQ(count_runs("embedding_sum", {f32({9, 1000}), ids, f32({20, 40})}, {}, 3).blocks, 0);
  EXPECT_EQ(count_runs("embedding_sum_grad_accumulate",
                       {f32({9, 1000}), ids, f32({20, 40}), f32({20, 1000})}, {}, 3)
                .blocks,
            0);
  EXPECT_EQ(count_runs("accumulate", {w, w}, {}, 3).blocks, 0);
  EXPECT_EQ(count_runs("adamw", {w, w, w, w, absent(), f32({4}), absent(), absent()},
                       {{"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-8}, {"weight_decay", 0.0}}, 3)
                .blocks,
            0);
}

}  // namespace
}  // namespace snug

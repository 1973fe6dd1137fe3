// SPDX-License-Identifier: Apache-2.0
// What a kernel allocates while it runs: nothing of ours; of oneDNN a bounded number of small
// blocks, the same at every call, all freed. Counts by standing in for malloc, so it is not built
// with sanitizers.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "backend/cpu/cpu_backend.h"
#include "graph/builder.h"
#include "ops/registry.h"

namespace {
std::atomic<bool> is_counting{false};
std::atomic<int64_t> blocks{0};
std::atomic<int64_t> largest_bytes{0};
std::atomic<int64_t> live_blocks{0};

void count_block(size_t bytes) {
  if (!is_counting) return;
  ++blocks;
  ++live_blocks;
  auto size = static_cast<int64_t>(bytes);
  int64_t seen = largest_bytes;
  while (size > seen && !largest_bytes.compare_exchange_weak(seen, size)) {
  }
}
}  // namespace

extern "C" {
void* __libc_malloc(size_t bytes);  // NOLINT(bugprone-reserved-identifier): glibc's own
void* __libc_memalign(size_t alignment, size_t bytes);  // NOLINT(bugprone-reserved-identifier)
void* __libc_calloc(size_t count, size_t bytes);        // NOLINT(bugprone-reserved-identifier)
void* __libc_realloc(void* block, size_t bytes);        // NOLINT(bugprone-reserved-identifier)
void __libc_free(void* block);                          // NOLINT(bugprone-reserved-identifier)

void* malloc(size_t bytes) {
  count_block(bytes);
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  count_block(count * bytes);
  return __libc_calloc(count, bytes);
}
void* realloc(void* block, size_t bytes) {
  if (block == nullptr) count_block(bytes);
  return __libc_realloc(block, bytes);
}
int posix_memalign(void** block, size_t alignment, size_t bytes) {
  count_block(bytes);
  *block = __libc_memalign(alignment, bytes);
  return *block == nullptr ? ENOMEM : 0;
}
void* aligned_alloc(size_t alignment, size_t bytes) {
  count_block(bytes);
  return __libc_memalign(alignment, bytes);
}
void free(void* block) {
  if (is_counting && block != nullptr) --live_blocks;
  __libc_free(block);
}
}

namespace snug {
namespace {

struct Counted {
  int64_t blocks = 0;
  int64_t largest_bytes = 0;
  int64_t left_over = 0;
};

// Runs a node `runs` times after a first run that is not counted (OpenMP starts its workers there).
Counted count_runs(const std::string& op, const std::vector<TensorType>& inputs, const Attrs& attrs,
                   int runs) {
  GraphBuilder builder(op_registry(), "case");
  std::vector<ValueId> values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    values.push_back(
        inputs[i].shape == Shape{-1} ? kNone : builder.state("x" + std::to_string(i), inputs[i]));
  }
  builder.op(op, values, attrs);
  const auto backend = make_cpu_backend({.threads = 2, .profile = default_profile()});
  const NodeSpec spec = spec_of(builder.graph(), 0);
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
  blocks = largest_bytes = live_blocks = 0;
  is_counting = true;
  for (int i = 0; i < runs; ++i) (void)kernel->run(launch);
  is_counting = false;
  const Counted counted{.blocks = blocks, .largest_bytes = largest_bytes, .left_over = live_blocks};
  for (std::byte* block : memory) std::free(block);
  return counted;
}

TensorType f32(Shape shape) { return {DType::f32, std::move(shape)}; }
TensorType absent() { return {DType::i32, {-1}}; }

TEST(Allocations, The_counter_sees_a_block) {
  blocks = live_blocks = largest_bytes = 0;
  is_counting = true;
  void* volatile block = std::malloc(100);
  is_counting = false;
  EXPECT_EQ(blocks, 1);
  EXPECT_EQ(largest_bytes, 100);
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
    const Counted one = count_runs(product.op, product.inputs, product.attrs, 1);
    const Counted ten = count_runs(product.op, product.inputs, product.attrs, 10);
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
  EXPECT_EQ(count_runs("accumulate", {w, w}, {}, 3).blocks, 0);
  EXPECT_EQ(count_runs("adamw", {w, w, w, w, f32({4}), absent()},
                       {{"beta1", 0.9}, {"beta2", 0.999}, {"eps", 1e-8}, {"weight_decay", 0.0}}, 3)
                .blocks,
            0);
}

}  // namespace
}  // namespace snug

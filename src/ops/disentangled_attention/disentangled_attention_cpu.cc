// SPDX-License-Identifier: Apache-2.0
// CPU kernel of disentangled_attention. A unit of work is a block of queries of one head of one
// sample; it is computed by one thread, so bits do not depend on their number.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/disentangled_attention/disentangled_attention_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "ops/attention/attention_unit-inl.h"
#include "ops/disentangled_attention/disentangled_attention_launch_cpu.h"
#include "ops/disentangled_attention/relative_scores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

void disentangled_unit(const RelativeShape& shape, const AttentionData& data,
                       const RelativeTables& tables, int64_t sample, int64_t head, int64_t first,
                       int64_t count, float* memory) {
  const AttentionBlocks blocks = relative_forward_blocks(shape.pairs);
  const ForwardScratch scratch(shape.pairs, blocks, memory);
  AttentionScratch rest(memory + scratch.floats);
  const TableScratch table_scratch(shape, blocks, rest);
  RelativeScores scores(shape.pairs, blocks, tables, table_scratch);
  const int64_t next =
      count == shape.pairs.tokens ? next_head_offset(shape.pairs, sample, head) : -1;
  run_attention_unit(shape.pairs, scratch, data, sample, head, first, count, next, scores);
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/kernel.h"
#include "base/threads.h"

namespace snug {

HWY_EXPORT(disentangled_unit);

namespace {

constexpr size_t kTables = 3;

// Units of work: blocks of queries of every head.
int64_t query_blocks(const RelativeShape& shape) {
  if (shape.pairs.tokens == 0) return 0;
  const int64_t queries = relative_forward_blocks(shape.pairs).queries;
  return (shape.pairs.tokens + queries - 1) / queries;
}

// Scratch of one thread; in 16 bits with copies of q and o of one unit, and of k, v and the tables
// of its head.
int64_t unit_floats(const RelativeShape& shape) {
  const AttentionBlocks blocks = relative_forward_blocks(shape.pairs);
  AttentionScratch part(nullptr);
  (void)part.take(ForwardScratch(shape.pairs, blocks, nullptr).floats);
  const TableScratch tables(shape, blocks, part);
  if (shape.dtype != DType::f32) {
    (void)part.take(copied_floats(shape.pairs, 4));
    for (int i = 0; i < 2; ++i) (void)part.take(shape.table_rows * shape.pairs.columns);
  }
  return part.used_floats();
}

int64_t forward_scratch(const NodeSpec& spec, const CpuContext& context) {
  const RelativeShape shape = relative_shape(spec, kTables);
  const int64_t units = shape.pairs.samples * shape.pairs.heads * query_blocks(shape);
  const int64_t floats =
      relative_row_floats(shape) + parallel_parts(context.threads, units, 1) * unit_floats(shape);
  return floats * static_cast<int64_t>(sizeof(float));
}

using Unit = decltype(&HWY_STATIC_DISPATCH(disentangled_unit));

struct Place {
  int64_t sample;
  int64_t head;
  int64_t first;
  int64_t count;
};

void run_f32(const RelativeShape& shape, Unit unit, const Launch& launch, const int32_t* row_of,
             const Place& at, float* memory) {
  const AttentionData data{.q = input<float>(launch, 0),
                           .k = input<float>(launch, 1),
                           .v = input<float>(launch, 2),
                           .mask = input<uint8_t>(launch, kTables + 2),
                           .rng = input<int64_t>(launch, kTables + 3),
                           .dst = output<float>(launch, 0),
                           .dst_lse = output<float>(launch, 1)};
  const RelativeTables tables = relative_tables(shape, at.head, input<float>(launch, kTables),
                                                input<float>(launch, kTables + 1), row_of);
  unit(shape, data, tables, at.sample, at.head, at.first, at.count, memory);
}

// Rows in 16 bits: a unit works on copies of its head.
void run_half(const RelativeShape& shape, Unit unit, const Launch& launch, const int32_t* row_of,
              const Place& at, float* memory) {
  HeadCopies copies(shape.pairs, shape.dtype, memory);
  const float* q = copies.read(launch.inputs[0], at.sample, at.head, at.first, at.count);
  const float* k = copies.read(launch.inputs[1], at.sample, at.head, 0, shape.pairs.tokens);
  const float* v = copies.read(launch.inputs[2], at.sample, at.head, 0, shape.pairs.tokens);
  float* o = copies.take(at.count);
  const RelativeTables tables = copied_tables(shape, at.head, launch, kTables, row_of, copies);
  // Units name their rows from the first of the head on.
  const int64_t skipped = at.first * shape.pairs.columns;
  const AttentionData data{.q = q - skipped,
                           .k = k,
                           .v = v,
                           .mask = input<uint8_t>(launch, kTables + 2),
                           .rng = input<int64_t>(launch, kTables + 3),
                           .dst = o - skipped,
                           .dst_lse = output<float>(launch, 1)};
  unit(shape, data, tables, at.sample, at.head, at.first, at.count, copies.rest());
  copies.write(o, launch.outputs[0], at.sample, at.head, at.first, at.count);
}

std::unique_ptr<Kernel> create_forward(const NodeSpec& spec, const CpuContext& context) {
  const RelativeShape shape = relative_shape(spec, kTables);
  const int64_t blocks = query_blocks(shape);
  const int64_t queries = relative_forward_blocks(shape.pairs).queries;
  const int64_t floats = unit_floats(shape);
  const auto unit_fn = HWY_DYNAMIC_DISPATCH(disentangled_unit);
  const auto run_unit = shape.dtype == DType::f32 ? run_f32 : run_half;
  return make_kernel([=, threads = context.threads](const Launch& launch) {
    auto* scratch = scratch_at<float>(launch);
    const int32_t* row_of = put_relative_rows(shape, scratch);
    float* memory = scratch + relative_row_floats(shape);
    parallel_parts_for(threads, shape.pairs.samples * shape.pairs.heads * blocks, 1,
                       [&](int part, int64_t begin, int64_t end) {
                         for (int64_t unit = begin; unit < end; ++unit) {
                           const int64_t head = unit / blocks;
                           const int64_t first = unit % blocks * queries;
                           run_unit(shape, unit_fn, launch, row_of,
                                    {head / shape.pairs.heads, head % shape.pairs.heads, first,
                                     std::min(queries, shape.pairs.tokens - first)},
                                    memory + part * floats);
                         }
                       });
    return ErrorCode::ok;
  });
}

}  // namespace

std::span<const CpuKernelDef> disentangled_attention_cpu_kernels() {
  static const CpuKernelDef kernels[] = {
      {"disentangled_attention", "simd:disentangled_attention",
       "f32 f32 f32 f32 f32 bool i64 -> f32 f32", always, forward_scratch, create_forward},
      {"disentangled_attention", "simd:disentangled_attention_bf16",
       "bf16 bf16 bf16 bf16 bf16 bool i64 -> bf16 f32", always, forward_scratch, create_forward},
      {"disentangled_attention", "simd:disentangled_attention_f16",
       "f16 f16 f16 f16 f16 bool i64 -> f16 f32", always, forward_scratch, create_forward},
      {"disentangled_attention_grad", "simd:disentangled_attention_grad",
       "f32 f32 f32 f32 f32 f32 f32 f32 bool i64 -> f32 f32 f32 f32 f32", always,
       disentangled_grad_scratch, create_disentangled_grad},
      {"disentangled_attention_grad", "simd:disentangled_attention_grad_bf16",
       "bf16 bf16 bf16 bf16 f32 bf16 bf16 bf16 bool i64 -> bf16 bf16 bf16 f32 f32", always,
       disentangled_grad_scratch, create_disentangled_grad},
      {"disentangled_attention_grad", "simd:disentangled_attention_grad_f16",
       "f16 f16 f16 f16 f32 f16 f16 f16 bool i64 -> f16 f16 f16 f32 f32", always,
       disentangled_grad_scratch, create_disentangled_grad},
  };
  return kernels;
}

}  // namespace snug
#endif  // HWY_ONCE

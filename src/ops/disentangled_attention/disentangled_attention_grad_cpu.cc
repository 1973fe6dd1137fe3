// SPDX-License-Identifier: Apache-2.0
// CPU kernel of disentangled_attention_grad. A unit of work is one head of all samples in their
// order: the gradients of tables are sums over samples, without atomics, whose bits do not depend
// on the number of threads.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/disentangled_attention/disentangled_attention_grad_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"
#include "ops/attention/attention_grad_unit-inl.h"
#include "ops/disentangled_attention/disentangled_attention_launch_cpu.h"
#include "ops/disentangled_attention/relative_scores-inl.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

// One sample of a head; the sums over samples stay in memory between them.
void disentangled_grad_unit(const RelativeShape& shape, const AttentionData& data,
                            const RelativeTables& tables, int64_t sample, int64_t head,
                            float* memory) {
  const AttentionBlocks blocks = relative_grad_blocks(shape.pairs);
  const GradScratch scratch(shape.pairs, blocks, memory);
  AttentionScratch rest(memory + scratch.floats);
  const TableGradScratch table_scratch(shape, blocks, rest);
  RelativeGradients gradients(shape.pairs, blocks, tables, table_scratch);
  const bool is_last = sample + 1 == shape.pairs.samples;
  constexpr int64_t kNoNext = -1;  // the second-level cache is full
  if (sample == 0) gradients.clear_sums(shape.table_rows);
  run_attention_grad_unit(shape.pairs, scratch, data, sample, head, kNoNext, gradients);
  if (is_last) gradients.write_sums(shape.table_rows);
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/kernel.h"
#include "base/threads.h"

namespace snug {

HWY_EXPORT(disentangled_grad_unit);

namespace {

constexpr size_t kTables = 6;

int64_t unit_floats(const RelativeShape& shape) {
  const AttentionBlocks blocks = relative_grad_blocks(shape.pairs);
  AttentionScratch part(nullptr);
  (void)part.take(GradScratch(shape.pairs, blocks, nullptr).floats);
  const TableGradScratch tables(shape, blocks, part);
  return part.used_floats();
}
// In 16 bits: the tables of a head and eight tensors of a sample.
int64_t copy_floats(const RelativeShape& shape) {
  if (shape.dtype == DType::f32) return 0;
  return copied_floats(shape.pairs, 8) +
         2 * round_up(shape.table_rows * shape.pairs.columns, kAttentionPad);
}

using Unit = decltype(&HWY_STATIC_DISPATCH(disentangled_grad_unit));

void run_f32(const RelativeShape& shape, Unit unit, const Launch& launch, RelativeTables tables,
             int64_t sample, int64_t head, float* memory) {
  const AttentionData data = grad_data(launch, kTables + 2);
  unit(shape, data, tables, sample, head, memory);
}

void run_half(const RelativeShape& shape, Unit unit, const Launch& launch, RelativeTables tables,
              int64_t sample, int64_t head, HeadCopies copies, float* memory) {
  const int64_t tokens = shape.pairs.tokens;
  const AttentionData data = copied_grad_data(launch, kTables + 2, copies, sample, head, tokens);
  unit(shape, data, tables, sample, head, memory);
  write_grad(data, launch, copies, sample, head, tokens);
}

}  // namespace

int64_t disentangled_grad_scratch(const NodeSpec& spec, const CpuContext& context) {
  const RelativeShape shape = relative_shape(spec, kTables);
  const int64_t parts = parallel_parts(context.threads, shape.pairs.heads, 1);
  const int64_t floats =
      relative_row_floats(shape) + parts * (unit_floats(shape) + copy_floats(shape));
  return floats * static_cast<int64_t>(sizeof(float));
}

std::unique_ptr<Kernel> create_disentangled_grad(const NodeSpec& spec, const CpuContext& context) {
  const RelativeShape shape = relative_shape(spec, kTables);
  const int64_t floats = unit_floats(shape);
  const int64_t part_floats = floats + copy_floats(shape);
  const auto unit_fn = HWY_DYNAMIC_DISPATCH(disentangled_grad_unit);
  return make_kernel([=, threads = context.threads](const Launch& launch) {
    auto* scratch = scratch_at<float>(launch);
    const int32_t* row_of = put_relative_rows(shape, scratch);
    if (shape.pairs.samples == 0) {
      const int64_t in_table = shape.table_rows * shape.pairs.width();
      if (shape.has_pos_key) std::fill_n(output<float>(launch, 3), in_table, 0.0F);
      if (shape.has_pos_query) std::fill_n(output<float>(launch, 4), in_table, 0.0F);
      return ErrorCode::ok;
    }
    const auto run_head = [&](int64_t head, float* memory) {
      const bool is_half = shape.dtype != DType::f32;
      HeadCopies copies(shape.pairs, shape.dtype, memory + floats);
      RelativeTables tables = is_half ? copied_tables(shape, head, launch, kTables, row_of, copies)
                                      : relative_tables(shape, head, input<float>(launch, kTables),
                                                        input<float>(launch, kTables + 1), row_of);
      const int64_t offset = head * shape.pairs.columns;
      if (shape.has_pos_key) tables.diff_pos_key = output<float>(launch, 3) + offset;
      if (shape.has_pos_query) tables.diff_pos_query = output<float>(launch, 4) + offset;
      tables.diff_stride = shape.pairs.width();
      for (int64_t sample = 0; sample < shape.pairs.samples; ++sample) {
        if (is_half) {
          run_half(shape, unit_fn, launch, tables, sample, head, copies, memory);
        } else {
          run_f32(shape, unit_fn, launch, tables, sample, head, memory);
        }
      }
    };
    parallel_parts_for(threads, shape.pairs.heads, 1, [&](int part, int64_t begin, int64_t end) {
      for (int64_t head = begin; head < end; ++head)
        run_head(head, scratch + relative_row_floats(shape) + part * part_floats);
    });
    return ErrorCode::ok;
  });
}

}  // namespace snug
#endif  // HWY_ONCE

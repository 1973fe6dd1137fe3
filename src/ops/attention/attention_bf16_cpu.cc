// SPDX-License-Identifier: Apache-2.0
// CPU kernel of attention in bf16 where the processor multiplies that; elsewhere attention_cpu.cc
// works on copies in f32, and attention_tiles_cpu.cc on tiles.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/attention/attention_bf16_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "ops/attention/attention_bf16_gemm-inl.h"
#include "ops/attention/attention_bf16_launch_cpu.h"
#include "ops/attention/attention_bf16_unit-inl.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

#if SNUG_BF16_TARGET

// Dot products of pairs on vectors.
struct VectorProducts {
  static constexpr int64_t kKeyPad = kAttentionPad;
  const AttentionShape& shape;
  const Bf16ForwardScratch& scratch;

  HWY_INLINE void pack_keys(const uint16_t* k, const uint16_t* v, int64_t stride,
                            int64_t keys) const {
    pack_pairs_transposed(k, stride, keys, shape.columns, scratch.keys);
    pack_row_pairs(v, stride, keys, shape.columns, scratch.values);
  }
  HWY_INLINE void put_scores(const uint16_t* q, int64_t stride, int64_t rows, int64_t keys) const {
    copy_rows(q, stride, rows, shape.columns, scratch.queries);
    multiply_pairs<false>(rows, keys, shape.columns,
                          {scratch.queries, scratch.blocks.packed_columns}, scratch.keys,
                          scratch.scores, scratch.blocks.score_stride, false);
  }
  HWY_INLINE void add_values(int64_t rows, int64_t keys, float* sums, bool accumulates) const {
    const PairOperand probabilities{reinterpret_cast<const uint16_t*>(scratch.scores),
                                    2 * scratch.blocks.score_stride};
    multiply_pairs<false>(rows, shape.columns, keys, probabilities, scratch.values, sums,
                          scratch.blocks.padded_columns, accumulates);
  }
};

SNUG_BF16_ATTR void bf16_attention_unit(const AttentionShape& shape, const AttentionBlocks& blocks,
                                        const Bf16AttentionData& data, int64_t sample, int64_t head,
                                        int64_t first, int64_t count, int64_t next, float* memory) {
  run_bf16_attention_unit<VectorProducts>(shape, Bf16ForwardScratch(blocks, memory), data, sample,
                                          head, first, count, next);
}
#endif

/// Null where the target has no such products.
Bf16AttentionUnit find_bf16_attention_unit() {
#if SNUG_BF16_TARGET
  return bf16_attention_unit;
#else
  return nullptr;
#endif
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/kernel.h"
#include "backend/cpu/onednn.h"
#include "base/threads.h"

namespace snug {

HWY_EXPORT(find_bf16_attention_unit);

std::string needs_bf16_products(const NodeSpec& /*spec*/, const CpuContext& /*context*/) {
  const bool has_them =
      has_bf16_products() && HWY_DYNAMIC_DISPATCH(find_bf16_attention_unit)() != nullptr;
  return has_them ? "" : "no bf16 instructions here";
}

int64_t bf16_attention_bytes(const NodeSpec& spec, const AttentionBlocks& blocks,
                             const CpuContext& context) {
  const AttentionShape shape = attention_shape(spec);
  const int64_t parts =
      parallel_parts(context.threads, shape.samples * shape.heads * query_blocks(shape), 1);
  return parts * Bf16ForwardScratch(blocks, nullptr).floats * static_cast<int64_t>(sizeof(float));
}

std::unique_ptr<Kernel> make_bf16_attention(const NodeSpec& spec, const AttentionBlocks& blocks,
                                            Bf16AttentionUnit unit_fn, const CpuContext& context) {
  const AttentionShape shape = attention_shape(spec);
  const int64_t units = query_blocks(shape);
  const int64_t scratch_floats = Bf16ForwardScratch(blocks, nullptr).floats;
  return make_kernel([=, threads = context.threads](const Launch& launch) {
    const Bf16AttentionData data{.q = input<uint16_t>(launch, 0),
                                 .k = input<uint16_t>(launch, 1),
                                 .v = input<uint16_t>(launch, 2),
                                 .mask = input<uint8_t>(launch, 3),
                                 .rng = input<int64_t>(launch, 4),
                                 .dst = output<uint16_t>(launch, 0),
                                 .dst_lse = output<float>(launch, 1)};
    auto* scratch = scratch_at<float>(launch);
    parallel_parts_for(
        threads, shape.samples * shape.heads * units, 1, [&](int part, int64_t begin, int64_t end) {
          for (int64_t unit = begin; unit < end; ++unit) {
            const int64_t sample = unit / units / shape.heads;
            const int64_t head = unit / units % shape.heads;
            const int64_t first = unit % units * blocks.queries;
            const int64_t next = units == 1 ? next_head_offset(shape, sample, head) : -1;
            unit_fn(shape, blocks, data, sample, head, first,
                    std::min(blocks.queries, shape.tokens - first), next,
                    scratch + part * scratch_floats);
          }
        });
    return ErrorCode::ok;
  });
}

int64_t bf16_attention_scratch(const NodeSpec& spec, const CpuContext& context) {
  return bf16_attention_bytes(spec, bf16_forward_blocks(attention_shape(spec)), context);
}

std::unique_ptr<Kernel> create_bf16_attention(const NodeSpec& spec, const CpuContext& context) {
  return make_bf16_attention(spec, bf16_forward_blocks(attention_shape(spec)),
                             HWY_DYNAMIC_DISPATCH(find_bf16_attention_unit)(), context);
}

}  // namespace snug
#endif  // HWY_ONCE

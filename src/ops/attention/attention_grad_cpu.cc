// SPDX-License-Identifier: Apache-2.0
// CPU kernel of attention_grad: probabilities are recomputed tile by tile from q, k and lse. A unit
// of work is one head of one sample, computed by one thread: dq, dk and dv are added up in one
// order, without atomics. Legend in attention_cpu.h.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/attention/attention_grad_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "backend/cpu/math-inl.h"
#include "backend/cpu/philox-inl.h"
#include "backend/cpu/rows-inl.h"
#include "ops/attention/attention.h"
#include "ops/attention/attention_cpu.h"
#include "ops/attention/attention_gemm-inl.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

// scores: S becomes dropout(P), P = exp(S - lse). diff_scores: dP becomes dS = P * (dropout'(dP) -
// delta). `factors` is what dropout multiplies by.
HWY_INLINE void grad_block_row(float* scores, float* diff_scores, const float* limits,
                               const float* factors, int64_t vectors, float lse, float delta) {
  const F32 d;
  const int64_t lanes = lanes_f32();
  const V32 shift = hn::Set(d, lse);
  const V32 center = hn::Set(d, delta);
  for (int64_t i = 0; i < vectors * lanes; i += lanes) {
    const V32 s = hn::Min(hn::LoadU(d, scores + i), hn::LoadU(d, limits + i));
    const V32 p = exp_flushed(hn::Sub(s, shift));
    const V32 factor = hn::LoadU(d, factors + i);
    hn::StoreU(hn::Mul(p, factor), d, scores + i);
    const V32 slope = hn::MulSub(hn::LoadU(d, diff_scores + i), factor, center);
    hn::StoreU(hn::Mul(p, slope), d, diff_scores + i);
  }
}

// What one unit works on.
struct GradUnit {
  const AttentionShape& shape;
  const AttentionData& data;
  const GradScratch& scratch;
  PhiloxRow random;
  int64_t base;  // of the head's first element
  int64_t lse_base;
  int64_t stride;  // of padded rows of D columns
  int64_t next;    // offset of the next head, or -1
};

// Rows of D padded columns to rows of the head: dst = scale * src, or += .
HWY_INLINE void put_rows(const GradUnit& unit, const float* src, float scale, int64_t rows,
                         float* dst, bool accumulates) {
  const V32 factor = constant(scale);
  for (int64_t i = 0; i < rows; ++i) {
    const float* from = src + i * unit.stride;
    float* to = dst + i * unit.shape.stride();
    if (accumulates) {
      map_vectors(to, from, to, unit.shape.columns,
                  [=](V32 v, V32 old) HWY_ATTR { return hn::MulAdd(v, factor, old); });
    } else {
      map_vectors(to, from, unit.shape.columns, [=](V32 v) HWY_ATTR { return hn::Mul(v, factor); });
    }
  }
}

// One token of the next head, of every operand and result.
HWY_INLINE void prefetch_grad_query(const AttentionShape& shape, const AttentionData& data,
                                    int64_t offset) {
  for (const float* operand : {data.q, data.k, data.v, data.o, data.diff_o})
    prefetch_row(operand + offset, shape.columns);
  for (float* result : {data.diff_q, data.diff_k, data.diff_v})
    prefetch_row(result + offset, shape.columns);
}

// All queries [first, first + rows) against the packed keys [key, key + keys).
HWY_NOINLINE void grad_tile(const GradUnit& unit, int64_t key, int64_t keys, bool is_first_key,
                            int64_t first, int64_t rows) {
  const AttentionShape& shape = unit.shape;
  const GradScratch& scratch = unit.scratch;
  const int64_t width = shape.stride();
  const int64_t at = unit.base + first * width;
  const int64_t score_stride = scratch.blocks.score_stride;
  const float* q = unit.data.q + at;
  const float* diff_o = unit.data.diff_o + at;
  if (is_first_key) {
    for (int64_t i = 0; i < rows; ++i) {
      scratch.delta[first + i] =
          sum_row(diff_o + i * width, unit.data.o + at + i * width, shape.columns,
                  [](V32 a, V32 b) HWY_ATTR { return hn::Mul(a, b); });
    }
  }
  pack_rows(q, width, rows, shape.columns, 1.0F, scratch.queries);
  pack_rows(diff_o, width, rows, shape.columns, 1.0F, scratch.diff_o);
  multiply_packed<false>(rows, keys, shape.columns, q, width, scratch.keys_transposed,
                         scratch.scores, score_stride, false);
  multiply_packed<false>(rows, keys, shape.columns, diff_o, width, scratch.values_transposed,
                         scratch.diff_scores, score_stride, false);
  const DropoutRule rule{shape.threshold, shape.keep_scale};
  for (int64_t i = 0; i < rows; ++i) {
    if (is_first_key && unit.next >= 0)
      prefetch_grad_query(shape, unit.data, unit.next + (first + i) * width);
    if (shape.has_dropout) {
      const auto counter = static_cast<uint64_t>(attention_quad(first + i, key));
      dropout_row(unit.random, rule, counter, scratch.ones, scratch.factors, keys);
    }
    grad_block_row(scratch.scores + i * score_stride, scratch.diff_scores + i * score_stride,
                   scratch.limits, shape.has_dropout ? scratch.factors : scratch.ones,
                   vectors_of(keys), unit.data.lse[unit.lse_base + first + i],
                   scratch.delta[first + i]);
  }
  const bool adds = first > 0;
  multiply_packed<true>(keys, shape.columns, rows, scratch.scores, score_stride, scratch.diff_o,
                        scratch.diff_v, unit.stride, adds);
  multiply_packed<true>(keys, shape.columns, rows, scratch.diff_scores, score_stride,
                        scratch.queries, scratch.diff_k, unit.stride, adds);
  multiply_packed<false>(rows, shape.columns, keys, scratch.diff_scores, score_stride, scratch.keys,
                         scratch.diff_q, unit.stride, false);
  put_rows(unit, scratch.diff_q, 1.0F, rows, unit.data.diff_q + at, !is_first_key);
}

HWY_INLINE void zero_rows(const GradUnit& unit, float* dst, int64_t begin, int64_t end) {
  for (int64_t row = begin; row < end; ++row) {
    std::fill_n(dst + unit.base + row * unit.shape.stride(), unit.shape.columns, 0.0F);
  }
}

void attention_grad_unit(const AttentionShape& shape, const AttentionData& data, int64_t sample,
                         int64_t head, float* memory) {
  const GradScratch scratch(shape, memory);
  const AttentionBlocks& blocks = scratch.blocks;
  const int64_t width = shape.stride();
  GradUnit unit{.shape = shape,
                .data = data,
                .scratch = scratch,
                .random = {},
                .base = shape.head_offset(sample, head),
                .lse_base = (sample * shape.heads + head) * shape.tokens,
                .stride = vectors_of(shape.columns) * lanes_f32(),
                .next = next_head_offset(shape, sample, head)};
  if (shape.has_dropout) {
    unit.random =
        philox_row(static_cast<uint64_t>(data.rng[0]), static_cast<uint32_t>(data.rng[2] + sample),
                   static_cast<uint32_t>(data.rng[1]),
                   static_cast<uint32_t>(attention_ordinal(shape.ordinal, head)));
  }
  // Lanes beyond the last key are masked by the limits, but must hold numbers.
  std::fill_n(scratch.ones, blocks.keys, 1.0F);
  std::fill_n(scratch.factors, blocks.keys, 0.0F);
  const uint8_t* mask = data.mask == nullptr ? nullptr : data.mask + sample * shape.tokens;
  const VisibleKeys visible = visible_keys(mask, shape.tokens);
  for (int64_t key = visible.begin; key < visible.end; key += blocks.keys) {
    const int64_t keys = std::min(blocks.keys, visible.end - key);
    const int64_t at = unit.base + key * width;
    fill_limits(mask == nullptr ? nullptr : mask + key, keys, scratch.limits);
    pack_transposed(data.k + at, width, keys, shape.columns, shape.scale, scratch.keys_transposed);
    pack_transposed(data.v + at, width, keys, shape.columns, 1.0F, scratch.values_transposed);
    pack_rows(data.k + at, width, keys, shape.columns, shape.scale, scratch.keys);
    for (int64_t first = 0; first < shape.tokens; first += blocks.queries) {
      grad_tile(unit, key, keys, key == visible.begin, first,
                std::min(blocks.queries, shape.tokens - first));
    }
    put_rows(unit, scratch.diff_k, shape.scale, keys, data.diff_k + at, false);
    put_rows(unit, scratch.diff_v, 1.0F, keys, data.diff_v + at, false);
  }
  for (float* dst : {data.diff_k, data.diff_v}) {
    zero_rows(unit, dst, 0, std::min(visible.begin, visible.end));
    zero_rows(unit, dst, visible.end, shape.tokens);
  }
  if (visible.begin >= visible.end) zero_rows(unit, data.diff_q, 0, shape.tokens);
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include "backend/cpu/kernel.h"
#include "base/threads.h"

namespace snug {

HWY_EXPORT(attention_grad_unit);

namespace {

// Of one thread: eight tensors of its head where they are in 16 bits.
int64_t grad_floats(const AttentionShape& shape, DType dtype) {
  const int64_t copies = dtype == DType::f32 ? 0 : copied_floats(shape, 8);
  return GradScratch(shape, nullptr).floats + copies;
}

}  // namespace

int64_t attention_grad_scratch(const NodeSpec& spec, const CpuContext& context) {
  const AttentionShape shape = attention_shape(spec);
  const int64_t parts = parallel_parts(context.threads, shape.samples * shape.heads, 1);
  return parts * grad_floats(shape, spec.inputs[0].dtype) * static_cast<int64_t>(sizeof(float));
}

std::unique_ptr<Kernel> create_half_attention_grad(const NodeSpec& spec,
                                                   const CpuContext& context) {
  AttentionShape shape = attention_shape(spec);
  const DType dtype = spec.inputs[0].dtype;
  const int64_t scratch_floats = grad_floats(shape, dtype);
  const auto unit_fn = HWY_DYNAMIC_DISPATCH(attention_grad_unit);
  shape.is_one_head = true;
  return make_kernel([=, threads = context.threads](const Launch& launch) {
    const auto run_unit = [&](int64_t sample, int64_t head, float* memory) {
      HeadCopies copies(shape, dtype, memory);
      const auto copy_of = [&](size_t i) {
        return copies.read(launch.inputs[i], sample, head, 0, shape.tokens);
      };
      const AttentionData data{.q = copy_of(0),
                               .k = copy_of(1),
                               .v = copy_of(2),
                               .o = copy_of(3),
                               .lse = input<float>(launch, 4),
                               .diff_o = copy_of(5),
                               .mask = input<uint8_t>(launch, 6),
                               .rng = input<int64_t>(launch, 7),
                               .diff_q = copies.take(shape.tokens),
                               .diff_k = copies.take(shape.tokens),
                               .diff_v = copies.take(shape.tokens)};
      unit_fn(shape, data, sample, head, copies.rest());
      copies.write(data.diff_q, launch.outputs[0], sample, head, 0, shape.tokens);
      copies.write(data.diff_k, launch.outputs[1], sample, head, 0, shape.tokens);
      copies.write(data.diff_v, launch.outputs[2], sample, head, 0, shape.tokens);
    };
    auto* scratch = scratch_at<float>(launch);
    parallel_parts_for(
        threads, shape.samples * shape.heads, 1, [&](int part, int64_t begin, int64_t end) {
          for (int64_t unit = begin; unit < end; ++unit)
            run_unit(unit / shape.heads, unit % shape.heads, scratch + part * scratch_floats);
        });
    return ErrorCode::ok;
  });
}

std::unique_ptr<Kernel> create_attention_grad(const NodeSpec& spec, const CpuContext& context) {
  const AttentionShape shape = attention_shape(spec);
  const int64_t scratch_floats = GradScratch(shape, nullptr).floats;
  const auto unit_fn = HWY_DYNAMIC_DISPATCH(attention_grad_unit);
  return make_kernel([=, threads = context.threads](const Launch& launch) {
    const AttentionData data{.q = input<float>(launch, 0),
                             .k = input<float>(launch, 1),
                             .v = input<float>(launch, 2),
                             .o = input<float>(launch, 3),
                             .lse = input<float>(launch, 4),
                             .diff_o = input<float>(launch, 5),
                             .mask = input<uint8_t>(launch, 6),
                             .rng = input<int64_t>(launch, 7),
                             .diff_q = output<float>(launch, 0),
                             .diff_k = output<float>(launch, 1),
                             .diff_v = output<float>(launch, 2)};
    auto* scratch = scratch_at<float>(launch);
    parallel_parts_for(threads, shape.samples * shape.heads, 1,
                       [&](int part, int64_t begin, int64_t end) {
                         for (int64_t unit = begin; unit < end; ++unit) {
                           unit_fn(shape, data, unit / shape.heads, unit % shape.heads,
                                   scratch + part * scratch_floats);
                         }
                       });
    return ErrorCode::ok;
  });
}

}  // namespace snug
#endif  // HWY_ONCE

// SPDX-License-Identifier: Apache-2.0
// Sums of rows by id, and their gradients. A sum stays in registers while its rows are read, each
// once; every element is added up in the order of the ids, whichever thread does it. The gradient
// of the table is shared out by columns, as that of the rows themselves (embedding_cpu.cc).
// Legend: V rows of the table, H columns, T ids a sum.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/embedding/embedding_sum_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "backend/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

// y[at...] of so many vectors; `tail` of the last one's elements, or -1.
template <int kVectors>
HWY_INLINE void sum_columns(const float* table, int64_t width, const int32_t* ids,
                            const float* weights, int64_t tokens, int64_t at, int64_t tail,
                            float* y) {
  const int64_t lanes = lanes_f32();
  V32 sum[kVectors];
  for (int k = 0; k < kVectors; ++k) sum[k] = hn::Zero(F32());
  for (int64_t t = 0; t < tokens; ++t) {
    if (weights[t] == 0) continue;
    const float* row = table + ids[t] * width + at;
    const V32 weight = hn::Set(F32(), weights[t]);
    for (int k = 0; k < kVectors; ++k)
      sum[k] = hn::MulAdd(weight, load_at(row, k * lanes, tail), sum[k]);
  }
  for (int k = 0; k < kVectors; ++k) store_at(sum[k], y + at, k * lanes, tail);
}

void embedding_sum_row(const float* table, int64_t width, const int32_t* ids, const float* weights,
                       int64_t tokens, int64_t begin, int64_t end, float* y) {
  const int64_t lanes = lanes_f32();
  int64_t at = begin;
  for (; at + 8 * lanes <= end; at += 8 * lanes)
    sum_columns<8>(table, width, ids, weights, tokens, at, -1, y);
  for (; at + 2 * lanes <= end; at += 2 * lanes)
    sum_columns<2>(table, width, ids, weights, tokens, at, -1, y);
  for (; at < end; at += lanes)
    sum_columns<1>(table, width, ids, weights, tokens, at, end - at < lanes ? end - at : -1, y);
}

// Columns [begin, end) of all rows that ids name. Rows lie anywhere: they are fetched some ids
// before they are added to.
void embedding_sum_add_rows(float* table, int64_t width, const int32_t* ids, const float* weights,
                            int64_t count, int64_t tokens, int64_t begin, int64_t end,
                            const float* dy) {
  constexpr int64_t kIdsAhead = 8;
  constexpr int64_t kLine = 16;  // floats
  for (int64_t i = 0; i < count; ++i) {
    if (i + kIdsAhead < count && weights[i + kIdsAhead] != 0) {
      const float* next = table + ids[i + kIdsAhead] * width;
      for (int64_t j = begin; j < end; j += kLine) hwy::Prefetch(next + j);
    }
    if (weights[i] == 0) continue;
    float* row = table + ids[i] * width + begin;
    const V32 weight = hn::Set(F32(), weights[i]);
    map_vectors(row, row, dy + i / tokens * width + begin, end - begin,
                [weight](V32 of_row, V32 slope)
                    HWY_ATTR { return hn::MulAdd(weight, slope, of_row); });
  }
}

void embedding_sum_dots(const float* table, int64_t width, const int32_t* ids, int64_t tokens,
                        const float* dy, float* products) {
  for (int64_t t = 0; t < tokens; ++t) {
    products[t] = sum_row(table + ids[t] * width, dy, width,
                          [](V32 row, V32 slope) HWY_ATTR { return hn::Mul(row, slope); });
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

#include "backend/cpu/kernel.h"
#include "ops/embedding/embedding_cpu.h"

namespace snug {
namespace {

HWY_EXPORT(embedding_sum_row);
HWY_EXPORT(embedding_sum_add_rows);
HWY_EXPORT(embedding_sum_dots);

constexpr int64_t kBlockColumns = 256;

struct Sums {
  Lookup lookup;
  int64_t count = 1;   // of sums
  int64_t tokens = 0;  // T
};

Sums sums_of(const TensorType& table, const TensorType& ids) {
  Sums sums{
      .lookup = {.rows = table.shape[0], .width = table.shape[1], .count = element_count(ids)},
      .tokens = ids.shape.back()};
  for (size_t axis = 0; axis + 1 < ids.shape.size(); ++axis) sums.count *= ids.shape[axis];
  return sums;
}

// To row rows[i] of the table for id i. Weights and dy are inputs of the launch, from `weights` on.
void add_gradient(int threads, const Sums& sums, const Launch& launch, const int32_t* rows,
                  size_t weights, float* table) {
  const auto add_rows = HWY_DYNAMIC_DISPATCH(embedding_sum_add_rows);
  const int64_t width = sums.lookup.width;
  const bool is_small = sums.lookup.count * width < kWorthAThreadElements;
  parallel_for(is_small ? 1 : threads, width, kCacheLineFloats, [&](int64_t begin, int64_t end) {
    add_rows(table, width, rows, input<float>(launch, weights), sums.lookup.count, sums.tokens,
             begin, end, input<float>(launch, weights + 1));
  });
}

// The rows of a row-sparse matrix that ids name, in scratch.
const int32_t* numbers_of(const Sums& sums, const int32_t* ids, const int32_t* row_of,
                          const Launch& launch) {
  auto* const numbers = scratch_at<int32_t>(launch);
  std::transform(ids, ids + sums.lookup.count, numbers, [&](int32_t id) { return row_of[id] - 1; });
  return numbers;
}

// How many sums, or products of so many ids, are worth a thread.
int64_t grain_of(const Sums& sums) {
  return 1 + kWorthAThreadElements / (sums.tokens * sums.lookup.width + 1);
}

}  // namespace

std::unique_ptr<Kernel> create_embedding_sum(const NodeSpec& spec, const CpuContext& context) {
  return make_kernel([sums = sums_of(spec.inputs[0], spec.inputs[1]),
                      threads = context.threads](const Launch& launch) {
    const auto* ids = input<int32_t>(launch, 1);
    if (!ids_are_valid(sums.lookup, ids)) return ErrorCode::bad_data;
    const auto sum_row = HWY_DYNAMIC_DISPATCH(embedding_sum_row);
    const int64_t width = sums.lookup.width;
    const int64_t blocks = (width + kBlockColumns - 1) / kBlockColumns;
    parallel_for(threads, sums.count * blocks, grain_of(sums), [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        const int64_t i = item / blocks;
        const int64_t first = item % blocks * kBlockColumns;
        sum_row(input<float>(launch, 0), width, ids + i * sums.tokens,
                input<float>(launch, 2) + i * sums.tokens, sums.tokens, first,
                std::min(width, first + kBlockColumns), output<float>(launch) + i * width);
      }
    });
    return ErrorCode::ok;
  });
}

std::unique_ptr<Kernel> create_embedding_sum_grad(const NodeSpec& spec, const CpuContext& context) {
  return make_kernel([sums = sums_of(spec.outputs[0], spec.inputs[0]),
                      threads = context.threads](const Launch& launch) {
    const auto* ids = input<int32_t>(launch, 0);
    if (!ids_are_valid(sums.lookup, ids)) return ErrorCode::bad_data;
    clear_rows(threads, sums.lookup.rows * sums.lookup.width, output<float>(launch));
    add_gradient(threads, sums, launch, ids, 1, output<float>(launch));
    return ErrorCode::ok;
  });
}

int64_t embedding_sum_grad_rows_scratch(const NodeSpec& spec, const CpuContext&) {
  return byte_count(spec.inputs[0]);
}

std::unique_ptr<Kernel> create_embedding_sum_grad_rows(const NodeSpec& spec,
                                                       const CpuContext& context) {
  const TensorType table{DType::f32, {spec.outputs[1].shape[0], spec.outputs[0].shape[1]}};
  return make_kernel(
      [sums = sums_of(table, spec.inputs[0]), threads = context.threads](const Launch& launch) {
        const auto* ids = input<int32_t>(launch, 0);
        auto* row_of = output<int32_t>(launch, 1);
        if (!ids_are_valid(sums.lookup, ids)) return ErrorCode::bad_data;
        std::fill_n(row_of, sums.lookup.rows, 0);
        (void)number_rows(sums.lookup, ids, 0, row_of);
        clear_rows(threads, sums.lookup.count * sums.lookup.width, output<float>(launch, 0));
        add_gradient(threads, sums, launch, numbers_of(sums, ids, row_of, launch), 1,
                     output<float>(launch, 0));
        return ErrorCode::ok;
      });
}

int64_t embedding_sum_grad_rows_accumulate_scratch(const NodeSpec& spec, const CpuContext&) {
  return byte_count(spec.inputs[kSumInputs]);
}

std::unique_ptr<Kernel> create_embedding_sum_grad_rows_accumulate(const NodeSpec& spec,
                                                                  const CpuContext& context) {
  const Shape& sum = spec.outputs[0].shape;
  const TensorType table{DType::f32, {spec.outputs[1].shape[0], sum[1]}};
  return make_kernel([sums = sums_of(table, spec.inputs[kSumInputs]), rows = sum[0],
                      threads = context.threads](const Launch& launch) {
    const auto* ids = input<int32_t>(launch, kSumInputs);
    if (!ids_are_valid(sums.lookup, ids)) return ErrorCode::bad_data;
    const ErrorCode code = number_rows_of_sum(sums.lookup, rows, launch);
    if (code != ErrorCode::ok) return code;
    add_gradient(threads, sums, launch, numbers_of(sums, ids, output<int32_t>(launch, 1), launch),
                 kSumInputs + 1, output<float>(launch));
    return ErrorCode::ok;
  });
}

std::unique_ptr<Kernel> create_embedding_sum_grad_accumulate(const NodeSpec& spec,
                                                             const CpuContext& context) {
  return make_kernel([sums = sums_of(spec.outputs[0], spec.inputs[1]),
                      threads = context.threads](const Launch& launch) {
    const auto* ids = input<int32_t>(launch, 1);
    if (!ids_are_valid(sums.lookup, ids)) return ErrorCode::bad_data;
    copy_overwritten(launch, 0, 0,
                     sums.lookup.rows * sums.lookup.width * element_bytes(DType::f32));
    add_gradient(threads, sums, launch, ids, 2, output<float>(launch));
    return ErrorCode::ok;
  });
}

std::unique_ptr<Kernel> create_embedding_sum_grad_weights(const NodeSpec& spec,
                                                          const CpuContext& context) {
  return make_kernel([sums = sums_of(spec.inputs[0], spec.inputs[1]),
                      threads = context.threads](const Launch& launch) {
    const auto* ids = input<int32_t>(launch, 1);
    if (!ids_are_valid(sums.lookup, ids)) return ErrorCode::bad_data;
    const auto dots = HWY_DYNAMIC_DISPATCH(embedding_sum_dots);
    const int64_t width = sums.lookup.width;
    parallel_for(threads, sums.count, grain_of(sums), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        dots(input<float>(launch, 0), width, ids + i * sums.tokens, sums.tokens,
             input<float>(launch, 2) + i * width, output<float>(launch) + i * sums.tokens);
    });
    return ErrorCode::ok;
  });
}

}  // namespace snug
#endif

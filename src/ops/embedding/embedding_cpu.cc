// SPDX-License-Identifier: Apache-2.0
// CPU kernels of the embedding table. The gradient adds rows in the order of the ids; each thread
// owns a range of columns, so bits do not depend on the number of threads and no scratch is needed.
#include "ops/embedding/embedding_cpu.h"

#include <algorithm>

#include "backend/cpu/kernel.h"
#include "backend/cpu/row_kernel.h"
#include "base/half.h"

namespace snug {
namespace {

Lookup lookup_of(const NodeSpec& spec) {
  const Shape& table = spec.inputs[0].shape;
  return {.rows = table[0], .width = table[1], .count = element_count(spec.inputs[1])};
}

// The ids are read as a whole: they are checked before anything is written.
RowwiseForm gather_form(const NodeSpec& spec, const CpuContext& context) {
  const Lookup lookup = lookup_of(spec);
  const int64_t bytes = lookup.width * element_bytes(spec.outputs[0].dtype);
  return {.grid = {.rows = bytes == 0 ? 0 : lookup.count},
          .inputs = {0, 0},
          .outputs = {bytes},
          .threads = context.threads};
}

template <class Row>
std::unique_ptr<Kernel> create_gather(const NodeSpec& spec, const CpuContext& context) {
  const Lookup lookup = lookup_of(spec);
  const auto run_rows = [lookup](const RowPiece& piece) {
    const auto* src = reinterpret_cast<const float*>(piece.inputs[0]);
    const auto* ids = reinterpret_cast<const int32_t*>(piece.inputs[1]) + piece.begin;
    auto* dst = reinterpret_cast<Row*>(piece.outputs[0]);
    for (int64_t i = 0; i < piece.rows(); ++i) {
      const float* from = src + ids[i] * lookup.width;
      std::transform(from, from + lookup.width, dst + i * lookup.width, from_f32<Row>);
    }
  };
  const auto check_ids = [lookup](const Launch& launch) {
    return ids_are_valid(lookup, input<int32_t>(launch, 1)) ? ErrorCode::ok : ErrorCode::bad_data;
  };
  return make_row_kernel(gather_form(spec, context), run_rows, kNothingBehind, check_ids);
}

// dst[row_of(i), :] += dy[i, :] for i = 0, 1, ...
template <class Row, class RowOf>
void scatter_add(int threads, const Lookup& lookup, const RowOf& row_of, const Row* dy,
                 float* dst) {
  const bool is_small = lookup.count * lookup.width < kWorthAThreadElements;
  parallel_for(is_small ? 1 : threads, lookup.width, kCacheLineFloats,
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = 0; i < lookup.count; ++i) {
                   const Row* from = dy + i * lookup.width;
                   float* to = dst + row_of(i) * lookup.width;
                   for (int64_t j = begin; j < end; ++j) to[j] += to_f32(from[j]);
                 }
               });
}

auto by_id(const int32_t* ids) {
  return [ids](int64_t i) { return int64_t{ids[i]}; };
}
auto by_number(const int32_t* ids, const int32_t* row_of) {
  return [ids, row_of](int64_t i) { return int64_t{row_of[ids[i]]} - 1; };
}

template <class Row>
std::unique_ptr<Kernel> create_grad(const NodeSpec& spec, const CpuContext& context) {
  const Shape& table = spec.outputs[0].shape;
  const Lookup lookup{.rows = table[0], .width = table[1], .count = element_count(spec.inputs[0])};
  return make_kernel([lookup, threads = context.threads](const Launch& launch) {
    const auto* ids = input<int32_t>(launch, 0);
    auto* dst = output<float>(launch);
    if (!ids_are_valid(lookup, ids)) return ErrorCode::bad_data;
    clear_rows(threads, lookup.rows * lookup.width, dst);
    scatter_add(threads, lookup, by_id(ids), input<Row>(launch, 1), dst);
    return ErrorCode::ok;
  });
}

template <class Row>
std::unique_ptr<Kernel> create_grad_rows(const NodeSpec& spec, const CpuContext& context) {
  const Lookup lookup{.rows = spec.outputs[1].shape[0],
                      .width = spec.outputs[0].shape[1],
                      .count = element_count(spec.inputs[0])};
  return make_kernel([lookup, threads = context.threads](const Launch& launch) {
    const auto* ids = input<int32_t>(launch, 0);
    auto* dst = output<float>(launch, 0);
    auto* row_of = output<int32_t>(launch, 1);
    if (!ids_are_valid(lookup, ids)) return ErrorCode::bad_data;
    std::fill_n(row_of, lookup.rows, 0);
    (void)number_rows(lookup, ids, 0, row_of);
    clear_rows(threads, lookup.count * lookup.width, dst);
    scatter_add(threads, lookup, by_number(ids, row_of), input<Row>(launch, 1), dst);
    return ErrorCode::ok;
  });
}

template <class Row>
std::unique_ptr<Kernel> create_grad_accumulate(const NodeSpec& spec, const CpuContext& context) {
  const Shape& table = spec.outputs[0].shape;
  const Lookup lookup{.rows = table[0], .width = table[1], .count = element_count(spec.inputs[1])};
  return make_kernel([lookup, threads = context.threads](const Launch& launch) {
    const auto* ids = input<int32_t>(launch, 1);
    auto* dst = output<float>(launch);
    if (!ids_are_valid(lookup, ids)) return ErrorCode::bad_data;
    copy_overwritten(launch, 0, 0, lookup.rows * lookup.width * element_bytes(DType::f32));
    scatter_add(threads, lookup, by_id(ids), input<Row>(launch, 2), dst);
    return ErrorCode::ok;
  });
}

template <class Row>
std::unique_ptr<Kernel> create_grad_rows_accumulate(const NodeSpec& spec,
                                                    const CpuContext& context) {
  const Shape& sum = spec.outputs[0].shape;
  const Lookup lookup{.rows = spec.outputs[1].shape[0],
                      .width = sum[1],
                      .count = element_count(spec.inputs[kSumInputs])};
  return make_kernel([lookup, rows = sum[0], threads = context.threads](const Launch& launch) {
    const auto* ids = input<int32_t>(launch, kSumInputs);
    if (!ids_are_valid(lookup, ids)) return ErrorCode::bad_data;
    const ErrorCode code = number_rows_of_sum(lookup, rows, launch);
    if (code != ErrorCode::ok) return code;
    scatter_add(threads, lookup, by_number(ids, output<int32_t>(launch, 1)),
                input<Row>(launch, kSumInputs + 1), output<float>(launch));
    return ErrorCode::ok;
  });
}

}  // namespace

ErrorCode number_rows_of_sum(const Lookup& lookup, int64_t rows, const Launch& launch) {
  constexpr int64_t kIdBytes = sizeof(int32_t);
  copy_overwritten(launch, 0, 0, rows * lookup.width * static_cast<int64_t>(sizeof(float)));
  copy_overwritten(launch, 1, 1, lookup.rows * kIdBytes);
  copy_overwritten(launch, 2, 2, kIdBytes);
  auto* const row_of = output<int32_t>(launch, 1);
  auto* const count = output<int32_t>(launch, 2);
  const auto* ids = input<int32_t>(launch, kSumInputs);
  if (*count < 0 || *count > rows) return ErrorCode::internal;
  *count = number_rows(lookup, ids, *count, row_of);
  bool has_room = *count <= rows;
  for (int64_t i = 0; i < lookup.count; ++i)
    has_room &= row_of[ids[i]] > 0 && row_of[ids[i]] <= rows;
  return has_room ? ErrorCode::ok : ErrorCode::internal;
}

std::span<const CpuKernelDef> embedding_cpu_kernels() {
  static const CpuKernelDef kernels[] = {
      {"embedding", "plain:embedding", "f32 i32 -> f32", always, no_scratch, create_gather<float>,
       "", nullptr, gather_form},
      {"embedding", "plain:embedding_bf16", "f32 i32 -> bf16", always, no_scratch,
       create_gather<Bf16>, "", nullptr, gather_form},
      {"embedding", "plain:embedding_f16", "f32 i32 -> f16", always, no_scratch, create_gather<F16>,
       "", nullptr, gather_form},
      {"embedding_grad", "plain:embedding_grad", "i32 f32 -> f32", always, no_scratch,
       create_grad<float>},
      {"embedding_grad", "plain:embedding_grad_bf16", "i32 bf16 -> f32", always, no_scratch,
       create_grad<Bf16>},
      {"embedding_grad", "plain:embedding_grad_f16", "i32 f16 -> f32", always, no_scratch,
       create_grad<F16>},
      {"embedding_grad_rows", "plain:embedding_grad_rows", "i32 f32 -> f32 i32", always, no_scratch,
       create_grad_rows<float>},
      {"embedding_grad_rows", "plain:embedding_grad_rows_bf16", "i32 bf16 -> f32 i32", always,
       no_scratch, create_grad_rows<Bf16>},
      {"embedding_grad_rows", "plain:embedding_grad_rows_f16", "i32 f16 -> f32 i32", always,
       no_scratch, create_grad_rows<F16>},
      {"embedding_grad_accumulate", "plain:embedding_grad_accumulate", "f32 i32 f32 -> f32", always,
       no_scratch, create_grad_accumulate<float>},
      {"embedding_grad_accumulate", "plain:embedding_grad_accumulate_bf16", "f32 i32 bf16 -> f32",
       always, no_scratch, create_grad_accumulate<Bf16>},
      {"embedding_grad_accumulate", "plain:embedding_grad_accumulate_f16", "f32 i32 f16 -> f32",
       always, no_scratch, create_grad_accumulate<F16>},
      {"embedding_grad_rows_accumulate", "plain:embedding_grad_rows_accumulate",
       "f32 i32 i32 i32 f32 -> f32 i32 i32", always, no_scratch,
       create_grad_rows_accumulate<float>},
      {"embedding_grad_rows_accumulate", "plain:embedding_grad_rows_accumulate_bf16",
       "f32 i32 i32 i32 bf16 -> f32 i32 i32", always, no_scratch,
       create_grad_rows_accumulate<Bf16>},
      {"embedding_grad_rows_accumulate", "plain:embedding_grad_rows_accumulate_f16",
       "f32 i32 i32 i32 f16 -> f32 i32 i32", always, no_scratch, create_grad_rows_accumulate<F16>},
      {"embedding_sum", "simd:embedding_sum", "f32 i32 f32 -> f32", always, no_scratch,
       create_embedding_sum},
      {"embedding_sum_grad", "simd:embedding_sum_grad", "i32 f32 f32 -> f32", always, no_scratch,
       create_embedding_sum_grad},
      {"embedding_sum_grad_rows", "simd:embedding_sum_grad_rows", "i32 f32 f32 -> f32 i32", always,
       embedding_sum_grad_rows_scratch, create_embedding_sum_grad_rows},
      {"embedding_sum_grad_accumulate", "simd:embedding_sum_grad_accumulate",
       "f32 i32 f32 f32 -> f32", always, no_scratch, create_embedding_sum_grad_accumulate},
      {"embedding_sum_grad_rows_accumulate", "simd:embedding_sum_grad_rows_accumulate",
       "f32 i32 i32 i32 f32 f32 -> f32 i32 i32", always, embedding_sum_grad_rows_accumulate_scratch,
       create_embedding_sum_grad_rows_accumulate},
      {"embedding_sum_grad_weights", "simd:embedding_sum_grad_weights", "f32 i32 f32 -> f32",
       always, no_scratch, create_embedding_sum_grad_weights},
  };
  return kernels;
}

}  // namespace snug

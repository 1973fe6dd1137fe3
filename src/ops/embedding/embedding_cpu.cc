// SPDX-License-Identifier: Apache-2.0
// CPU kernels of the embedding table. The gradient adds rows in the order of the ids; each thread
// owns a range of columns, so bits do not depend on the number of threads and no scratch is needed.
// Legend: V rows of the table, H columns, N ids.
#include <cstring>

#include "backend/cpu/kernel.h"
#include "base/threads.h"

namespace snug {
namespace {

constexpr int64_t kWorthAThreadElements = 8192;
constexpr int64_t kCacheLineFloats = 16;

struct Lookup {
  int64_t rows = 0;   // V
  int64_t width = 0;  // H
  int64_t count = 0;  // N
};

bool ids_are_valid(const Lookup& lookup, const int32_t* ids) {
  bool valid = true;
  for (int64_t i = 0; i < lookup.count; ++i) valid &= ids[i] >= 0 && ids[i] < lookup.rows;
  return valid;
}

std::unique_ptr<Kernel> create_gather(const NodeSpec& spec, const CpuContext& context) {
  const Shape& table = spec.inputs[0].shape;
  const Lookup lookup{.rows = table[0], .width = table[1], .count = element_count(spec.inputs[1])};
  return make_kernel([lookup, threads = context.threads](const Launch& launch) {
    const float* src = input<float>(launch, 0);
    const auto* ids = input<int32_t>(launch, 1);
    auto* dst = output<float>(launch);
    if (!ids_are_valid(lookup, ids)) return ErrorCode::bad_data;
    const int64_t grain = 1 + kWorthAThreadElements / (lookup.width + 1);
    parallel_for(threads, lookup.count, grain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        std::memcpy(dst + i * lookup.width, src + ids[i] * lookup.width,
                    static_cast<size_t>(lookup.width) * sizeof(float));
      }
    });
    return ErrorCode::ok;
  });
}

// dst[ids[i], :] += dy[i, :] for i = 0, 1, ...
void scatter_add(int threads, const Lookup& lookup, const int32_t* ids, const float* dy,
                 float* dst) {
  const bool is_small = lookup.count * lookup.width < kWorthAThreadElements;
  parallel_for(is_small ? 1 : threads, lookup.width, kCacheLineFloats,
               [&](int64_t begin, int64_t end) {
                 for (int64_t i = 0; i < lookup.count; ++i) {
                   const float* from = dy + i * lookup.width;
                   float* to = dst + ids[i] * lookup.width;
                   for (int64_t j = begin; j < end; ++j) to[j] += from[j];
                 }
               });
}

std::unique_ptr<Kernel> create_grad(const NodeSpec& spec, const CpuContext& context) {
  const Shape& table = spec.outputs[0].shape;
  const Lookup lookup{.rows = table[0], .width = table[1], .count = element_count(spec.inputs[0])};
  return make_kernel([lookup, threads = context.threads](const Launch& launch) {
    const auto* ids = input<int32_t>(launch, 0);
    auto* dst = output<float>(launch);
    if (!ids_are_valid(lookup, ids)) return ErrorCode::bad_data;
    parallel_for(threads, lookup.rows * lookup.width, kWorthAThreadElements,
                 [&](int64_t begin, int64_t end) {
                   std::memset(dst + begin, 0, static_cast<size_t>(end - begin) * sizeof(float));
                 });
    scatter_add(threads, lookup, ids, input<float>(launch, 1), dst);
    return ErrorCode::ok;
  });
}

std::unique_ptr<Kernel> create_grad_accumulate(const NodeSpec& spec, const CpuContext& context) {
  const Shape& table = spec.outputs[0].shape;
  const Lookup lookup{.rows = table[0], .width = table[1], .count = element_count(spec.inputs[1])};
  return make_kernel([lookup, threads = context.threads](const Launch& launch) {
    const auto* ids = input<int32_t>(launch, 1);
    auto* dst = output<float>(launch);
    if (!ids_are_valid(lookup, ids)) return ErrorCode::bad_data;
    copy_overwritten(launch, 0, 0, lookup.rows * lookup.width * element_bytes(DType::f32));
    scatter_add(threads, lookup, ids, input<float>(launch, 2), dst);
    return ErrorCode::ok;
  });
}

}  // namespace

std::span<const CpuKernelDef> embedding_cpu_kernels() {
  static const CpuKernelDef kernels[] = {
      {"embedding", "plain:embedding", "f32 i32 -> f32", always, no_scratch, create_gather},
      {"embedding_grad", "plain:embedding_grad", "i32 f32 -> f32", always, no_scratch, create_grad},
      {"embedding_grad_accumulate", "plain:embedding_grad_accumulate", "f32 i32 f32 -> f32", always,
       no_scratch, create_grad_accumulate},
  };
  return kernels;
}

}  // namespace snug

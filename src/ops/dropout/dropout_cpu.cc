// SPDX-License-Identifier: Apache-2.0
// CPU kernel of dropout. Work is cut into (sample, chunk) units whose bounds depend on the shape
// only; every element's word is a function of keys, so bits do not depend on the number of
// threads.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/dropout/dropout_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "backend/cpu/philox-inl.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

// Elements [begin, end) of one sample; x and y point to the first of them.
void dropout_chunk(const int64_t* rng, int64_t slot, uint32_t ordinal, uint32_t threshold,
                   float scale, const float* x, float* y, int64_t begin, int64_t end) {
  const PhiloxRow row = philox_row(static_cast<uint64_t>(rng[0]), static_cast<uint32_t>(slot),
                                   static_cast<uint32_t>(rng[1]), ordinal);
  dropout_row(row, {threshold, scale}, static_cast<uint64_t>(begin / 4), x, y, end - begin);
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cstring>

#include "backend/cpu/half_rows.h"
#include "backend/cpu/kernel.h"
#include "base/threads.h"
#include "ops/dropout/dropout.h"

namespace snug {
namespace {

HWY_EXPORT(dropout_chunk);

// A multiple of four words and of every vector length.
constexpr int64_t kChunk = 4096;

std::unique_ptr<Kernel> create_dropout(const NodeSpec& spec, const CpuContext& context) {
  const Shape& shape = spec.inputs[0].shape;
  const bool has_samples = spec.attrs.int64("sample_axis") == 0;
  const int64_t size = element_count(shape);
  const int64_t samples = has_samples ? shape[0] : 1;
  const int64_t sample_size = samples == 0 ? 0 : size / samples;
  const int64_t chunks = (sample_size + kChunk - 1) / kChunk;
  const double rate = spec.attrs.real("rate");
  const uint32_t threshold = dropout_threshold(rate);
  const auto scale = static_cast<float>(1 / (1 - rate));
  const auto ordinal = static_cast<uint32_t>(spec.attrs.int64("ordinal"));
  const auto chunk_fn = HWY_DYNAMIC_DISPATCH(dropout_chunk);
  const FloatRows rows(spec.inputs[0].dtype);
  return make_kernel([=, threads = context.threads](const Launch& launch) {
    const auto* rng = input<int64_t>(launch, 1);
    if (size == 0) return ErrorCode::ok;
    const int64_t grain = std::max<int64_t>(1, kChunk / sample_size);
    parallel_for(threads, samples * chunks, grain, [&](int64_t begin, int64_t end) {
      for (int64_t unit = begin; unit < end; ++unit) {
        const int64_t sample = unit / chunks;
        const int64_t first = unit % chunks * kChunk;
        const int64_t at = sample * sample_size + first;
        const int64_t count = std::min(sample_size - first, kChunk);
        float buffer[kChunk];
        const float* x = rows.read(launch.inputs[0], at, count, buffer);
        float* y = rows.place(launch.outputs[0], at, buffer);
        chunk_fn(rng, has_samples ? rng[2] + sample : 0, ordinal, threshold, scale, x, y, first,
                 first + count);
        rows.write(y, launch.outputs[0], at, count);
      }
    });
    return ErrorCode::ok;
  });
}

}  // namespace

std::span<const CpuKernelDef> dropout_cpu_kernels() {
  static const CpuKernelDef kernels[] = {{"dropout", "simd:dropout",
                                          "f32|bf16|f16 i64 -> f32|bf16|f16", always, no_scratch,
                                          create_dropout}};
  return kernels;
}

}  // namespace snug
#endif  // HWY_ONCE

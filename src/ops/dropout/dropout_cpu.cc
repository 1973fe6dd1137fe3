// SPDX-License-Identifier: Apache-2.0
// CPU kernel of dropout. Every element's word is a function of keys, so bits do not depend on how
// the elements are cut.
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
#include "backend/cpu/row_kernel.h"
#include "ops/dropout/dropout.h"

namespace snug {
namespace {

HWY_EXPORT(dropout_chunk);

// A multiple of four words and of every vector length.
constexpr int64_t kChunk = 4096;

struct Samples {
  bool are_rows = false;
  int64_t count = 0;
  int64_t size = 0;
};

Samples samples_of(const NodeSpec& spec) {
  const Shape& shape = spec.inputs[0].shape;
  const bool has_samples = spec.attrs.int64("sample_axis") == 0;
  const int64_t count = has_samples ? shape[0] : 1;
  return {has_samples, count, count == 0 ? 0 : element_count(shape) / count};
}

// A row begins at a word of the random numbers.
RowwiseForm row_form(const NodeSpec& spec, const CpuContext& context) {
  const Samples samples = samples_of(spec);
  RowwiseForm form{.threads = context.threads};
  if (samples.size == 0) return form;
  const int64_t size = samples.size % 16 == 0 ? 16 : samples.size % 4 == 0 ? 4 : samples.size;
  form.grid.rows = samples.count * samples.size / size;
  form.inputs = {size * element_bytes(spec.inputs[0].dtype), 0};
  form.outputs = {size * element_bytes(spec.outputs[0].dtype)};
  return form;
}

std::unique_ptr<Kernel> create_dropout(const NodeSpec& spec, const CpuContext& context) {
  const Samples samples = samples_of(spec);
  const double rate = spec.attrs.real("rate");
  const uint32_t threshold = dropout_threshold(rate);
  const auto scale = static_cast<float>(1 / (1 - rate));
  const auto ordinal = static_cast<uint32_t>(spec.attrs.int64("ordinal"));
  const auto chunk_fn = HWY_DYNAMIC_DISPATCH(dropout_chunk);
  const FloatRows rows(spec.inputs[0].dtype);
  RowwiseForm form = row_form(spec, context);
  if (!form.is_given()) return make_kernel([](const Launch&) { return ErrorCode::ok; });
  const int64_t size = form.outputs[0] / element_bytes(spec.outputs[0].dtype);
  return make_row_kernel(std::move(form), [=](const RowPiece& piece) {
    const auto* rng = reinterpret_cast<const int64_t*>(piece.inputs[1]);
    const int64_t begin = piece.begin * size;
    const int64_t end = piece.end * size;
    for (int64_t at = begin; at < end;) {
      const int64_t sample = at / samples.size;
      const int64_t first = at % samples.size;
      const int64_t count = std::min({samples.size - first, end - at, kChunk});
      float buffer[kChunk];
      const float* x = rows.read(piece.inputs[0], at - begin, count, buffer);
      float* y = rows.place(piece.outputs[0], at - begin, buffer);
      chunk_fn(rng, samples.are_rows ? rng[2] + sample : 0, ordinal, threshold, scale, x, y, first,
               first + count);
      rows.write(y, piece.outputs[0], at - begin, count);
      at += count;
    }
  });
}

}  // namespace

std::span<const CpuKernelDef> dropout_cpu_kernels() {
  static const CpuKernelDef kernels[] = {{"dropout", "simd:dropout",
                                          "f32|bf16|f16 i64 -> f32|bf16|f16", always, no_scratch,
                                          create_dropout, "", nullptr, row_form}};
  return kernels;
}

}  // namespace snug
#endif  // HWY_ONCE

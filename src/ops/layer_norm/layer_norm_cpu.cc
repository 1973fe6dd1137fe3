// SPDX-License-Identifier: Apache-2.0
// CPU kernels of layer_norm and layer_norm_grad. The variance is taken around the mean in a second
// pass over the row, which is in cache by then. dgamma and dbeta are summed over blocks of rows
// whose bounds depend on the shape only, then over the blocks in order, so bits do not depend on
// the number of threads. Legend: R rows, C columns.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/layer_norm/layer_norm_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include <cmath>

#include "backend/cpu/math-inl.h"
#include "backend/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

void layer_norm_row(const float* x, const float* gamma, const float* beta, float* y, float* mean,
                    float* rstd, int64_t n, double eps) {
  const auto count = static_cast<float>(n);
  *mean = sum_row(x, n, [](V32 v) HWY_ATTR { return v; }) / count;
  const V32 center = constant(*mean);
  const float squares = sum_row(x, n, [=](V32 v) HWY_ATTR {
    const V32 centered = hn::Sub(v, center);
    return hn::Mul(centered, centered);
  });
  *rstd = static_cast<float>(1 / std::sqrt(static_cast<double>(squares / count) + eps));
  const V32 scale = constant(*rstd);
  const auto normalize = [&](int64_t i, int64_t tail) HWY_ATTR {
    const V32 normal = hn::Mul(hn::Sub(load_at(x, i, tail), center), scale);
    store_at(hn::MulAdd(normal, load_at(gamma, i, tail), load_at(beta, i, tail)), y, i, tail);
  };
  const int64_t lanes = lanes_f32();
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) normalize(i, -1);
  if (i < n) normalize(i, n - i);
}

// One row of dx; adds the row's share to dgamma and dbeta.
//   g = dy gamma, n = (x - mean) rstd, dx = rstd (g - mean(g) - n mean(g n))
void layer_norm_grad_row(const float* x, const float* gamma, float mean, float rstd,
                         const float* dy, float* dx, float* dgamma, float* dbeta, int64_t n) {
  const F32 d;
  const V32 center = constant(mean);
  const V32 scale = constant(rstd);
  V32 sum_g0 = hn::Zero(d);
  V32 sum_g1 = sum_g0;
  V32 sum_gn0 = sum_g0;
  V32 sum_gn1 = sum_g0;
  const auto add = [&](int64_t i, int64_t tail, V32& sum_g, V32& sum_gn) HWY_ATTR {
    const V32 normal = hn::Mul(hn::Sub(load_at(x, i, tail), center), scale);
    const V32 slope = load_at(dy, i, tail);
    // Tails are padded with zeros, so is g.
    const V32 g = hn::Mul(slope, load_at(gamma, i, tail));
    sum_g = hn::Add(sum_g, g);
    sum_gn = hn::MulAdd(g, normal, sum_gn);
    store_at(hn::MulAdd(slope, normal, load_at(dgamma, i, tail)), dgamma, i, tail);
    store_at(hn::Add(slope, load_at(dbeta, i, tail)), dbeta, i, tail);
  };
  const int64_t lanes = lanes_f32();
  int64_t i = 0;
  for (; i + 2 * lanes <= n; i += 2 * lanes) {
    add(i, -1, sum_g0, sum_gn0);
    add(i + lanes, -1, sum_g1, sum_gn1);
  }
  for (; i + lanes <= n; i += lanes) add(i, -1, sum_g0, sum_gn0);
  if (i < n) add(i, n - i, sum_g1, sum_gn1);
  const V32 inverse_count = constant(1.0F / static_cast<float>(n));
  const V32 mean_g = hn::Mul(hn::SumOfLanes(d, hn::Add(sum_g0, sum_g1)), inverse_count);
  const V32 mean_gn = hn::Mul(hn::SumOfLanes(d, hn::Add(sum_gn0, sum_gn1)), inverse_count);
  const auto finish = [&](int64_t at, int64_t tail) HWY_ATTR {
    const V32 normal = hn::Mul(hn::Sub(load_at(x, at, tail), center), scale);
    const V32 g = hn::Mul(load_at(dy, at, tail), load_at(gamma, at, tail));
    store_at(hn::Mul(scale, hn::NegMulAdd(normal, mean_gn, hn::Sub(g, mean_g))), dx, at, tail);
  };
  for (i = 0; i + lanes <= n; i += lanes) finish(i, -1);
  if (i < n) finish(i, n - i);
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
#include "base/threads.h"

namespace snug {
namespace {

HWY_EXPORT(layer_norm_row);
HWY_EXPORT(layer_norm_grad_row);

constexpr int64_t kWorthAThreadElements = 8192;
// Partial sums of dgamma and dbeta: enough blocks for many cores, few enough to be small beside x.
constexpr int64_t kMinBlockRows = 32;
constexpr int64_t kMaxBlocks = 32;
constexpr int64_t kCacheLineFloats = 16;
constexpr auto kFloatBytes = static_cast<int64_t>(sizeof(float));

struct Norm {
  int64_t rows = 0;
  int64_t columns = 0;
  int64_t block_rows = 1;
  int64_t blocks = 0;
};

Norm norm_of(const NodeSpec& spec) {
  Norm norm;
  norm.columns = spec.inputs[0].shape.back();
  norm.rows = element_count(spec.inputs[0]) / norm.columns;
  const int64_t wanted = std::clamp<int64_t>(norm.rows / kMinBlockRows, 1, kMaxBlocks);
  norm.block_rows = std::max<int64_t>(1, (norm.rows + wanted - 1) / wanted);
  norm.blocks = (norm.rows + norm.block_rows - 1) / norm.block_rows;
  return norm;
}

// Rows in 16 bits are copied to f32, one a thread.
int64_t forward_scratch(const NodeSpec& spec, const CpuContext& context) {
  if (!FloatRows(spec.inputs[0].dtype).is_half()) return 0;
  return context.threads * norm_of(spec).columns * kFloatBytes;
}

RowwiseForm forward_form(const NodeSpec& spec, const CpuContext& context) {
  const Norm norm = norm_of(spec);
  const int64_t row_bytes = norm.columns * element_bytes(spec.inputs[0].dtype);
  return {.grid = {.rows = norm.rows},
          .inputs = {row_bytes, 0, 0},
          .outputs = {row_bytes, kFloatBytes, kFloatBytes},
          .scratch_bytes = forward_scratch(spec, context),
          .threads = context.threads};
}

std::unique_ptr<Kernel> create_forward(const NodeSpec& spec, const CpuContext& context) {
  const Norm norm = norm_of(spec);
  const double eps = spec.attrs.real("eps");
  const auto row_fn = HWY_DYNAMIC_DISPATCH(layer_norm_row);
  const FloatRows rows(spec.inputs[0].dtype);
  return make_row_kernel(forward_form(spec, context), [=](const RowPiece& piece) {
    const auto* gamma = reinterpret_cast<const float*>(piece.inputs[1]);
    const auto* beta = reinterpret_cast<const float*>(piece.inputs[2]);
    auto* mean = reinterpret_cast<float*>(piece.outputs[1]);
    auto* rstd = reinterpret_cast<float*>(piece.outputs[2]);
    float* buffer = nullptr;
    if (rows.is_half())
      buffer = reinterpret_cast<float*>(piece.scratch) + piece.part * norm.columns;
    for (int64_t row = 0; row < piece.rows(); ++row) {
      const int64_t at = row * norm.columns;
      const float* x = rows.read(piece.inputs[0], at, norm.columns, buffer);
      float* y = rows.place(piece.outputs[0], at, buffer);
      row_fn(x, gamma, beta, y, mean + row, rstd + row, norm.columns, eps);
      rows.write(y, piece.outputs[0], at, norm.columns);
    }
  });
}

// Partial sums of all blocks, then a row of x and one of dy a thread where they are in 16 bits.
int64_t grad_scratch(const NodeSpec& spec, const CpuContext& context) {
  const Norm norm = norm_of(spec);
  const bool is_half = FloatRows(spec.inputs[0].dtype).is_half();
  return (norm.blocks + (is_half ? context.threads : 0)) * 2 * norm.columns * kFloatBytes;
}

// A thread has whole blocks.
RowwiseForm grad_form(const NodeSpec& spec, const CpuContext& context) {
  const Norm norm = norm_of(spec);
  const int64_t row_bytes = norm.columns * element_bytes(spec.inputs[0].dtype);
  return {.grid = {.rows = norm.rows, .grain = norm.block_rows},
          .inputs = {row_bytes, 0, kFloatBytes, kFloatBytes, row_bytes},
          .outputs = {row_bytes, 0, 0},
          .scratch_bytes = grad_scratch(spec, context),
          .threads = context.threads};
}

// dst = sum over blocks of partials[block * 2 * columns + ...], columns [begin, end).
void sum_blocks(const Norm& norm, const float* partials, float* dst, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) dst[i] = 0;
  for (int64_t block = 0; block < norm.blocks; ++block) {
    const float* partial = partials + block * 2 * norm.columns;
    for (int64_t i = begin; i < end; ++i) dst[i] += partial[i];
  }
}

std::unique_ptr<Kernel> create_grad(const NodeSpec& spec, const CpuContext& context) {
  const Norm norm = norm_of(spec);
  const auto row_fn = HWY_DYNAMIC_DISPATCH(layer_norm_grad_row);
  const FloatRows rows(spec.inputs[0].dtype);
  const int64_t columns = norm.columns;
  const auto run_rows = [=](const RowPiece& piece) {
    const auto* gamma = reinterpret_cast<const float*>(piece.inputs[1]);
    const auto* mean = reinterpret_cast<const float*>(piece.inputs[2]);
    const auto* rstd = reinterpret_cast<const float*>(piece.inputs[3]);
    auto* partials = reinterpret_cast<float*>(piece.scratch);
    float* copies = partials + norm.blocks * 2 * columns;
    float* copy_of_x = rows.is_half() ? copies + piece.part * 2 * columns : nullptr;
    float* copy_of_dy = rows.is_half() ? copy_of_x + columns : nullptr;
    for (int64_t row = piece.begin; row < piece.end; ++row) {
      float* dgamma = partials + row / norm.block_rows * 2 * columns;
      if (row % norm.block_rows == 0)
        std::memset(dgamma, 0, static_cast<size_t>(2 * columns) * sizeof(float));
      const int64_t line = row - piece.begin;
      const int64_t at = line * columns;
      const float* x = rows.read(piece.inputs[0], at, columns, copy_of_x);
      const float* dy = rows.read(piece.inputs[4], at, columns, copy_of_dy);
      float* dx = rows.place(piece.outputs[0], at, copy_of_dy);
      row_fn(x, gamma, mean[line], rstd[line], dy, dx, dgamma, dgamma + columns, columns);
      rows.write(dx, piece.outputs[0], at, columns);
    }
  };
  const auto finish = [=, threads = context.threads](const Launch& launch) {
    const auto* partials = scratch_at<float>(launch);
    auto* dgamma = output<float>(launch, 1);
    auto* dbeta = output<float>(launch, 2);
    const bool is_small = norm.blocks * columns < kWorthAThreadElements;
    parallel_for(is_small ? 1 : threads, columns, kCacheLineFloats,
                 [&](int64_t begin, int64_t end) {
                   sum_blocks(norm, partials, dgamma, begin, end);
                   sum_blocks(norm, partials + columns, dbeta, begin, end);
                 });
  };
  return make_row_kernel(grad_form(spec, context), run_rows, finish);
}

}  // namespace

std::span<const CpuKernelDef> layer_norm_cpu_kernels() {
  static const CpuKernelDef kernels[] = {
      {"layer_norm", "simd:layer_norm", "f32|bf16|f16 f32 f32 -> f32|bf16|f16 f32 f32", always,
       forward_scratch, create_forward, "", nullptr, forward_form},
      {"layer_norm_grad", "simd:layer_norm_grad",
       "f32|bf16|f16 f32 f32 f32 f32|bf16|f16 -> f32|bf16|f16 f32 f32", always, grad_scratch,
       create_grad, "", nullptr, grad_form},
  };
  return kernels;
}

}  // namespace snug
#endif  // HWY_ONCE

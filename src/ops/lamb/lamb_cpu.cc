// SPDX-License-Identifier: Apache-2.0
// Two passes: the moments with both norms, then the weights.
#include <algorithm>
#include <cmath>

#include "backend/cpu/reduction.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/lamb/lamb_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "ops/optimizer/step_range-inl.h"

#ifndef SNUG_OPS_LAMB_LAMB_CPU_FACTORS
#define SNUG_OPS_LAMB_LAMB_CPU_FACTORS
namespace snug {

struct LambFactors {
  float gradient_scale;
  float one_minus_beta1, beta2, one_minus_beta2;
  float correction;    // 1 / (1 - beta1^t)
  float inverse_root;  // 1 / sqrt(1 - beta2^t)
  float eps, weight_decay;
};

}  // namespace snug
#endif

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

// m' = m + (1 - beta1) (g - m);  v' = beta2 v + (1 - beta2) g^2. w stays.
void lamb_moments(const LambFactors& f, const StepOperands& operands, int64_t begin, int64_t end) {
  const F32 d;
  const auto scale = hn::Set(d, f.gradient_scale);
  const auto one_minus_beta1 = hn::Set(d, f.one_minus_beta1);
  const auto beta2 = hn::Set(d, f.beta2);
  const auto one_minus_beta2 = hn::Set(d, f.one_minus_beta2);
  step_range<false, true>(operands, begin, end, [&](V32&, V32 raw, V32& m, V32& v) HWY_ATTR {
    const auto g = hn::Mul(raw, scale);
    m = hn::MulAdd(one_minus_beta1, hn::Sub(g, m), m);
    v = hn::MulAdd(hn::Mul(one_minus_beta2, g), g, hn::Mul(beta2, v));
  });
}

// change = m' / (1 - beta1^t) / (sqrt(v') / sqrt(1 - beta2^t) + eps) + decay w, of the moments
// after the step
void lamb_change(const LambFactors& f, const StepOperands& operands, int64_t begin, int64_t end,
                 float* change) {
  const F32 d;
  const int64_t step = lanes_f32();
  const auto correction = hn::Set(d, f.correction);
  const auto inverse_root = hn::Set(d, f.inverse_root);
  const auto eps = hn::Set(d, f.eps);
  const auto decay = hn::Set(d, f.weight_decay);
  for (int64_t i = begin; i < end; i += step) {
    const int64_t n = end - i;
    const auto w = load_some(d, operands.src[0] + i, n, step);
    const auto m = load_some(d, operands.dst[1] + i, n, step);
    const auto v = load_some(d, operands.dst[2] + i, n, step);
    const auto denominator = hn::MulAdd(hn::Sqrt(v), inverse_root, eps);
    const auto adam = hn::Div(hn::Mul(m, correction), denominator);
    store_some(hn::MulAdd(decay, w, adam), d, change + (i - begin), n, step);
  }
}

// dst = src - factor change
void lamb_subtract(float* dst, const float* src, const float* change, float factor, int64_t n) {
  const auto by = hn::Set(F32(), factor);
  map_vectors(dst, src, change, n,
              [by](auto w, auto u) HWY_ATTR { return hn::NegMulAdd(by, u, w); });
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace snug {

HWY_EXPORT(lamb_moments);
HWY_EXPORT(lamb_change);
HWY_EXPORT(lamb_subtract);

namespace {

constexpr int64_t kChunk = 2048;  // elements of a change that are formed at once

// Two doubles a block: |w|^2 and |change|^2.
int64_t blocks_of(int64_t count) { return (count + kSquaresBlock - 1) / kSquaresBlock; }
int64_t lamb_scratch(const NodeSpec& spec, const CpuContext&) {
  return 2 * blocks_of(element_count(spec.inputs[0])) * static_cast<int64_t>(sizeof(double));
}

// Both passes see the same changes: they are functions of w and the moments after the step.
class LambStep {
 public:
  LambStep(const NodeSpec& spec, int threads)
      : beta1_(spec.attrs.real("beta1")),
        beta2_(spec.attrs.real("beta2")),
        eps_(spec.attrs.real("eps")),
        decay_(spec.attrs.real("weight_decay")),
        adapts_(spec.attrs.boolean("adapts")),
        storage_(spec),
        count_(element_count(spec.inputs[0])),
        threads_(threads) {}

  void operator()(const StepOperands& operands, const Launch& launch) const {
    const LambFactors factors = factors_of(operands);
    double* const weights = scratch_at<double>(launch);
    double* const changes = weights + blocks_of(count_);
    form_moments(factors, operands, launch, weights, changes);
    double weight = 0;
    double change = 0;
    for (int64_t block = 0; block < blocks_of(count_); ++block) {
      weight += weights[block];
      change += changes[block];
    }
    const bool has_ratio = adapts_ && weight > 0 && change > 0;
    const double ratio = has_ratio ? std::sqrt(weight) / std::sqrt(change) : 1;
    const auto factor = static_cast<float>(static_cast<double>(operands.hyper[0]) * ratio);
    const auto moments = HWY_DYNAMIC_DISPATCH(lamb_moments);
    const auto changed = HWY_DYNAMIC_DISPATCH(lamb_change);
    const auto subtract = HWY_DYNAMIC_DISPATCH(lamb_subtract);
    parallel_for(threads_, count_, kChunk, [&](int64_t begin, int64_t end) {
      alignas(64) float u[kChunk];
      for (int64_t at = begin; at < end; at += kChunk) {
        storage_.for_each_part(operands, launch, at, std::min(at + kChunk, end), true,
                               [&](const StepOperands& part, int64_t, int64_t n) {
                                 // Coded moments were not kept by the pass before.
                                 if (storage_.has_codes()) moments(factors, part, 0, n);
                                 changed(factors, part, 0, n, u);
                                 subtract(part.dst[0], part.src[0], u, factor, n);
                               });
      }
    });
  }

 private:
  [[nodiscard]] LambFactors factors_of(const StepOperands& operands) const {
    const auto second = static_cast<double>(operands.hyper[2]);
    return {.gradient_scale = operands.gradient_scale,
            .one_minus_beta1 = static_cast<float>(1.0 - beta1_),
            .beta2 = static_cast<float>(beta2_),
            .one_minus_beta2 = static_cast<float>(1.0 - beta2_),
            .correction = static_cast<float>(1.0 / static_cast<double>(operands.hyper[1])),
            .inverse_root = static_cast<float>(1.0 / std::sqrt(second)),
            .eps = static_cast<float>(eps_),
            .weight_decay = static_cast<float>(decay_)};
  }

  // The moments, and the squares of weights and changes over fixed blocks.
  void form_moments(const LambFactors& factors, const StepOperands& operands, const Launch& launch,
                    double* weights, double* changes) const {
    const auto moments = HWY_DYNAMIC_DISPATCH(lamb_moments);
    const auto changed = HWY_DYNAMIC_DISPATCH(lamb_change);
    parallel_for(threads_, blocks_of(count_), 1, [&](int64_t first, int64_t last) {
      alignas(64) float u[kChunk];
      for (int64_t block = first; block < last; ++block) {
        weights[block] = 0;
        changes[block] = 0;
        const int64_t end = std::min(count_, (block + 1) * kSquaresBlock);
        for (int64_t at = block * kSquaresBlock; at < end; at += kChunk) {
          storage_.for_each_part(operands, launch, at, std::min(at + kChunk, end), false,
                                 [&](const StepOperands& part, int64_t, int64_t n) {
                                   moments(factors, part, 0, n);
                                   changed(factors, part, 0, n, u);
                                   double sum = 0;
                                   weights[block] += sum_squares_f32(1, part.src[0], n, &sum);
                                   changes[block] += sum_squares_f32(1, u, n, &sum);
                                 });
        }
      }
    });
  }

  double beta1_, beta2_, eps_, decay_;
  bool adapts_;
  StepStorage storage_;
  int64_t count_;
  int threads_;
};

std::unique_ptr<Kernel> create_lamb(const NodeSpec& spec, const CpuContext& context) {
  return make_step_kernel(spec, LambStep(spec, context.threads));
}

}  // namespace

std::span<const CpuKernelDef> lamb_cpu_kernels() {
  static const CpuKernelDef kernels[] = {
      {"lamb", "simd:lamb", "weight f32 f32 f32 i64 f32 f32 i32 -> weight f32 f32", always,
       lamb_scratch, create_lamb},
      {"lamb_8bit", "simd:lamb_8bit",
       "weight f32 u8 f32 u8 f32 i64 f32 f32 i32 -> weight u8 f32 u8 f32", always, lamb_scratch,
       create_lamb},
  };
  return kernels;
}

}  // namespace snug
#endif

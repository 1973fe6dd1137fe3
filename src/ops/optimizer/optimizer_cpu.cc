// SPDX-License-Identifier: Apache-2.0
// CPU kernels of the update phase: one pass over weights, gradients and states at the speed of
// memory. Every element is computed alone, so bits do not depend on threads.
#include <cmath>
#include <cstring>

#include "backend/cpu/kernel.h"
#include "base/threads.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/optimizer/optimizer_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "backend/cpu/simd-inl.h"

#ifndef SNUG_OPS_OPTIMIZER_OPTIMIZER_CPU_CONSTANTS
#define SNUG_OPS_OPTIMIZER_OPTIMIZER_CPU_CONSTANTS
namespace snug {

// What one update needs, formed in double once a call.
struct AdamwFactors {
  float gradient_scale;  // the clipping coefficient
  float keep;            // 1 - learning_rate * weight_decay
  float one_minus_beta1, beta2, one_minus_beta2;
  float step;          // learning_rate / (1 - beta1^t)
  float inverse_root;  // 1 / sqrt(1 - beta2^t)
  float eps;
};
struct SgdFactors {
  float gradient_scale, learning_rate, weight_decay, momentum;
  bool nesterov;
};

}  // namespace snug
#endif

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

// The body runs on whole vectors; at the end of the range loads and stores are partial.
// Destinations may be sources.
template <class D>
HWY_INLINE hn::Vec<D> load_some(D d, const float* src, int64_t n, int64_t step) {
  return n >= step ? hn::LoadU(d, src) : load_tail(d, src, n);
}
template <class D>
HWY_INLINE void store_some(hn::Vec<D> v, D d, float* dst, int64_t n, int64_t step) {
  if (n >= step) {
    hn::StoreU(v, d, dst);
  } else {
    store_tail(v, d, dst, n);
  }
}

// m' = m + (1 - beta1) (g - m);  v' = beta2 v + (1 - beta2) g^2;
// w' = keep w - step m' / (sqrt(v') / sqrt(1 - beta2^t) + eps)
void adamw_range(const AdamwFactors& f, const float* const* src, float* const* dst, int64_t begin,
                 int64_t end) {
  const F32 d;
  const int64_t step = lanes_f32();
  const auto scale = hn::Set(d, f.gradient_scale);
  const auto keep = hn::Set(d, f.keep);
  const auto one_minus_beta1 = hn::Set(d, f.one_minus_beta1);
  const auto beta2 = hn::Set(d, f.beta2);
  const auto one_minus_beta2 = hn::Set(d, f.one_minus_beta2);
  const auto step_size = hn::Set(d, f.step);
  const auto inverse_root = hn::Set(d, f.inverse_root);
  const auto eps = hn::Set(d, f.eps);
  for (int64_t i = begin; i < end; i += step) {
    const int64_t n = end - i;
    const auto g = hn::Mul(load_some(d, src[1] + i, n, step), scale);
    const auto m_old = load_some(d, src[2] + i, n, step);
    const auto m = hn::MulAdd(one_minus_beta1, hn::Sub(g, m_old), m_old);
    const auto v = hn::MulAdd(hn::Mul(one_minus_beta2, g), g,
                              hn::Mul(beta2, load_some(d, src[3] + i, n, step)));
    const auto denominator = hn::MulAdd(hn::Sqrt(v), inverse_root, eps);
    const auto w = hn::Mul(load_some(d, src[0] + i, n, step), keep);
    store_some(hn::Sub(w, hn::Div(hn::Mul(step_size, m), denominator)), d, dst[0] + i, n, step);
    store_some(m, d, dst[1] + i, n, step);
    store_some(v, d, dst[2] + i, n, step);
  }
}

// d = g + decay w;  buffer' = momentum buffer + d;  w' = w - lr (nesterov ? d + momentum buffer' :
// buffer')
void sgd_range(const SgdFactors& f, const float* const* src, float* const* dst, int64_t begin,
               int64_t end) {
  const F32 d;
  const int64_t step = lanes_f32();
  const auto scale = hn::Set(d, f.gradient_scale);
  const auto decay = hn::Set(d, f.weight_decay);
  const auto rate = hn::Set(d, f.learning_rate);
  const auto momentum = hn::Set(d, f.momentum);
  const bool has_buffer = src[2] != nullptr;
  for (int64_t i = begin; i < end; i += step) {
    const int64_t n = end - i;
    const auto w = load_some(d, src[0] + i, n, step);
    auto change = hn::MulAdd(load_some(d, src[1] + i, n, step), scale, hn::Mul(decay, w));
    if (has_buffer) {
      const auto buffer = hn::MulAdd(momentum, load_some(d, src[2] + i, n, step), change);
      store_some(buffer, d, dst[1] + i, n, step);
      change = f.nesterov ? hn::MulAdd(momentum, buffer, change) : buffer;
    }
    store_some(hn::NegMulAdd(rate, change, w), d, dst[0] + i, n, step);
  }
}

void add_range(float* dst, const float* a, const float* b, int64_t n) {
  map_vectors(dst, a, b, n, [](auto x, auto y) HWY_ATTR { return hn::Add(x, y); });
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace snug {

HWY_EXPORT(adamw_range);
HWY_EXPORT(sgd_range);
HWY_EXPORT(add_range);

namespace {

constexpr int64_t kGrain = 8192;  // elements; whole vectors

// The clipping coefficient at input `index`, or 1 where it is absent.
float coefficient(const Launch& launch, size_t index) {
  const auto* value = index < launch.inputs.size() ? input<float>(launch, index) : nullptr;
  return value == nullptr ? 1.0F : *value;
}

std::unique_ptr<Kernel> create_adamw(const NodeSpec& spec, const CpuContext& context) {
  const double beta1 = spec.attrs.real("beta1");
  const double beta2 = spec.attrs.real("beta2");
  const double eps = spec.attrs.real("eps");
  const double decay = spec.attrs.real("weight_decay");
  return make_kernel(
      [=, count = element_count(spec.inputs[0]), threads = context.threads](const Launch& launch) {
        // hyper: learning rate, 1 - beta1^t, 1 - beta2^t
        const auto* hyper = input<float>(launch, 4);
        const auto rate = static_cast<double>(hyper[0]);
        const AdamwFactors factors{
            .gradient_scale = coefficient(launch, 5),
            .keep = static_cast<float>(1.0 - rate * decay),
            .one_minus_beta1 = static_cast<float>(1.0 - beta1),
            .beta2 = static_cast<float>(beta2),
            .one_minus_beta2 = static_cast<float>(1.0 - beta2),
            .step = static_cast<float>(rate / static_cast<double>(hyper[1])),
            .inverse_root = static_cast<float>(1.0 / std::sqrt(static_cast<double>(hyper[2]))),
            .eps = static_cast<float>(eps)};
        const float* const src[] = {input<float>(launch, 0), input<float>(launch, 1),
                                    input<float>(launch, 2), input<float>(launch, 3)};
        float* const dst[] = {output<float>(launch, 0), output<float>(launch, 1),
                              output<float>(launch, 2)};
        const auto run = HWY_DYNAMIC_DISPATCH(adamw_range);
        parallel_for(threads, count, kGrain,
                     [&](int64_t begin, int64_t end) { run(factors, src, dst, begin, end); });
        return ErrorCode::ok;
      });
}

// sgd(w, g, hyper, coefficient?) and sgd_momentum(w, g, buffer, hyper, coefficient?).
std::unique_ptr<Kernel> create_sgd(const NodeSpec& spec, const CpuContext& context) {
  const bool has_buffer = *spec.op->name == "sgd_momentum";
  const size_t hyper_input = has_buffer ? 3 : 2;
  const double decay = spec.attrs.real("weight_decay");
  const double momentum = has_buffer ? spec.attrs.real("momentum") : 0.0;
  const bool nesterov = has_buffer && spec.attrs.boolean("nesterov");
  return make_kernel(
      [=, count = element_count(spec.inputs[0]), threads = context.threads](const Launch& launch) {
        const SgdFactors factors{.gradient_scale = coefficient(launch, hyper_input + 1),
                                 .learning_rate = input<float>(launch, hyper_input)[0],
                                 .weight_decay = static_cast<float>(decay),
                                 .momentum = static_cast<float>(momentum),
                                 .nesterov = nesterov};
        const float* const src[] = {input<float>(launch, 0), input<float>(launch, 1),
                                    has_buffer ? input<float>(launch, 2) : nullptr};
        float* const dst[] = {output<float>(launch, 0),
                              has_buffer ? output<float>(launch, 1) : nullptr};
        const auto run = HWY_DYNAMIC_DISPATCH(sgd_range);
        parallel_for(threads, count, kGrain,
                     [&](int64_t begin, int64_t end) { run(factors, src, dst, begin, end); });
        return ErrorCode::ok;
      });
}

std::unique_ptr<Kernel> create_accumulate(const NodeSpec& spec, const CpuContext& context) {
  return make_kernel(
      [count = element_count(spec.inputs[0]), threads = context.threads](const Launch& launch) {
        const float* acc = input<float>(launch, 0);
        const float* x = input<float>(launch, 1);
        auto* dst = output<float>(launch);
        const auto run = HWY_DYNAMIC_DISPATCH(add_range);
        parallel_for(threads, count, kGrain, [&](int64_t begin, int64_t end) {
          run(dst + begin, acc + begin, x + begin, end - begin);
        });
        return ErrorCode::ok;
      });
}

std::unique_ptr<Kernel> create_set_zero(const NodeSpec& spec, const CpuContext& context) {
  return make_kernel(
      [bytes = byte_count(spec.outputs[0]), threads = context.threads](const Launch& launch) {
        parallel_for(threads, bytes, kGrain * 4, [&](int64_t begin, int64_t end) {
          std::memset(launch.outputs[0] + begin, 0, static_cast<size_t>(end - begin));
        });
        return ErrorCode::ok;
      });
}

std::unique_ptr<Kernel> create_global_norm(const NodeSpec& spec, const CpuContext&) {
  return make_kernel([max_norm = spec.attrs.real("max_norm")](const Launch& launch) {
    double sum = 0;
    for (size_t i = 0; i < launch.inputs.size(); ++i)
      sum += static_cast<double>(*input<float>(launch, i));
    const double norm = std::sqrt(sum);
    double factor = 1.0;
    if (!std::isfinite(norm)) {
      factor = std::nan("");  // a gradient that is not finite must not look like a clipped one
    } else if (max_norm > 0) {
      factor = std::min(1.0, max_norm / (norm + 1e-6));
    }
    *output<float>(launch, 0) = static_cast<float>(norm);
    *output<float>(launch, 1) = static_cast<float>(factor);
    return ErrorCode::ok;
  });
}

}  // namespace

std::span<const CpuKernelDef> optimizer_cpu_kernels() {
  static const CpuKernelDef kernels[] = {
      {"accumulate", "simd:accumulate", always, no_scratch, create_accumulate},
      {"set_zero", "plain:set_zero", always, no_scratch, create_set_zero},
      {"global_norm", "plain:global_norm", always, no_scratch, create_global_norm},
      {"adamw", "simd:adamw", always, no_scratch, create_adamw},
      {"sgd", "simd:sgd", always, no_scratch, create_sgd},
      {"sgd_momentum", "simd:sgd_momentum", always, no_scratch, create_sgd},
  };
  return kernels;
}

}  // namespace snug
#endif

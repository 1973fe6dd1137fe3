// SPDX-License-Identifier: Apache-2.0
// CPU kernels of max_pool2d and max_pool2d_grad: vectors run along the channels. The gradient finds
// each maximum again; a thread owns whole images of some channels, since windows overlap.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/pool/pool_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include <algorithm>

#include "backend/cpu/rows-inl.h"
#include "ops/pool/pool.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

// The taps of one window that lie on the image; `at` is the element of the first one's channel 0.
struct Window {
  int64_t at = 0;
  int64_t rows = 0;
  int64_t columns = 0;
};
HWY_INLINE Window window_at(const Pool2dDims& d, int64_t i, int64_t j) {
  const auto [p_begin, p_end] = d.height.taps(i);
  const auto [q_begin, q_end] = d.width.taps(j);
  const int64_t pixel = d.height.pixel(i, p_begin) * d.width.size + d.width.pixel(j, q_begin);
  return {pixel * d.channels, p_end - p_begin, q_end - q_begin};
}

// The maxima of a window at channels [c, c + vector), and the numbers of their taps.
struct Maximum {
  V32 value;
  V32 tap;
};
HWY_INLINE Maximum find_maximum(const Pool2dDims& d, const float* image, const Window& window,
                                int64_t c, int64_t tail) {
  const F32 f;
  Maximum best = {load_at(image + window.at, c, tail), hn::Zero(f)};
  for (int64_t p = 0; p < window.rows; ++p) {
    for (int64_t q = 0; q < window.columns; ++q) {
      const int64_t tap = p * window.columns + q;
      const float* pixel = image + window.at + (p * d.width.size + q) * d.channels;
      const V32 v = load_at(pixel, c, tail);
      const auto wins = hn::Or(hn::Gt(v, best.value), hn::IsNaN(v));
      best.value = hn::IfThenElse(wins, v, best.value);
      best.tap = hn::IfThenElse(wins, hn::Set(f, static_cast<float>(tap)), best.tap);
    }
  }
  return best;
}

// One row of windows of one image.
void max_pool_row(const Pool2dDims& d, const float* image, int64_t i, float* y) {
  const int64_t lanes = lanes_f32();
  for (int64_t j = 0; j < d.width.count(); ++j) {
    const Window window = window_at(d, i, j);
    float* dst = y + j * d.channels;
    for (int64_t c = 0; c < d.channels; c += lanes) {
      const int64_t tail = c + lanes <= d.channels ? -1 : d.channels - c;
      store_at(find_maximum(d, image, window, c, tail).value, dst, c, tail);
    }
  }
}

// Adds the slope of one window to the dx of its maximum, at channels [c, c + vector).
HWY_INLINE void add_to_maximum(const Pool2dDims& d, const float* image, const Window& window,
                               V32 slope, float* dx, int64_t c, int64_t tail) {
  const F32 f;
  const Maximum best = find_maximum(d, image, window, c, tail);
  for (int64_t p = 0; p < window.rows; ++p) {
    for (int64_t q = 0; q < window.columns; ++q) {
      const auto tap = static_cast<float>(p * window.columns + q);
      float* to = dx + window.at + (p * d.width.size + q) * d.channels;
      const V32 share = hn::IfThenElseZero(hn::Eq(best.tap, hn::Set(f, tap)), slope);
      store_at(hn::Add(load_at(to, c, tail), share), to, c, tail);
    }
  }
}

// dx of channels [begin, end) of one image; begin is a multiple of the vector. Its rows are cleared
// right before the first windows that add to them, while they stay in a cache.
void max_pool_grad_image(const Pool2dDims& d, const float* image, const float* dy, float* dx,
                         int64_t begin, int64_t end) {
  const F32 f;
  const int64_t lanes = lanes_f32();
  int64_t cleared = 0;
  const auto clear_up_to = [&](int64_t row) HWY_ATTR {
    for (int64_t pixel = cleared * d.width.size; pixel < row * d.width.size; ++pixel) {
      for (int64_t c = begin; c < end; c += lanes)
        store_at(hn::Zero(f), dx + pixel * d.channels, c, c + lanes <= end ? -1 : end - c);
    }
    cleared = std::max(cleared, row);
  };
  for (int64_t i = 0; i < d.height.count(); ++i) {
    const auto [p_begin, p_end] = d.height.taps(i);
    clear_up_to(d.height.pixel(i, p_begin) + p_end - p_begin);
    for (int64_t j = 0; j < d.width.count(); ++j) {
      const Window window = window_at(d, i, j);
      const float* slopes = dy + (i * d.width.count() + j) * d.channels;
      for (int64_t c = begin; c < end; c += lanes) {
        const int64_t tail = c + lanes <= end ? -1 : end - c;
        add_to_maximum(d, image, window, load_at(slopes, c, tail), dx, c, tail);
      }
    }
  }
  clear_up_to(d.height.size);
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>

#include "backend/cpu/kernel.h"
#include "base/threads.h"

namespace snug {
namespace {

HWY_EXPORT(max_pool_row);
HWY_EXPORT(max_pool_grad_image);

constexpr int64_t kBlockChannels = 64;  // a multiple of every vector

std::unique_ptr<Kernel> create_forward(const NodeSpec& spec, const CpuContext& context) {
  const Pool2dDims dims = pool2d_dims(spec.inputs[0].shape, spec.attrs);
  const auto row_fn = HWY_DYNAMIC_DISPATCH(max_pool_row);
  return make_kernel([=, threads = context.threads](const Launch& launch) {
    const float* x = input<float>(launch, 0);
    auto* y = output<float>(launch);
    const int64_t rows = dims.height.count();
    const int64_t row_elements = dims.width.count() * dims.channels;
    const int64_t image = dims.height.size * dims.width.size * dims.channels;
    parallel_for(threads, dims.batch * rows, 1, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        row_fn(dims, x + row / rows * image, row % rows, y + row * row_elements);
    });
    return ErrorCode::ok;
  });
}

std::unique_ptr<Kernel> create_grad(const NodeSpec& spec, const CpuContext& context) {
  const Pool2dDims dims = pool2d_dims(spec.inputs[0].shape, spec.attrs);
  const auto image_fn = HWY_DYNAMIC_DISPATCH(max_pool_grad_image);
  return make_kernel([=, threads = context.threads](const Launch& launch) {
    const float* x = input<float>(launch, 0);
    const float* dy = input<float>(launch, 1);
    auto* dx = output<float>(launch);
    const int64_t image = dims.height.size * dims.width.size * dims.channels;
    const int64_t slopes = dims.height.count() * dims.width.count() * dims.channels;
    const int64_t blocks = (dims.channels + kBlockChannels - 1) / kBlockChannels;
    parallel_for(threads, dims.batch * blocks, 1, [&](int64_t begin, int64_t end) {
      for (int64_t item = begin; item < end; ++item) {
        const int64_t n = item / blocks;
        const int64_t channel = item % blocks * kBlockChannels;
        image_fn(dims, x + n * image, dy + n * slopes, dx + n * image, channel,
                 std::min(channel + kBlockChannels, dims.channels));
      }
    });
    return ErrorCode::ok;
  });
}

}  // namespace

std::span<const CpuKernelDef> pool_cpu_kernels() {
  static const CpuKernelDef kernels[] = {
      {"max_pool2d", "simd:max_pool2d", "f32 -> f32", always, no_scratch, create_forward},
      {"max_pool2d_grad", "simd:max_pool2d_grad", "f32 f32 -> f32", always, no_scratch,
       create_grad},
  };
  return kernels;
}

}  // namespace snug
#endif  // HWY_ONCE

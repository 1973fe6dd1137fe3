// SPDX-License-Identifier: Apache-2.0
// CPU kernels of the LSTM cell: one pass over the gates of a row, everything in registers. Each
// element of a state depends on its own four gates only, so bits do not depend on the number of
// threads, and outputs may lie on the inputs of their shape.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "ops/lstm/lstm_cpu.cc"
#include "hwy/foreach_target.h"  // IWYU pragma: keep
#include "hwy/highway.h"

#include "backend/cpu/math-inl.h"
#include "backend/cpu/rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace snug {
namespace HWY_NAMESPACE {

struct LstmGates {
  V32 i, f, g, o;
};
HWY_INLINE LstmGates lstm_gates(const float* gates, int64_t hidden, int64_t at, int64_t tail) {
  return {sigmoid_full(load_at(gates, at, tail)), sigmoid_full(load_at(gates + hidden, at, tail)),
          tanh_full(load_at(gates + 2 * hidden, at, tail)),
          sigmoid_full(load_at(gates + 3 * hidden, at, tail))};
}

void lstm_cell_row(const float* gates, const float* c, float* h_next, float* c_next,
                   int64_t hidden) {
  const auto step = [&](int64_t at, int64_t tail) HWY_ATTR {
    const LstmGates gate = lstm_gates(gates, hidden, at, tail);
    const V32 next = hn::MulAdd(gate.f, load_at(c, at, tail), hn::Mul(gate.i, gate.g));
    store_at(next, c_next, at, tail);
    store_at(hn::Mul(gate.o, tanh_full(next)), h_next, at, tail);
  };
  const int64_t lanes = lanes_f32();
  int64_t at = 0;
  for (; at + lanes <= hidden; at += lanes) step(at, -1);
  if (at < hidden) step(at, hidden - at);
}

// dh or dc may be null: zero.
void lstm_cell_grad_row(const float* gates, const float* c, const float* dh, const float* dc,
                        float* dgates, float* dc_before, int64_t hidden) {
  const V32 one = constant(1.0F);
  const V32 zero = hn::Zero(F32());
  const auto step = [&](int64_t at, int64_t tail) HWY_ATTR {
    const LstmGates gate = lstm_gates(gates, hidden, at, tail);
    const V32 before = load_at(c, at, tail);
    const V32 squashed = tanh_full(hn::MulAdd(gate.f, before, hn::Mul(gate.i, gate.g)));
    const V32 slope_h = dh == nullptr ? zero : load_at(dh, at, tail);
    const V32 slope_c = dc == nullptr ? zero : load_at(dc, at, tail);
    const V32 bend = hn::NegMulAdd(squashed, squashed, one);
    const V32 e = hn::MulAdd(hn::Mul(slope_h, gate.o), bend, slope_c);
    const auto through_sigmoid = [&](V32 slope, V32 y) HWY_ATTR {
      return hn::Mul(hn::Mul(slope, y), hn::Sub(one, y));
    };
    store_at(through_sigmoid(hn::Mul(e, gate.g), gate.i), dgates, at, tail);
    store_at(through_sigmoid(hn::Mul(e, before), gate.f), dgates + hidden, at, tail);
    store_at(hn::Mul(hn::Mul(e, gate.i), hn::NegMulAdd(gate.g, gate.g, one)), dgates + 2 * hidden,
             at, tail);
    store_at(through_sigmoid(hn::Mul(slope_h, squashed), gate.o), dgates + 3 * hidden, at, tail);
    store_at(hn::Mul(e, gate.f), dc_before, at, tail);
  };
  const int64_t lanes = lanes_f32();
  int64_t at = 0;
  for (; at + lanes <= hidden; at += lanes) step(at, -1);
  if (at < hidden) step(at, hidden - at);
}

}  // namespace HWY_NAMESPACE
}  // namespace snug
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
#include <algorithm>
#include <cstring>

#include "backend/cpu/kernel.h"
#include "base/threads.h"

namespace snug {
namespace {

HWY_EXPORT(lstm_cell_row);
HWY_EXPORT(lstm_cell_grad_row);

constexpr int64_t kWorthAThreadElements = 2048;  // of a state; each costs five activations

struct CellShape {
  int64_t rows = 0;
  int64_t hidden = 0;
  [[nodiscard]] int64_t grain() const {
    return std::max<int64_t>(1, kWorthAThreadElements / std::max<int64_t>(1, hidden));
  }
};
CellShape shape_of(const NodeSpec& spec) {
  return {.rows = spec.inputs[1].shape[0], .hidden = spec.inputs[1].shape[1]};
}

void copy_row(float* dst, const float* src, int64_t n) {
  std::memmove(dst, src, static_cast<size_t>(n) * sizeof(float));
}
void zero_row(float* dst, int64_t n) {
  std::memset(dst, 0, static_cast<size_t>(n) * sizeof(float));
}
void copy_or_zero(float* dst, const float* src, int64_t n) {
  if (src != nullptr) {
    copy_row(dst, src, n);
  } else {
    zero_row(dst, n);
  }
}

std::unique_ptr<Kernel> create_forward(const NodeSpec& spec, const CpuContext& context) {
  const auto row_fn = HWY_DYNAMIC_DISPATCH(lstm_cell_row);
  return make_kernel([=, shape = shape_of(spec), threads = context.threads](const Launch& launch) {
    const float* gates = input<float>(launch, 0);
    const float* c = input<float>(launch, 1);
    const float* h = input<float>(launch, 2);
    const auto* mask = input<uint8_t>(launch, 3);
    auto* h_next = output<float>(launch, 0);
    auto* c_next = output<float>(launch, 1);
    parallel_for(threads, shape.rows, shape.grain(), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t at = row * shape.hidden;
        if (mask[row] != 0) {
          row_fn(gates + 4 * at, c + at, h_next + at, c_next + at, shape.hidden);
        } else {
          copy_row(h_next + at, h + at, shape.hidden);
          copy_row(c_next + at, c + at, shape.hidden);
        }
      }
    });
    return ErrorCode::ok;
  });
}

std::unique_ptr<Kernel> create_grad(const NodeSpec& spec, const CpuContext& context) {
  const auto row_fn = HWY_DYNAMIC_DISPATCH(lstm_cell_grad_row);
  return make_kernel([=, shape = shape_of(spec), threads = context.threads](const Launch& launch) {
    const float* gates = input<float>(launch, 0);
    const float* c = input<float>(launch, 1);
    const auto* mask = input<uint8_t>(launch, 2);
    const float* dh_next = input<float>(launch, 3);
    const float* dc_next = input<float>(launch, 4);
    auto* dgates = output<float>(launch, 0);
    auto* dc = output<float>(launch, 1);
    auto* dh = output<float>(launch, 2);
    parallel_for(threads, shape.rows, shape.grain(), [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        const int64_t at = row * shape.hidden;
        const float* slope_h = dh_next == nullptr ? nullptr : dh_next + at;
        const float* slope_c = dc_next == nullptr ? nullptr : dc_next + at;
        if (mask[row] != 0) {
          row_fn(gates + 4 * at, c + at, slope_h, slope_c, dgates + 4 * at, dc + at, shape.hidden);
          zero_row(dh + at, shape.hidden);
        } else {
          zero_row(dgates + 4 * at, 4 * shape.hidden);
          copy_or_zero(dc + at, slope_c, shape.hidden);
          copy_or_zero(dh + at, slope_h, shape.hidden);
        }
      }
    });
    return ErrorCode::ok;
  });
}

}  // namespace

std::span<const CpuKernelDef> lstm_cpu_kernels() {
  static const CpuKernelDef kernels[] = {
      {"lstm_cell", "simd:lstm_cell", "f32 f32 f32 bool -> f32 f32", always, no_scratch,
       create_forward},
      {"lstm_cell_grad", "simd:lstm_cell_grad", "f32 f32 bool f32 f32 -> f32 f32 f32", always,
       no_scratch, create_grad},
  };
  return kernels;
}

}  // namespace snug
#endif  // HWY_ONCE

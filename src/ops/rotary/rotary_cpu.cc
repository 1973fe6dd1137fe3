// SPDX-License-Identifier: Apache-2.0
// Loops that compilers vectorise: each number is moved once. Sines and cosines of all tokens are
// formed first, in the scratch.
#include <algorithm>
#include <array>
#include <cstring>

#include "backend/cpu/half_rows.h"
#include "backend/cpu/kernel.h"
#include "base/threads.h"
#include "ops/rotary/rotary.h"

namespace snug {
namespace {

constexpr int64_t kMaxColumns = 1024;

struct RotaryShape {
  int64_t rows = 0;  // B T
  int64_t tokens = 0;
  int64_t width = 0;
  int64_t columns = 0;
  double theta = 0;
  int64_t element_bytes = 0;
};
// `part`: the type of q.
RotaryShape shape_of(const NodeSpec& spec, const TensorType& part) {
  return {.rows = part.shape[0] * part.shape[1],
          .tokens = part.shape[1],
          .width = part.shape[2],
          .columns = part.shape[2] / spec.attrs.int64("heads"),
          .theta = spec.attrs.real("theta"),
          .element_bytes = snug::element_bytes(part.dtype)};
}

// Bytes of a table that has D / 2 cosines for each token, then as many sines.
int64_t table_bytes(const RotaryShape& shape) {
  return shape.tokens * shape.columns * static_cast<int64_t>(sizeof(float));
}
int64_t forward_scratch(const NodeSpec& spec, const CpuContext&) {
  return table_bytes(shape_of(spec, spec.outputs[0]));
}
int64_t grad_scratch(const NodeSpec& spec, const CpuContext&) {
  return table_bytes(shape_of(spec, spec.inputs[0]));
}

void fill_table(const RotaryShape& shape, int threads, float sign, float* table) {
  const int64_t half = shape.columns / 2;
  parallel_for(threads, shape.tokens, 16, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      float* row = table + t * shape.columns;
      for (int64_t i = 0; i < half; ++i) {
        const double angle = rotary_angle(shape.theta, shape.columns, i, t);
        row[i] = static_cast<float>(std::cos(angle));
        row[i + half] = sign * static_cast<float>(std::sin(angle));
      }
    }
  });
}

void turn(const float* x, const float* table, int64_t half, float* y) {
  const float* sines = table + half;
  for (int64_t i = 0; i < half; ++i) {
    const float a = x[i];
    const float b = x[i + half];
    y[i] = a * table[i] - b * sines[i];
    y[i + half] = b * table[i] + a * sines[i];
  }
}

// Turns q and k and copies v, between their own memory and packed rows.
template <bool kIsGradient>
std::unique_ptr<Kernel> create(const NodeSpec& spec, const CpuContext& context) {
  const TensorType& part = kIsGradient ? spec.inputs[0] : spec.outputs[0];
  return make_kernel([shape = shape_of(spec, part), rows = FloatRows(part.dtype),
                      threads = context.threads](const Launch& launch) {
    auto* table = scratch_at<float>(launch);
    fill_table(shape, threads, kIsGradient ? -1.0F : 1.0F, table);
    const int64_t grain = std::max<int64_t>(1, 4096 / (3 * shape.width));
    parallel_for(threads, shape.rows, grain, [&](int64_t begin, int64_t end) {
      std::array<float, kMaxColumns> read;
      std::array<float, kMaxColumns> turned;
      for (int64_t row = begin; row < end; ++row) {
        const float* angles = table + row % shape.tokens * shape.columns;
        for (size_t i = 0; i < 3; ++i) {
          const int64_t own = row * shape.width;
          const int64_t packed = (row * 3 + static_cast<int64_t>(i)) * shape.width;
          const std::byte* from = launch.inputs[kIsGradient ? i : 0];
          std::byte* to = launch.outputs[kIsGradient ? 0 : i];
          const int64_t at = kIsGradient ? own : packed;
          const int64_t place = kIsGradient ? packed : own;
          if (i == 2) {
            std::memcpy(to + place * shape.element_bytes, from + at * shape.element_bytes,
                        static_cast<size_t>(shape.width * shape.element_bytes));
            continue;
          }
          for (int64_t head = 0; head < shape.width; head += shape.columns) {
            const float* x = rows.read(from, at + head, shape.columns, read.data());
            float* y = rows.place(to, place + head, turned.data());
            turn(x, angles, shape.columns / 2, y);
            rows.write(y, to, place + head, shape.columns);
          }
        }
      }
    });
    return ErrorCode::ok;
  });
}

}  // namespace

std::span<const CpuKernelDef> rotary_cpu_kernels() {
  static const CpuKernelDef kernels[] = {
      {"rotary_qkv", "plain:rotary_qkv", "f32|bf16|f16 -> f32|bf16|f16 f32|bf16|f16 f32|bf16|f16",
       always, forward_scratch, create<false>},
      {"rotary_qkv_grad", "plain:rotary_qkv_grad",
       "f32|bf16|f16 f32|bf16|f16 f32|bf16|f16 -> f32|bf16|f16", always, grad_scratch,
       create<true>},
  };
  return kernels;
}

}  // namespace snug

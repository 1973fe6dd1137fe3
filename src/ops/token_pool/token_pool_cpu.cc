// SPDX-License-Identifier: Apache-2.0
// CPU kernels of masked_mean, masked_max and their gradients. A thread owns some columns of some
// rows and goes through the tokens in their order; every pass is bound by reading or writing x.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "backend/cpu/half_rows.h"
#include "backend/cpu/kernel.h"
#include "base/threads.h"
#include "ops/token_pool/token_pool.h"

namespace snug {
namespace {

constexpr int64_t kBlockColumns = 256;
using Block = std::array<float, kBlockColumns>;

struct Sizes {
  int64_t rows = 0;
  int64_t tokens = 0;
  int64_t columns = 0;
};

Sizes sizes_of(const Shape& x) { return {.rows = x[0], .tokens = x[1], .columns = x[2]}; }

// Calls body(row, first column, columns) for all of them.
template <class Body>
void for_blocks(int threads, const Sizes& sizes, const Body& body) {
  const int64_t blocks = (sizes.columns + kBlockColumns - 1) / kBlockColumns;
  parallel_for(threads, sizes.rows * blocks, 1, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t first = item % blocks * kBlockColumns;
      body(item / blocks, first, std::min(kBlockColumns, sizes.columns - first));
    }
  });
}

int64_t tokens_there(const uint8_t* mask, int64_t tokens) {
  return tokens - std::count(mask, mask + tokens, uint8_t{0});
}

std::unique_ptr<Kernel> create_mean(const NodeSpec& spec, const CpuContext& context) {
  const Sizes sizes = sizes_of(spec.inputs[0].shape);
  const FloatRows rows(spec.inputs[0].dtype);
  return make_kernel([=, threads = context.threads](const Launch& launch) {
    for_blocks(threads, sizes, [&](int64_t row, int64_t first, int64_t n) {
      const uint8_t* mask = input<uint8_t>(launch, 1) + row * sizes.tokens;
      Block sum{};
      Block copy;
      for (int64_t t = 0; t < sizes.tokens; ++t) {
        if (mask[t] == 0) continue;
        const float* x = rows.read(
            launch.inputs[0], (row * sizes.tokens + t) * sizes.columns + first, n, copy.data());
        for (int64_t i = 0; i < n; ++i) sum[static_cast<size_t>(i)] += x[i];
      }
      const auto tokens =
          static_cast<float>(std::max<int64_t>(tokens_there(mask, sizes.tokens), 1));
      const int64_t at = row * sizes.columns + first;
      float* y = rows.place(launch.outputs[0], at, copy.data());
      for (int64_t i = 0; i < n; ++i) y[i] = sum[static_cast<size_t>(i)] / tokens;
      rows.write(y, launch.outputs[0], at, n);
    });
    return ErrorCode::ok;
  });
}

std::unique_ptr<Kernel> create_mean_grad(const NodeSpec& spec, const CpuContext& context) {
  const Sizes sizes = sizes_of(spec.outputs[0].shape);
  const FloatRows rows(spec.outputs[0].dtype);
  return make_kernel([=, threads = context.threads](const Launch& launch) {
    for_blocks(threads, sizes, [&](int64_t row, int64_t first, int64_t n) {
      const uint8_t* mask = input<uint8_t>(launch, 0) + row * sizes.tokens;
      const auto tokens =
          static_cast<float>(std::max<int64_t>(tokens_there(mask, sizes.tokens), 1));
      Block copy;
      Block share{};
      const float* dy = rows.read(launch.inputs[1], row * sizes.columns + first, n, copy.data());
      for (int64_t i = 0; i < n; ++i) share[static_cast<size_t>(i)] = dy[i] / tokens;
      for (int64_t t = 0; t < sizes.tokens; ++t) {
        const int64_t at = (row * sizes.tokens + t) * sizes.columns + first;
        float* dx = rows.place(launch.outputs[0], at, copy.data());
        for (int64_t i = 0; i < n; ++i) dx[i] = mask[t] == 0 ? 0 : share[static_cast<size_t>(i)];
        rows.write(dx, launch.outputs[0], at, n);
      }
    });
    return ErrorCode::ok;
  });
}

std::unique_ptr<Kernel> create_max(const NodeSpec& spec, const CpuContext& context) {
  const Sizes sizes = sizes_of(spec.inputs[0].shape);
  const FloatRows rows(spec.inputs[0].dtype);
  return make_kernel([=, threads = context.threads](const Launch& launch) {
    for_blocks(threads, sizes, [&](int64_t row, int64_t first, int64_t n) {
      const uint8_t* mask = input<uint8_t>(launch, 1) + row * sizes.tokens;
      const int64_t at = row * sizes.columns + first;
      auto* token = output<int32_t>(launch, 1) + at;
      std::fill_n(token, n, -1);
      Block largest{};
      Block copy;
      for (int64_t t = 0; t < sizes.tokens; ++t) {
        if (mask[t] == 0) continue;
        const float* x = rows.read(
            launch.inputs[0], (row * sizes.tokens + t) * sizes.columns + first, n, copy.data());
        for (int64_t i = 0; i < n; ++i) {
          float& best = largest[static_cast<size_t>(i)];
          const bool wins = token[i] < 0 || x[i] > best || (std::isnan(x[i]) && !std::isnan(best));
          best = wins ? x[i] : best;
          token[i] = wins ? static_cast<int32_t>(t) : token[i];
        }
      }
      float* y = rows.place(launch.outputs[0], at, copy.data());
      std::copy_n(largest.data(), n, y);
      rows.write(y, launch.outputs[0], at, n);
    });
    return ErrorCode::ok;
  });
}

std::unique_ptr<Kernel> create_max_grad(const NodeSpec& spec, const CpuContext& context) {
  const Sizes sizes = sizes_of(spec.outputs[0].shape);
  const FloatRows rows(spec.outputs[0].dtype);
  return make_kernel([=, threads = context.threads](const Launch& launch) {
    for_blocks(threads, sizes, [&](int64_t row, int64_t first, int64_t n) {
      const int64_t from = row * sizes.columns + first;
      const int32_t* token = input<int32_t>(launch, 0) + from;
      Block slopes;
      Block copy;
      const float* dy = rows.read(launch.inputs[1], from, n, slopes.data());
      for (int64_t t = 0; t < sizes.tokens; ++t) {
        const int64_t at = (row * sizes.tokens + t) * sizes.columns + first;
        float* dx = rows.place(launch.outputs[0], at, copy.data());
        for (int64_t i = 0; i < n; ++i) dx[i] = token[i] == t ? dy[i] : 0;
        rows.write(dx, launch.outputs[0], at, n);
      }
    });
    return ErrorCode::ok;
  });
}

}  // namespace

std::span<const CpuKernelDef> token_pool_cpu_kernels() {
  static const CpuKernelDef kernels[] = {
      {"masked_mean", "plain:masked_mean", "f32|bf16|f16 bool -> f32|bf16|f16", always, no_scratch,
       create_mean},
      {"masked_mean_grad", "plain:masked_mean_grad", "bool f32|bf16|f16 -> f32|bf16|f16", always,
       no_scratch, create_mean_grad},
      {"masked_max", "plain:masked_max", "f32|bf16|f16 bool -> f32|bf16|f16 i32", always,
       no_scratch, create_max},
      {"masked_max_grad", "plain:masked_max_grad", "i32 f32|bf16|f16 -> f32|bf16|f16", always,
       no_scratch, create_max_grad},
  };
  return kernels;
}

}  // namespace snug

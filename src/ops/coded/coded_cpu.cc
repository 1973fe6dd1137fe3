// SPDX-License-Identifier: Apache-2.0
// CPU kernels of weights in fewer bits. The product (backend/cpu/product) decodes rows of the
// weight into the panels that it packs: the weight as f32 is nowhere.
#include <algorithm>
#include <optional>

#include "backend/cpu/half_rows.h"
#include "backend/cpu/kernel.h"
#include "backend/cpu/product/product.h"
#include "backend/cpu/product/stored_floats.h"
#include "backend/cpu/weight_rows.h"
#include "base/threads.h"
#include "ops/coded/coded.h"
#include "ops/embedding/embedding_cpu.h"

namespace snug {
namespace {

/// A weight in memory, whichever type it has.
struct CodedWeight {
  int64_t rows = 0;
  int64_t columns = 0;
  std::optional<WeightRows> floats = {};
  const std::byte* data = nullptr;
  const float* scales = nullptr;

  /// Elements [first, first + n) of a row.
  void decode(int64_t row, int64_t first, int64_t n, float* dst) const {
    const int64_t at = row * columns + first;
    if (floats) {
      (void)floats->read(data, at, n, dst);
      return;
    }
    const auto* const codes = reinterpret_cast<const uint8_t*>(data) + at;
    const float* const own = scales + row * coded_blocks(columns);
    for (int64_t i = 0; i < n;) {
      const int64_t block = (first + i) / kCodedBlock;
      const int64_t count = std::min(n - i, (block + 1) * kCodedBlock - (first + i));
      decode_coded_row({codes + i, static_cast<size_t>(count)}, {own + block, 1},
                       {dst + i, static_cast<size_t>(count)});
      i += count;
    }
  }
};

CodedWeight weight_of(const Launch& launch, const TensorType& type, size_t weight, size_t scales) {
  CodedWeight found{.rows = type.shape[0], .columns = type.shape[1], .data = launch.inputs[weight]};
  if (is_floating(type.dtype)) {
    found.floats.emplace(type);
  } else {
    found.scales = input<float>(launch, scales);
  }
  return found;
}

// y = a op(weight) + bias: a row, or what y begins with.
ProductSpec spec_of_product(const NodeSpec& spec) {
  const Shape& weight = spec.inputs[1].shape;
  const bool transpose_b = spec.attrs.boolean("transpose_b");
  ProductSpec product{.n = transpose_b ? weight[0] : weight[1],
                      .k = transpose_b ? weight[1] : weight[0],
                      .transpose_b = transpose_b,
                      .reads_b = true,
                      .accumulates = spec.inputs.has(3) && spec.inputs[3].shape.size() > 1};
  const Shape& y = spec.outputs[0].shape;
  product.m = 1;
  for (size_t i = 0; i + 1 < y.size(); ++i) product.m *= y[i];
  return product;
}

void read_weight(const void* source, int64_t row, int64_t first, int64_t count,
                 float* out) noexcept {
  static_cast<const CodedWeight*>(source)->decode(row, first, count, out);
}

class CodedMatmul final : public Kernel {
 public:
  CodedMatmul(const NodeSpec& spec, int threads)
      : weight_(spec.inputs[1]),
        has_bias_(spec.inputs.has(3)),
        product_(spec_of_product(spec), threads) {}

  [[nodiscard]] ErrorCode run(const Launch& launch) const noexcept override {
    const ProductSpec& spec = product_.spec();
    if (spec.accumulates)
      copy_overwritten(launch, 0, 3, spec.m * spec.n * element_bytes(DType::f32));
    const CodedWeight weight = weight_of(launch, weight_, 1, 2);
    const float* bias = has_bias_ && !spec.accumulates ? input<float>(launch, 3) : nullptr;
    const StoredTiles tiles(DType::f32, launch.outputs[0], spec.n, bias);
    ProductLaunch product{.a = {.data = input<float>(launch, 0), .stride = spec.k},
                          .b = {.read = read_weight, .source = &weight},
                          .scratch = launch.scratch};
    tiles.attach(spec, product);
    product_.run(product);
    return ErrorCode::ok;
  }

 private:
  TensorType weight_;
  bool has_bias_;
  Product product_;
};

int64_t product_scratch(const NodeSpec& spec, const CpuContext& context) {
  return Product(spec_of_product(spec), context.threads).scratch_bytes();
}
std::unique_ptr<Kernel> create_product(const NodeSpec& spec, const CpuContext& context) {
  return std::make_unique<CodedMatmul>(spec, context.threads);
}

std::unique_ptr<Kernel> create_embedding(const NodeSpec& spec, const CpuContext& context) {
  return make_kernel([type = spec.inputs[0], count = element_count(spec.inputs[1]),
                      to = FloatRows(spec.outputs[0].dtype),
                      threads = context.threads](const Launch& launch) {
    const CodedWeight weight = weight_of(launch, type, 0, 2);
    const auto* ids = input<int32_t>(launch, 1);
    std::byte* const y = launch.outputs[0];
    if (!ids_are_valid({.rows = weight.rows, .width = weight.columns, .count = count}, ids))
      return ErrorCode::bad_data;
    const int64_t grain = 1 + kWorthAThreadElements / (weight.columns + 1);
    parallel_for(threads, count, grain, [&](int64_t begin, int64_t end) {
      float buffer[kCodedBlock];
      for (int64_t i = begin; i < end; ++i) {
        for (int64_t first = 0; first < weight.columns; first += kCodedBlock) {
          const int64_t n = std::min(kCodedBlock, weight.columns - first);
          const int64_t at = i * weight.columns + first;
          float* const row = to.place(y, at, buffer);
          weight.decode(ids[i], first, n, row);
          to.write(row, y, at, n);
        }
      }
    });
    return ErrorCode::ok;
  });
}

// Blocks of columns of sums, each a row of f32 that decoded rows are added to in order.
std::unique_ptr<Kernel> create_coded_sum(const NodeSpec& spec, const CpuContext& context) {
  const int64_t count = element_count(spec.inputs[1]);
  const int64_t tokens = spec.inputs[1].shape.back();
  const int64_t columns = spec.inputs[0].shape[1];
  const int64_t blocks = (columns + kCodedBlock - 1) / kCodedBlock;
  const int64_t sums = columns == 0 ? 0 : element_count(spec.outputs[0]) / columns;
  return make_kernel([=, type = spec.inputs[0], threads = context.threads](const Launch& launch) {
    const CodedWeight weight = weight_of(launch, type, 0, 3);
    const auto* ids = input<int32_t>(launch, 1);
    if (!ids_are_valid({.rows = weight.rows, .width = weight.columns, .count = count}, ids))
      return ErrorCode::bad_data;
    const int64_t grain = 1 + kWorthAThreadElements / (tokens * kCodedBlock + 1);
    parallel_for(threads, sums * blocks, grain, [&](int64_t begin, int64_t end) {
      float row[kCodedBlock];
      for (int64_t item = begin; item < end; ++item) {
        const int64_t sum = item / blocks;
        const int64_t first = item % blocks * kCodedBlock;
        const int64_t n = std::min(kCodedBlock, columns - first);
        float* const y = output<float>(launch) + sum * columns + first;
        std::fill_n(y, n, 0.0F);
        for (int64_t i = sum * tokens; i < (sum + 1) * tokens; ++i) {
          const float factor = input<float>(launch, 2)[i];
          if (factor == 0) continue;
          weight.decode(ids[i], first, n, row);
          for (int64_t j = 0; j < n; ++j) y[j] += factor * row[j];
        }
      }
    });
    return ErrorCode::ok;
  });
}

}  // namespace

std::span<const CpuKernelDef> coded_cpu_kernels() {
  static const CpuKernelDef kernels[] = {
      {"coded_matmul", "simd:coded_matmul", "f32 u8|bf16|bf16x8 f32 f32 -> f32", always,
       product_scratch, create_product},
      {"coded_embedding", "plain:coded_embedding", "u8|bf16|bf16x8 i32 f32 -> f32|bf16|f16", always,
       no_scratch, create_embedding},
      {"coded_embedding_sum", "plain:coded_embedding_sum", "u8|bf16|bf16x8 i32 f32 f32 -> f32",
       always, no_scratch, create_coded_sum},
  };
  return kernels;
}

}  // namespace snug

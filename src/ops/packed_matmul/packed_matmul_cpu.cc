// SPDX-License-Identifier: Apache-2.0
// simd:pack_weight and simd:packed_matmul: products of our own (backend/cpu/product) with panels
// that are there. A bias of the product's own shape is what the sums begin with, as in matmul.
#include <algorithm>

#include "backend/cpu/kernel.h"
#include "backend/cpu/product/panels.h"
#include "backend/cpu/product/product.h"
#include "backend/cpu/product/stored_floats.h"
#include "ops/packed_matmul/packed_matmul.h"

namespace snug {
namespace {

std::string pack_accepts(const NodeSpec& spec, const CpuContext&) {
  return reason_against_panels(spec.attrs.int64("width"));
}
std::unique_ptr<Kernel> create_pack(const NodeSpec& spec, const CpuContext& context) {
  const Shape& w = spec.inputs[0].shape;
  const bool transpose = spec.attrs.boolean("transpose");
  const PanelShape shape{.n = w[transpose ? 0 : 1],
                         .k = w[transpose ? 1 : 0],
                         .transposed = transpose,
                         .columns = spec.attrs.int64("width")};
  return make_kernel([shape, threads = context.threads](const Launch& launch) {
    pack_panels(shape, threads, input<float>(launch, 0), output<float>(launch));
    return ErrorCode::ok;
  });
}

bool has_whole_bias(const NodeSpec& spec) {
  return spec.inputs.has(2) && spec.inputs[2].shape.size() > 1;
}

ProductSpec spec_of_product(const NodeSpec& spec) {
  const Shape& a = spec.inputs[0].shape;
  int64_t rows = 1;
  for (size_t i = 0; i + 1 < a.size(); ++i) rows *= a[i];
  return {.m = rows,
          .n = spec.attrs.int64("columns"),
          .k = a.back(),
          .accumulates = has_whole_bias(spec),
          .panel_columns = spec.inputs[1].shape.back()};
}

class PackedMatmul final : public Kernel {
 public:
  PackedMatmul(const NodeSpec& spec, int threads)
      : product_(spec_of_product(spec), threads),
        has_row_(spec.inputs.has(2) && !has_whole_bias(spec)) {}

  [[nodiscard]] ErrorCode run(const Launch& launch) const noexcept override {
    const ProductSpec& p = product_.spec();
    if (p.accumulates) {
      const int64_t bytes = p.m * p.n * static_cast<int64_t>(sizeof(float));
      copy_overwritten(launch, 0, 2, bytes);
    }
    const StoredTiles tiles(DType::f32, launch.outputs[0], p.n,
                            has_row_ ? input<float>(launch, 2) : nullptr);
    ProductLaunch product{.a = {.data = input<float>(launch, 0), .stride = p.k},
                          .b = {.data = input<float>(launch, 1)},
                          .scratch = launch.scratch};
    tiles.attach(p, product);
    product_.run(product);
    return ErrorCode::ok;
  }

 private:
  Product product_;
  bool has_row_;
};

std::string product_accepts(const NodeSpec& spec, const CpuContext&) {
  return reason_against_panels(spec.inputs[1].shape.back());
}
int64_t product_scratch(const NodeSpec& spec, const CpuContext& context) {
  return Product(spec_of_product(spec), context.threads).scratch_bytes();
}
std::unique_ptr<Kernel> create_product(const NodeSpec& spec, const CpuContext& context) {
  return std::make_unique<PackedMatmul>(spec, context.threads);
}

}  // namespace

std::span<const CpuKernelDef> packed_matmul_cpu_kernels() {
  static const CpuKernelDef kernels[] = {
      {"pack_weight", "simd:pack_weight", "f32 -> f32", pack_accepts, no_scratch, create_pack},
      {"packed_matmul", "simd:packed_matmul", "f32 f32 f32 -> f32", product_accepts,
       product_scratch, create_product},
  };
  return kernels;
}

}  // namespace snug

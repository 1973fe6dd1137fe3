// SPDX-License-Identifier: Apache-2.0
// simd:matmul: products of our own (backend/cpu/product). Operands in 16 bits are widened as they
// are packed; where instructions make products of f32 copies by oneDNN faster, it leaves them to
// those.
#include "backend/cpu/onednn.h"
#include "backend/cpu/product/product.h"
#include "backend/cpu/product/stored_floats.h"
#include "ops/matmul/matmul_cpu.h"

namespace snug {
namespace {

ProductSpec spec_of_product(const MatmulNode& node) {
  const bool is_half = node.operands != DType::f32;
  return {.batches = node.batches,
          .m = node.m,
          .n = node.n,
          .k = node.k,
          .transpose_a = node.transpose_a,
          .transpose_b = node.transpose_b,
          .reads_a = is_half,
          .reads_b = is_half,
          .accumulates = node.accumulates,
          .holds_tiles = node.stored != DType::f32};
}

class SimdMatmul final : public Kernel {
 public:
  SimdMatmul(const MatmulNode& node, int threads)
      : node_(node), product_(spec_of_product(node), threads) {}

  [[nodiscard]] ErrorCode run(const Launch& launch) const noexcept override {
    std::byte* const dst = launch.outputs[0];
    if (node_.accumulates) {
      const int64_t elements = node_.batches * node_.m * node_.n;
      copy_overwritten(launch, 0, node_.sum_input, elements * element_bytes(node_.stored));
    }
    const StoredRows a(node_.operands, launch.inputs[node_.a_input],
                       node_.transpose_a ? node_.m : node_.k);
    const StoredRows b(node_.operands, launch.inputs[node_.a_input + 1],
                       node_.transpose_b ? node_.k : node_.n);
    const float* bias = node_.has_bias ? input<float>(launch, node_.a_input + 2) : nullptr;
    const StoredTiles tiles(node_.stored, dst, node_.n, bias);
    ProductLaunch product{.a = a.operand(), .b = b.operand(), .scratch = launch.scratch};
    tiles.attach(product_.spec(), product);
    product_.run(product);
    return ErrorCode::ok;
  }

 private:
  MatmulNode node_;
  Product product_;
};

std::string accepts(const NodeSpec& spec, const CpuContext&) {
  if (matmul_node_of(spec).operands != DType::f32 && has_blocked_products())
    return "oneDNN's product of f32 copies is faster here";
  return {};
}
int64_t scratch_bytes(const NodeSpec& spec, const CpuContext& context) {
  return Product(spec_of_product(matmul_node_of(spec)), context.threads).scratch_bytes();
}
std::unique_ptr<Kernel> create(const NodeSpec& spec, const CpuContext& context) {
  return std::make_unique<SimdMatmul>(matmul_node_of(spec), context.threads);
}

}  // namespace

CpuKernelDef simd_matmul(const char* op, const char* types) {
  return {op, "simd:matmul", types, accepts, scratch_bytes, create};
}

}  // namespace snug

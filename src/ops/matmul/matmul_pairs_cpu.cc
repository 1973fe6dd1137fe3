// SPDX-License-Identifier: Apache-2.0
// simd:matmul_pairs: gradients of weights from operands in bf16, on the processor's dot products of
// pairs (backend/cpu/product). Both operands lie along K, where oneDNN transposes one for every
// block of the other.
#include <algorithm>

#include "backend/cpu/onednn.h"
#include "backend/cpu/product/product.h"
#include "ops/matmul/matmul_cpu.h"

namespace snug {
namespace {

ProductSpec spec_of_pairs(const MatmulNode& node) {
  return {.m = node.m,
          .n = node.n,
          .k = (node.k + 1) / 2,
          .transpose_a = true,
          .accumulates = node.accumulates,
          .has_pairs = true};
}

class PairsMatmul final : public Kernel {
 public:
  PairsMatmul(const MatmulNode& node, int threads)
      : node_(node), product_(spec_of_pairs(node), threads) {}

  [[nodiscard]] ErrorCode run(const Launch& launch) const noexcept override {
    if (node_.accumulates)
      copy_overwritten(launch, 0, node_.sum_input, node_.m * node_.n * element_bytes(DType::f32));
    product_.run(
        {.a = {.stride = node_.m, .source = launch.inputs[node_.a_input], .rows = node_.k},
         .b = {.stride = node_.n, .source = launch.inputs[node_.a_input + 1], .rows = node_.k},
         .dst = output<float>(launch),
         .dst_stride = node_.n,
         .scratch = launch.scratch});
    return ErrorCode::ok;
  }

 private:
  MatmulNode node_;
  Product product_;
};

// Measured on two cores of Zen 5. Packing takes longer than oneDNN's way for narrow weights and for
// few rows, wide ones aside: there oneDNN computes the transposed gradient in scratch first.
constexpr int64_t kLeastColumns = 256;
constexpr int64_t kWideColumns = 1200;
int64_t least_summed_rows(const MatmulNode& p) {
  return p.n > kWideColumns ? 256 : p.m > kWideColumns ? 512 : 2048;
}

std::string accepts(const NodeSpec& spec, const CpuContext&) {
  if (!has_bf16_products()) return "no bf16 instructions here";
  if (has_bf16_tiles()) return "tiles are faster";
  const MatmulNode p = matmul_node_of(spec);
  const bool is_gradient = p.transpose_a && !p.transpose_b && p.b_is_shared && !p.has_bias;
  if (!is_gradient || p.stored != DType::f32) return "no gradient of weights";
  if (p.k < least_summed_rows(p) || std::min(p.m, p.n) < kLeastColumns)
    return "not faster for this shape";
  return {};
}
int64_t scratch_bytes(const NodeSpec& spec, const CpuContext& context) {
  return Product(spec_of_pairs(matmul_node_of(spec)), context.threads).scratch_bytes();
}
std::unique_ptr<Kernel> create(const NodeSpec& spec, const CpuContext& context) {
  return std::make_unique<PairsMatmul>(matmul_node_of(spec), context.threads);
}

}  // namespace

CpuKernelDef pairs_matmul(const char* op, const char* types) {
  return {.op = op,
          .kernel = "simd:matmul_pairs",
          .types = types,
          .accepts = accepts,
          .scratch_bytes = scratch_bytes,
          .create = create};
}

}  // namespace snug

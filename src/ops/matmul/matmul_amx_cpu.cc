// SPDX-License-Identifier: Apache-2.0
// amx:matmul: products of bf16 on tiles (backend/cpu/product/amx_product.h), of one matrix b.
#include <algorithm>

#include "backend/cpu/amx.h"
#include "backend/cpu/product/amx_kernels.h"
#include "backend/cpu/product/amx_product.h"
#include "ops/matmul/matmul_cpu.h"

namespace snug {
namespace {

AmxProductSpec spec_of_product(const MatmulNode& node) {
  return {.m = node.m,
          .n = node.n,
          .k = node.k,
          .transpose_a = node.transpose_a,
          .transpose_b = node.transpose_b,
          .accumulates = node.accumulates,
          .stored = node.stored};
}

class AmxMatmul final : public Kernel {
 public:
  AmxMatmul(const MatmulNode& node, int threads)
      : node_(node), product_(spec_of_product(node), threads) {}

  [[nodiscard]] ErrorCode run(const Launch& launch) const noexcept override {
    if (node_.accumulates) {
      copy_overwritten(launch, 0, node_.sum_input, node_.m * node_.n * element_bytes(node_.stored));
    }
    product_.run({.a = launch.inputs[node_.a_input],
                  .b = launch.inputs[node_.a_input + 1],
                  .bias = node_.has_bias ? input<float>(launch, node_.a_input + 2) : nullptr,
                  .dst = launch.outputs[0],
                  .scratch = launch.scratch});
    return ErrorCode::ok;
  }

 private:
  MatmulNode node_;
  AmxProduct product_;
};

// Measured: with fewer, packing both operands takes longer than oneDNN's way, which reads the
// larger one where it lies.
constexpr int64_t kLeastRows = 256;
constexpr int64_t kLeastSummedRows = 512;  // of a gradient of weights

std::string accepts(const NodeSpec& spec, const CpuContext&) {
  if (!has_amx()) return "no tiles of bf16 here";
  const MatmulNode p = matmul_node_of(spec);
  if (!p.b_is_shared) return "a product of each batch element";
  if (p.stored != DType::f32 && p.k > longest_amx_slice(p.transpose_a))
    return "dst cannot hold the sums of so many products";
  const bool has_many_rows = p.transpose_a ? p.k >= kLeastSummedRows : p.m >= kLeastRows;
  if (!has_many_rows || std::min({p.m, p.n, p.k}) < kAmxStep) return "not faster for this shape";
  return {};
}
int64_t scratch_bytes(const NodeSpec& spec, const CpuContext& context) {
  return AmxProduct(spec_of_product(matmul_node_of(spec)), context.threads).scratch_bytes();
}
std::unique_ptr<Kernel> create(const NodeSpec& spec, const CpuContext& context) {
  return std::make_unique<AmxMatmul>(matmul_node_of(spec), context.threads);
}

}  // namespace

CpuKernelDef amx_matmul(const char* op, const char* types) {
  return {.op = op,
          .kernel = "amx:matmul",
          .types = types,
          .accepts = accepts,
          .scratch_bytes = scratch_bytes,
          .create = create,
          .rate = "amx"};
}

}  // namespace snug

// SPDX-License-Identifier: Apache-2.0
// simd:matmul: products of our own (backend/cpu/product). Operands in 16 bits are widened as they
// are packed; where instructions make products of f32 copies by oneDNN faster, it leaves them to
// those.
#include <algorithm>

#include "backend/cpu/onednn.h"
#include "backend/cpu/product/panels.h"
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

// Several sums onto one gradient, of few rows each: one product over the rows of all of them, which
// reads and writes the gradient once.
constexpr int64_t kRowsOfFused = 384;  // a block of K
constexpr int64_t kMostFused = 32;

int32_t most_fused(const NodeSpec& spec) {
  const MatmulNode p = matmul_node_of(spec);
  const bool is_sum = p.accumulates && p.sum_input == 0 && p.transpose_a && !p.transpose_b;
  const bool is_plain = p.operands == DType::f32 && p.stored == DType::f32 && p.b_is_shared;
  if (!is_sum || !is_plain || p.k == 0 || p.k > kFewProductRows) return 1;
  return static_cast<int32_t>(std::min(kRowsOfFused / p.k, kMostFused));
}

NodeSpec whole_of(const NodeSpec& spec, int32_t count) {
  const auto rows = [&](size_t input) {
    TensorType type = spec.inputs[input];
    type.shape.front() *= count;
    return type;
  };
  NodeSpec whole = spec;
  whole.inputs = {spec.inputs[0], rows(1), rows(2)};
  return whole;
}

ProductSpec spec_of_fused(const NodeSpec& spec, int32_t count) {
  ProductSpec product = spec_of_product(matmul_node_of(whole_of(spec, count)));
  product.reads_a = true;
  product.reads_b = true;
  return product;
}

// Rows of one operand of all nodes, those of one node behind those of the node before.
class RowsOfNodes {
 public:
  RowsOfNodes(const Launch& launch, size_t input, int64_t rows, int64_t width)
      : launch_(launch), input_(input), rows_(rows), width_(width) {}
  [[nodiscard]] ProductOperand operand() const { return {.find = find, .source = this}; }

 private:
  static constexpr size_t kInputs = 3;

  static const float* find(const void* source, int64_t row) noexcept {
    const auto& of = *static_cast<const RowsOfNodes*>(source);
    const size_t node = static_cast<size_t>(row / of.rows_);
    const auto* data =
        reinterpret_cast<const float*>(of.launch_.inputs[kInputs * node + of.input_]);
    return data + row % of.rows_ * of.width_;
  }

  const Launch& launch_;
  size_t input_;
  int64_t rows_;
  int64_t width_;
};

class FusedSums final : public Kernel {
 public:
  FusedSums(const NodeSpec& spec, int threads, int32_t count)
      : node_(matmul_node_of(spec)), product_(spec_of_fused(spec, count), threads) {}

  [[nodiscard]] ErrorCode run(const Launch& launch) const noexcept override {
    copy_overwritten(launch, 0, 0, node_.m * node_.n * element_bytes(DType::f32));
    const RowsOfNodes a(launch, 1, node_.k, node_.m);
    const RowsOfNodes b(launch, 2, node_.k, node_.n);
    product_.run({.a = a.operand(),
                  .b = b.operand(),
                  .dst = output<float>(launch),
                  .dst_stride = node_.n,
                  .scratch = launch.scratch});
    return ErrorCode::ok;
  }

 private:
  MatmulNode node_;  // of one of them
  Product product_;  // all of them
};

int64_t fused_scratch(const NodeSpec& spec, const CpuContext& context, int32_t count) {
  return Product(spec_of_fused(spec, count), context.threads).scratch_bytes();
}
std::unique_ptr<Kernel> create_fused(const NodeSpec& spec, const CpuContext& context,
                                     int32_t count) {
  return std::make_unique<FusedSums>(spec, context.threads, count);
}

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
  static constexpr CpuFusedDef kFused{most_fused, whole_of, fused_scratch, create_fused};
  return {.op = op,
          .kernel = "simd:matmul",
          .types = types,
          .accepts = accepts,
          .scratch_bytes = scratch_bytes,
          .create = create,
          .fused = &kFused};
}

}  // namespace snug

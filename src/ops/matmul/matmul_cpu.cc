// SPDX-License-Identifier: Apache-2.0
// CPU kernels of matmul and matmul_accumulate, best first. Most are oneDNN's blocked ("brgemm")
// implementation, which allocates nothing but argument lists. Which of its forms is fastest depends
// on shapes only (measured; see special_form):
//   amx:matmul                many rows of bf16 on tiles (matmul_amx_cpu.cc)
//   simd:matmul_pairs         gradients of weights from bf16 where there are no tiles
//                             (matmul_pairs_cpu.cc)
//   onednn:matmul_transposed  dst^T = b^T a^T into scratch, then a transposition (gradients of wide
//                             weights)
//   onednn:matmul_packed      b reordered into oneDNN's own layout in scratch first
//   onednn:matmul             operands as they lie
//   simd:matmul               few rows, and what oneDNN refuses: processors without AVX-512,
//   operands
//                             in 16 bits without instructions for them (matmul_simd_cpu.cc)
// Legend: B batches, M rows of dst, N columns of dst, K the summed dimension.
#include <algorithm>
#include <bit>
#include <cstring>
#include <optional>
#include <vector>

#include "backend/cpu/kernel.h"
#include "backend/cpu/onednn.h"
#include "backend/cpu/product/panels.h"
#include "backend/cpu/transpose.h"
#include "base/threads.h"
#include "base/units.h"
#include "ops/matmul/matmul_cpu.h"

namespace snug {
namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
constexpr auto kF32 = dnnl::memory::data_type::f32;
constexpr int64_t kScratchAlignment = 64;

dnnl::memory::data_type onednn_type(DType dtype) {
  using Type = dnnl::memory::data_type;
  return dtype == DType::bf16 ? Type::bf16 : dtype == DType::f16 ? Type::f16 : Type::f32;
}

// A (B, rows, cols) matrix as oneDNN sees it; `transposed` says how the last two dimensions lie in
// memory.
Desc matrix(const MatmulNode& p, DType dtype, int64_t rows, int64_t cols, bool transposed) {
  const Dims strides = transposed ? Dims{1, rows} : Dims{cols, 1};
  const auto type = onednn_type(dtype);
  if (p.b_is_shared) return {{rows, cols}, type, strides};
  return {{p.batches, rows, cols}, type, {rows * cols, strides[0], strides[1]}};
}
Desc operand(const MatmulNode& p, int64_t rows, int64_t cols, bool transposed) {
  return matrix(p, p.operands, rows, cols, transposed);
}

Desc bias_desc(const MatmulNode& p) {
  if (p.b_is_shared) return {{1, p.n}, kF32, Dims{p.n, 1}};
  return {{1, 1, p.n}, kF32, Dims{p.n, p.n, 1}};
}

enum class Form { plain_operands, packed_b, transposed };

// oneDNN's descriptor of the product, or nothing where only an implementation that allocates its
// own packing buffers (or the reference loop) would take it.
std::optional<dnnl::matmul::primitive_desc> describe_product(const MatmulNode& p, Form form,
                                                             const Onednn& onednn) {
  if (p.batches * p.m * p.n * p.k == 0) return std::nullopt;
  const Desc a = form == Form::transposed ? operand(p, p.n, p.k, !p.transpose_b)
                                          : operand(p, p.m, p.k, p.transpose_a);
  Desc b = form == Form::transposed ? operand(p, p.k, p.m, !p.transpose_a)
                                    : operand(p, p.k, p.n, p.transpose_b);
  if (form == Form::packed_b)
    b = Desc(b.dims(), onednn_type(p.operands), dnnl::memory::format_tag::any);
  const Desc dst = form == Form::transposed ? matrix(p, p.stored, p.n, p.m, false)
                                            : matrix(p, p.stored, p.m, p.n, false);
  dnnl::primitive_attr attributes = onednn_attributes();
  if (p.accumulates && form != Form::transposed) {
    dnnl::post_ops sum;
    sum.append_sum(1.0F);
    attributes.set_post_ops(sum);
  }
  const dnnl::matmul::desc desc =
      p.has_bias ? dnnl::matmul::desc(a, b, bias_desc(p), dst) : dnnl::matmul::desc(a, b, dst);
  return find_blocked_product(desc, attributes, onednn);
}

// Whether oneDNN copies b block by block anyway: where it is transposed, and where its rows are a
// power of two apart.
bool copies_b(int64_t n, bool b_is_transposed) {
  return b_is_transposed || (n >= 1024 && std::has_single_bit(static_cast<uint64_t>(n)));
}
// Rows that are far apart: tiles of b compete for the same cache sets (N = 3072 runs at 40 % of the
// speed).
bool has_wide_rows(int64_t n, bool b_is_transposed) {
  return n > 1200 && !copies_b(n, b_is_transposed);
}
// More pages than the second-level TLB holds: where a is transposed, oneDNN cuts K and does not
// meet them at once.
bool has_many_pages(const MatmulNode& p) {
  constexpr int64_t kPagesBytes = int64_t{8} << 20;
  return p.k * p.n * element_bytes(p.operands) > kPagesBytes && !p.transpose_a &&
         !copies_b(p.n, p.transpose_b);
}

// The rules are measured on two cores with AVX-512, and with AMX (bench/kernels.cc); each form is
// right for every shape.
std::optional<Form> special_form(const MatmulNode& p) {
  if (!p.b_is_shared || p.m < 64) return std::nullopt;  // packing costs as much as some ten rows
  // Tiles are so fast that oneDNN's copying of b for every block of rows is a fifth of the time.
  if (p.operands == DType::bf16 && has_bf16_tiles())
    return !p.transpose_a && p.m >= 256 ? std::optional(Form::packed_b) : std::nullopt;
  if (has_wide_rows(p.n, p.transpose_b)) {
    // A gradient of weights: both operands are read along K. Swapping their roles makes the narrow
    // one "b". Where K is short it pays as far as the packed b would be the larger scratch: a
    // product over fewer rows never needs more.
    const bool can_swap = p.transpose_a && !p.has_bias && p.stored == DType::f32 &&
                          p.k >= std::min<int64_t>(256, p.m + 1) && !has_wide_rows(p.m, false);
    return can_swap ? Form::transposed : Form::packed_b;
  }
  if (has_many_pages(p) && p.m >= 256) return Form::packed_b;
  return std::nullopt;
}

dnnl::reorder::primitive_desc describe_packing(const MatmulNode& p, const Desc& packed,
                                               const Onednn& onednn) {
  return {onednn.engine, operand(p, p.k, p.n, p.transpose_b), onednn.engine, packed,
          onednn_attributes()};
}

// ---- onednn:matmul and its other forms ----

// One product of oneDNN's with the packing of its b, if its form has one.
class OneProduct {
 public:
  OneProduct(const MatmulNode& p, Form form, const CpuContext& context)
      : packs_(form == Form::packed_b) {
    const auto desc = describe_product(p, form, *context.onednn);
    product_ = BoundPrimitive(context.onednn, dnnl::matmul(*desc));
    src_ = product_.add(DNNL_ARG_SRC, desc->src_desc());
    weights_ = product_.add(DNNL_ARG_WEIGHTS, desc->weights_desc());
    dst_ = product_.add(DNNL_ARG_DST, desc->dst_desc());
    scratchpad_ = product_.add(DNNL_ARG_SCRATCHPAD, desc->scratchpad_desc());
    if (p.has_bias) bias_ = product_.add(DNNL_ARG_BIAS, desc->bias_desc());
    if (!packs_) return;
    const dnnl::reorder::primitive_desc packing =
        describe_packing(p, desc->weights_desc(), *context.onednn);
    pack_ = BoundPrimitive(context.onednn, dnnl::reorder(packing));
    pack_from_ = pack_.add(DNNL_ARG_FROM, packing.src_desc());
    pack_to_ = pack_.add(DNNL_ARG_TO, desc->weights_desc());
    pack_scratchpad_ = pack_.add(DNNL_ARG_SCRATCHPAD, packing.scratchpad_desc());
  }

  // `packed` is room for b in oneDNN's layout, `bias` null where there is none.
  [[nodiscard]] ErrorCode run(const std::byte* a, const std::byte* b, const float* bias,
                              std::byte* dst, std::byte* packed,
                              std::byte* scratch) const noexcept {
    if (packs_) {
      pack_.set(pack_from_, b);
      pack_.set(pack_to_, packed);
      pack_.set(pack_scratchpad_, scratch);
      if (const ErrorCode code = pack_.execute(); code != ErrorCode::ok) return code;
      b = packed;
    }
    product_.set(src_, a);
    product_.set(weights_, b);
    product_.set(dst_, dst);
    product_.set(scratchpad_, scratch);
    if (bias != nullptr) product_.set(bias_, bias);
    return product_.execute();
  }

  // Bytes of the scratchpad, which both primitives use one after the other, and of packed b.
  struct Bytes {
    int64_t scratchpad = 0;
    int64_t packed = 0;
  };
  static Bytes bytes(const MatmulNode& p, Form form, const CpuContext& context) {
    const auto desc = describe_product(p, form, *context.onednn);
    size_t scratchpad = desc->scratchpad_desc().get_size();
    size_t packed = 0;
    if (form == Form::packed_b) {
      const auto packing = describe_packing(p, desc->weights_desc(), *context.onednn);
      scratchpad = std::max(scratchpad, packing.scratchpad_desc().get_size());
      packed = desc->weights_desc().get_size();
    }
    return {round_up(static_cast<int64_t>(scratchpad), kScratchAlignment),
            static_cast<int64_t>(packed)};
  }

 private:
  bool packs_ = false;
  BoundPrimitive product_;
  size_t src_ = 0, weights_ = 0, dst_ = 0, scratchpad_ = 0, bias_ = 0;
  BoundPrimitive pack_;
  size_t pack_from_ = 0, pack_to_ = 0, pack_scratchpad_ = 0;
};

class OnednnMatmul final : public Kernel {
 public:
  OnednnMatmul(const MatmulNode& product, Form form, const CpuContext& context)
      : product_(product),
        form_(form),
        threads_(context.threads),
        scratch_offset_(OneProduct::bytes(product, form, context).scratchpad),
        onednn_(product, form, context) {}

  [[nodiscard]] ErrorCode run(const Launch& launch) const noexcept override {
    set_library_threads(threads_);
    const std::byte* a = launch.inputs[product_.a_input];
    const std::byte* b = launch.inputs[product_.a_input + 1];
    const float* bias = product_.has_bias ? input<float>(launch, product_.a_input + 2) : nullptr;
    std::byte* dst = launch.outputs[0];
    if (product_.accumulates) {
      const int64_t elements = product_.batches * product_.m * product_.n;
      copy_overwritten(launch, 0, product_.sum_input, elements * element_bytes(product_.stored));
    }
    auto* second = scratch_at<std::byte>(launch, scratch_offset_);  // packed b, or dst^T
    if (form_ != Form::transposed) return onednn_.run(a, b, bias, dst, second, launch.scratch);
    const ErrorCode code = onednn_.run(b, a, nullptr, second, nullptr, launch.scratch);
    if (code != ErrorCode::ok) return code;
    transpose_matrix(threads_, reinterpret_cast<const float*>(second), output<float>(launch),
                     product_.n, product_.m, product_.accumulates);
    return ErrorCode::ok;
  }

  static int64_t scratch_bytes(const MatmulNode& p, Form form, const CpuContext& context) {
    const OneProduct::Bytes needed = OneProduct::bytes(p, form, context);
    const int64_t swapped = form == Form::transposed ? p.m * p.n * element_bytes(DType::f32) : 0;
    return needed.scratchpad + needed.packed + swapped;
  }

 private:
  MatmulNode product_;
  Form form_;
  int threads_;
  int64_t scratch_offset_;
  OneProduct onednn_;
};

// Products of our own of so few rows, of dst or summed into a gradient, are as fast as oneDNN's on
// AVX-512 (measured), have the same bits with panels that were packed before, and several sums can
// be one product.
bool has_few_rows(const MatmulNode& p) {
  if (p.operands != DType::f32 || !p.b_is_shared) return false;
  return p.transpose_a ? p.accumulates && p.k <= kFewProductRows : p.m <= kFewProductRows;
}

template <Form form>
std::string onednn_accepts(const NodeSpec& spec, const CpuContext& context) {
  const MatmulNode p = matmul_node_of(spec);
  if (p.operands == DType::bf16 && !has_bf16_products()) return "no bf16 instructions here";
  if (has_few_rows(p)) return "products of our own are as fast with so few rows";
  if (form != Form::plain_operands && special_form(p) != form) return "not faster for this shape";
  if (!describe_product(p, form, *context.onednn))
    return "oneDNN has no blocked implementation for it";
  return {};
}
template <Form form>
int64_t onednn_scratch(const NodeSpec& spec, const CpuContext& context) {
  return OnednnMatmul::scratch_bytes(matmul_node_of(spec), form, context);
}
template <Form form>
std::unique_ptr<Kernel> onednn_create(const NodeSpec& spec, const CpuContext& context) {
  return std::make_unique<OnednnMatmul>(matmul_node_of(spec), form, context);
}

// a, b and a bias; or the sum, a and b.
constexpr const char* kF32Types = "f32 f32 f32 -> f32";
constexpr const char* kBf16Types = "bf16 bf16 f32|bf16 -> f32|bf16";
constexpr const char* kF16Types = "f16 f16 f32|f16 -> f32|f16";
constexpr const char* kBf16Summed = "f32 bf16 bf16 -> f32";
constexpr const char* kF16Summed = "f32 f16 f16 -> f32";

constexpr CpuKernelDef onednn_def(const char* op, const char* kernel, const char* types,
                                  auto form) {
  return {.op = op,
          .kernel = kernel,
          .types = types,
          .accepts = onednn_accepts<decltype(form)::value>,
          .scratch_bytes = onednn_scratch<decltype(form)::value>,
          .create = onednn_create<decltype(form)::value>};
}
template <Form form>
using FormTag = std::integral_constant<Form, form>;

}  // namespace

std::span<const CpuKernelDef> matmul_cpu_kernels() {
  static const std::vector<CpuKernelDef> kernels = [] {
    std::vector<CpuKernelDef> all;
    all.push_back(amx_matmul("matmul", kBf16Types));
    all.push_back(amx_matmul("matmul_accumulate", kBf16Summed));
    all.push_back(pairs_matmul("matmul", kBf16Types));
    all.push_back(pairs_matmul("matmul_accumulate", kBf16Summed));
    const auto add = [&](const char* op, const char* types) {
      using Packed = FormTag<Form::packed_b>;
      all.push_back(onednn_def(op, "onednn:matmul_transposed", types, FormTag<Form::transposed>()));
      all.push_back(onednn_def(op, "onednn:matmul_packed", types, Packed()));
      all.push_back(onednn_def(op, "onednn:matmul", types, FormTag<Form::plain_operands>()));
    };
    for (const char* types : {kF32Types, kBf16Types, kF16Types}) add("matmul", types);
    for (const char* types : {kF32Types, kBf16Summed, kF16Summed}) add("matmul_accumulate", types);
    for (const char* types : {kF32Types, kBf16Types, kF16Types})
      all.push_back(simd_matmul("matmul", types));
    for (const char* types : {kF32Types, kBf16Summed, kF16Summed})
      all.push_back(simd_matmul("matmul_accumulate", types));
    return all;
  }();
  return kernels;
}

}  // namespace snug

// SPDX-License-Identifier: Apache-2.0
// CPU kernels of weights in fewer bits. A panel of the weight's rows is decoded into scratch of at
// most about 1 MiB, then multiplied; the weight as f32 is nowhere.
//   onednn:coded_matmul   oneDNN's product on each panel
//   plain:coded_matmul    whatever oneDNN refuses
// Legend: M rows of a, R rows and C columns of the weight.
#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "backend/cpu/half_rows.h"
#include "backend/cpu/kernel.h"
#include "backend/cpu/onednn.h"
#include "backend/cpu/weight_rows.h"
#include "base/threads.h"
#include "base/units.h"
#include "ops/coded/coded.h"

namespace snug {
namespace {

using Desc = dnnl::memory::desc;
using Dims = dnnl::memory::dims;
constexpr auto kF32 = dnnl::memory::data_type::f32;
constexpr int64_t kPanelElements = 1 << 18;
constexpr int64_t kLeastPanelRows = 16;
constexpr int64_t kScratchAlignment = 64;
constexpr int64_t kWorthAThreadElements = 8192;

/// A weight in memory, whichever type it has.
struct CodedWeight {
  int64_t rows = 0;
  int64_t columns = 0;
  std::optional<WeightRows> floats = {};
  const std::byte* data = nullptr;
  const float* scales = nullptr;

  void decode_row(int64_t row, float* dst) const { decode_piece(row, 0, columns, dst); }
  /// Elements [first, first + n) of a row; `first` begins a block.
  void decode_piece(int64_t row, int64_t first, int64_t n, float* dst) const {
    const int64_t at = row * columns + first;
    if (floats) {
      (void)floats->read(data, at, n, dst);
      return;
    }
    const auto* const codes = reinterpret_cast<const uint8_t*>(data);
    const float* const own = scales + row * coded_blocks(columns) + first / kCodedBlock;
    decode_coded_row({codes + at, static_cast<size_t>(n)},
                     {own, static_cast<size_t>(coded_blocks(n))}, {dst, static_cast<size_t>(n)});
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

struct Product {
  TensorType weight;
  int64_t m = 0;
  int64_t rows = 0;     // R
  int64_t columns = 0;  // C
  int64_t panel = 0;    // rows of one
  bool transpose_b = false;
  bool has_bias = false;
  bool has_row_bias = false;

  [[nodiscard]] int64_t width() const { return transpose_b ? rows : columns; }   // of y
  [[nodiscard]] int64_t summed() const { return transpose_b ? columns : rows; }  // of a
  [[nodiscard]] int64_t panel_bytes() const {
    return round_up(panel * columns * element_bytes(DType::f32), kScratchAlignment);
  }
};

Product product_of(const NodeSpec& spec) {
  const Shape& weight = spec.inputs[1].shape;
  Product p{.weight = spec.inputs[1],
            .rows = weight[0],
            .columns = weight[1],
            .transpose_b = spec.attrs.boolean("transpose_b"),
            .has_bias = spec.inputs.has(3)};
  p.has_row_bias = p.has_bias && spec.inputs[3].shape.size() == 1;
  p.m = p.summed() == 0 ? element_count(spec.outputs[0]) / std::max<int64_t>(p.width(), 1)
                        : element_count(spec.inputs[0]) / p.summed();
  const int64_t fitting = kPanelElements / std::max<int64_t>(p.columns, 1);
  p.panel =
      std::min(p.rows, std::max(kLeastPanelRows, fitting / kLeastPanelRows * kLeastPanelRows));
  return p;
}

void decode_panel(int threads, const Product& p, const CodedWeight& weight, int64_t first,
                  int64_t count, float* dst) {
  const int64_t grain = 1 + kWorthAThreadElements / (p.columns + 1);
  parallel_for(threads, count, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      weight.decode_row(first + row, dst + row * p.columns);
  });
}

// y begins as the bias, or as zeros where the panels are summed up.
void begin_output(int threads, const Product& p, const Launch& launch) {
  if (!p.has_bias && p.transpose_b) return;
  const float* bias = p.has_bias ? input<float>(launch, 3) : nullptr;
  auto* y = output<float>(launch);
  const int64_t grain = 1 + kWorthAThreadElements / (p.width() + 1);
  parallel_for(threads, p.m, grain, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      float* const line = y + row * p.width();
      if (bias == nullptr) {
        std::fill_n(line, p.width(), 0.0F);
      } else {
        std::copy_n(bias + (p.has_row_bias ? 0 : row * p.width()), p.width(), line);
      }
    }
  });
}

// With transpose_b a panel makes columns of y; else it adds to all of y.
std::optional<dnnl::matmul::primitive_desc> describe(const Product& p, int64_t count,
                                                     const Onednn& onednn) {
  if (p.m * p.rows * p.columns == 0) return std::nullopt;
  const Desc a = p.transpose_b ? Desc({p.m, p.columns}, kF32, Dims{p.columns, 1})
                               : Desc({p.m, count}, kF32, Dims{p.rows, 1});
  const Desc b = p.transpose_b ? Desc({p.columns, count}, kF32, Dims{1, p.columns})
                               : Desc({count, p.columns}, kF32, Dims{p.columns, 1});
  const Desc y = p.transpose_b ? Desc({p.m, count}, kF32, Dims{p.rows, 1})
                               : Desc({p.m, p.columns}, kF32, Dims{p.columns, 1});
  dnnl::primitive_attr attributes = onednn_attributes();
  if (p.has_bias || !p.transpose_b) {
    dnnl::post_ops sum;
    sum.append_sum(1.0F);
    attributes.set_post_ops(sum);
  }
  return find_blocked_product({a, b, y}, attributes, onednn);
}

// Of whole panels, and of the last where it is smaller.
std::vector<int64_t> panel_sizes(const Product& p) {
  std::vector<int64_t> sizes{p.panel};
  if (p.panel > 0 && p.rows % p.panel != 0) sizes.push_back(p.rows % p.panel);
  return sizes;
}

class OnednnCodedMatmul final : public Kernel {
 public:
  OnednnCodedMatmul(const Product& product, const CpuContext& context)
      : product_(product), threads_(context.threads) {
    for (const int64_t size : panel_sizes(product)) {
      const auto desc = describe(product, size, *context.onednn);
      Panel panel{.product = BoundPrimitive(context.onednn, dnnl::matmul(*desc))};
      panel.a = panel.product.add(DNNL_ARG_SRC, desc->src_desc());
      panel.b = panel.product.add(DNNL_ARG_WEIGHTS, desc->weights_desc());
      panel.y = panel.product.add(DNNL_ARG_DST, desc->dst_desc());
      panel.scratchpad = panel.product.add(DNNL_ARG_SCRATCHPAD, desc->scratchpad_desc());
      panels_.push_back(std::move(panel));
    }
  }

  [[nodiscard]] ErrorCode run(const Launch& launch) const noexcept override {
    set_library_threads(threads_);
    const Product& p = product_;
    const CodedWeight weight = weight_of(launch, p.weight, 1, 2);
    const float* a = input<float>(launch, 0);
    auto* y = output<float>(launch);
    auto* decoded = scratch_at<float>(launch);
    begin_output(threads_, p, launch);
    for (int64_t first = 0; first < p.rows; first += p.panel) {
      const int64_t count = std::min(p.panel, p.rows - first);
      decode_panel(threads_, p, weight, first, count, decoded);
      const Panel& panel = count == p.panel ? panels_.front() : panels_.back();
      panel.product.set(panel.a, p.transpose_b ? a : a + first);
      panel.product.set(panel.b, decoded);
      panel.product.set(panel.y, p.transpose_b ? y + first : y);
      panel.product.set(panel.scratchpad, launch.scratch + p.panel_bytes());
      if (const ErrorCode code = panel.product.execute(); code != ErrorCode::ok) return code;
    }
    return ErrorCode::ok;
  }

 private:
  struct Panel {
    BoundPrimitive product;
    size_t a = 0, b = 0, y = 0, scratchpad = 0;
  };
  Product product_;
  int threads_;
  std::vector<Panel> panels_;
};

std::string onednn_accepts(const NodeSpec& spec, const CpuContext& context) {
  const Product p = product_of(spec);
  for (const int64_t size : panel_sizes(p)) {
    if (!describe(p, size, *context.onednn)) return "oneDNN has no blocked implementation for it";
  }
  return {};
}
int64_t onednn_scratch(const NodeSpec& spec, const CpuContext& context) {
  const Product p = product_of(spec);
  size_t scratchpad = 0;
  for (const int64_t size : panel_sizes(p))
    scratchpad =
        std::max(scratchpad, describe(p, size, *context.onednn)->scratchpad_desc().get_size());
  return p.panel_bytes() + round_up(static_cast<int64_t>(scratchpad), kScratchAlignment);
}
std::unique_ptr<Kernel> onednn_create(const NodeSpec& spec, const CpuContext& context) {
  return std::make_unique<OnednnCodedMatmul>(product_of(spec), context);
}

// ---- plain:coded_matmul ----

void multiply_panel(const Product& p, int64_t first, int64_t count, const float* panel,
                    const float* a, float* y) {
  if (p.transpose_b) {
    for (int64_t r = 0; r < count; ++r) {
      double sum = 0;
      for (int64_t c = 0; c < p.columns; ++c)
        sum += static_cast<double>(a[c]) * static_cast<double>(panel[r * p.columns + c]);
      y[first + r] = static_cast<float>(sum + (p.has_bias ? static_cast<double>(y[first + r]) : 0));
    }
    return;
  }
  for (int64_t r = 0; r < count; ++r) {
    for (int64_t c = 0; c < p.columns; ++c) y[c] += a[first + r] * panel[r * p.columns + c];
  }
}

int64_t plain_scratch(const NodeSpec& spec, const CpuContext&) {
  return product_of(spec).panel_bytes();
}
std::unique_ptr<Kernel> plain_create(const NodeSpec& spec, const CpuContext& context) {
  return make_kernel([p = product_of(spec), threads = context.threads](const Launch& launch) {
    const CodedWeight weight = weight_of(launch, p.weight, 1, 2);
    const float* a = input<float>(launch, 0);
    auto* y = output<float>(launch);
    auto* decoded = scratch_at<float>(launch);
    begin_output(threads, p, launch);
    for (int64_t first = 0; first < p.rows; first += p.panel) {
      const int64_t count = std::min(p.panel, p.rows - first);
      decode_panel(threads, p, weight, first, count, decoded);
      parallel_for(threads, p.m, 1, [&](int64_t begin, int64_t end) {
        for (int64_t row = begin; row < end; ++row)
          multiply_panel(p, first, count, decoded, a + row * p.summed(), y + row * p.width());
      });
    }
    return ErrorCode::ok;
  });
}

std::unique_ptr<Kernel> create_embedding(const NodeSpec& spec, const CpuContext& context) {
  return make_kernel([type = spec.inputs[0], count = element_count(spec.inputs[1]),
                      to = FloatRows(spec.outputs[0].dtype),
                      threads = context.threads](const Launch& launch) {
    const CodedWeight weight = weight_of(launch, type, 0, 2);
    const auto* ids = input<int32_t>(launch, 1);
    std::byte* const y = launch.outputs[0];
    bool is_valid = true;
    for (int64_t i = 0; i < count; ++i) is_valid &= ids[i] >= 0 && ids[i] < weight.rows;
    if (!is_valid) return ErrorCode::bad_data;
    const int64_t grain = 1 + kWorthAThreadElements / (weight.columns + 1);
    parallel_for(threads, count, grain, [&](int64_t begin, int64_t end) {
      float buffer[kCodedBlock];
      for (int64_t i = begin; i < end; ++i) {
        for (int64_t first = 0; first < weight.columns; first += kCodedBlock) {
          const int64_t n = std::min(kCodedBlock, weight.columns - first);
          const int64_t at = i * weight.columns + first;
          float* const row = to.place(y, at, buffer);
          weight.decode_piece(ids[i], first, n, row);
          to.write(row, y, at, n);
        }
      }
    });
    return ErrorCode::ok;
  });
}

}  // namespace

std::span<const CpuKernelDef> coded_cpu_kernels() {
  static const CpuKernelDef kernels[] = {
      {"coded_matmul", "onednn:coded_matmul", "f32 u8|bf16|bf16x8 f32 f32 -> f32", onednn_accepts,
       onednn_scratch, onednn_create},
      {"coded_matmul", "plain:coded_matmul", "f32 u8|bf16|bf16x8 f32 f32 -> f32", always,
       plain_scratch, plain_create},
      {"coded_embedding", "plain:coded_embedding", "u8|bf16|bf16x8 i32 f32 -> f32|bf16|f16", always,
       no_scratch, create_embedding},
  };
  return kernels;
}

}  // namespace snug

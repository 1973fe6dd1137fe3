// SPDX-License-Identifier: Apache-2.0
// CPU kernels of weights in fewer bits. A panel of the weight's rows is decoded into scratch of at
// most about 1 MiB, then multiplied; the weight as f32 is nowhere.
//   onednn:coded_matmul   oneDNN's product of each panel with tiles of a's rows, of 1 MiB too
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
constexpr int64_t kTileElements = 1 << 18;
constexpr int64_t kLeastTileRows = 64;  // oneDNN packs the panel anew for each tile
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
  int64_t panel = 0;    // rows of the weight decoded at once
  int64_t tile = 0;     // rows of a multiplied at once
  bool transpose_b = false;
  bool has_bias = false;
  bool has_row_bias = false;

  [[nodiscard]] int64_t width() const { return transpose_b ? rows : columns; }   // of y
  [[nodiscard]] int64_t summed() const { return transpose_b ? columns : rows; }  // of a
  [[nodiscard]] int64_t panel_bytes() const {
    return round_up(panel * columns * element_bytes(DType::f32), kScratchAlignment);
  }
  // Of the part of some rows that belongs to a panel; none where the panel is the whole weight.
  [[nodiscard]] int64_t tile_bytes() const {
    if (panel == rows) return 0;
    return round_up(tile * panel * element_bytes(DType::f32), kScratchAlignment);
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
  p.tile = p.m;
  if (p.panel < p.rows) p.tile = std::min(p.m, std::max(kLeastTileRows, kTileElements / p.panel));
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

// oneDNN's product of `tile` rows and a panel of `count`. With transpose_b a panel makes columns of
// y; else it adds to all of y. Rows lie close together: oneDNN has no blocked product of others.
std::optional<dnnl::matmul::primitive_desc> describe(const Product& p, int64_t tile, int64_t count,
                                                     const Onednn& onednn) {
  if (p.m * p.rows * p.columns == 0) return std::nullopt;
  const auto rows = [](int64_t height, int64_t width) {
    return Desc({height, width}, kF32, Dims{width, 1});
  };
  const Desc a = rows(tile, p.transpose_b ? p.columns : count);
  const Desc b =
      p.transpose_b ? Desc({p.columns, count}, kF32, Dims{1, p.columns}) : rows(count, p.columns);
  const Desc y = rows(tile, p.transpose_b ? count : p.columns);
  dnnl::primitive_attr attributes = onednn_attributes();
  if (p.has_bias || !p.transpose_b) {
    dnnl::post_ops sum;
    sum.append_sum(1.0F);
    attributes.set_post_ops(sum);
  }
  return find_blocked_product({a, b, y}, attributes, onednn);
}

// `step`, and what is left of `all` at the end where that is less.
std::vector<int64_t> sizes_of(int64_t all, int64_t step) {
  std::vector<int64_t> sizes{step};
  if (step > 0 && all % step != 0) sizes.push_back(all % step);
  return sizes;
}

// Of every tile with every panel, panels inside.
std::vector<dnnl::matmul::primitive_desc> products(const Product& p, const Onednn& onednn) {
  std::vector<dnnl::matmul::primitive_desc> all;
  for (const int64_t tile : sizes_of(p.m, p.tile)) {
    for (const int64_t count : sizes_of(p.rows, p.panel)) {
      auto found = describe(p, tile, count, onednn);
      if (!found) return {};
      all.push_back(std::move(*found));
    }
  }
  return all;
}

class OnednnCodedMatmul final : public Kernel {
 public:
  OnednnCodedMatmul(const Product& product, const CpuContext& context)
      : product_(product), threads_(context.threads) {
    for (const auto& desc : products(product, *context.onednn)) {
      Part part{.product = BoundPrimitive(context.onednn, dnnl::matmul(desc))};
      part.a = part.product.add(DNNL_ARG_SRC, desc.src_desc());
      part.b = part.product.add(DNNL_ARG_WEIGHTS, desc.weights_desc());
      part.y = part.product.add(DNNL_ARG_DST, desc.dst_desc());
      part.scratchpad = part.product.add(DNNL_ARG_SCRATCHPAD, desc.scratchpad_desc());
      parts_.push_back(std::move(part));
    }
  }

  [[nodiscard]] ErrorCode run(const Launch& launch) const noexcept override {
    set_library_threads(threads_);
    const Product& p = product_;
    const CodedWeight weight = weight_of(launch, p.weight, 1, 2);
    auto* decoded = scratch_at<float>(launch);
    begin_output(threads_, p, launch);
    for (int64_t first = 0; first < p.rows; first += p.panel) {
      const int64_t count = std::min(p.panel, p.rows - first);
      decode_panel(threads_, p, weight, first, count, decoded);
      for (int64_t row = 0; row < p.m; row += p.tile) {
        const int64_t tile = std::min(p.tile, p.m - row);
        if (const ErrorCode code = multiply(launch, row, tile, first, count); code != ErrorCode::ok)
          return code;
      }
    }
    return ErrorCode::ok;
  }

 private:
  struct Part {
    BoundPrimitive product;
    size_t a = 0, b = 0, y = 0, scratchpad = 0;
  };

  // Rows [row, row + tile) with the panel of `count` from `first` on. What a panel has of a row of
  // a, or makes of a row of y, is copied where it is not the whole row.
  [[nodiscard]] ErrorCode multiply(const Launch& launch, int64_t row, int64_t tile, int64_t first,
                                   int64_t count) const noexcept {
    const Product& p = product_;
    const float* a = input<float>(launch, 0) + row * p.summed();
    float* y = output<float>(launch) + row * p.width();
    std::byte* const behind_panel = launch.scratch + p.panel_bytes();
    auto* const copy = reinterpret_cast<float*>(behind_panel);
    const bool copies_a = p.tile_bytes() > 0 && !p.transpose_b;
    const bool copies_y = p.tile_bytes() > 0 && p.transpose_b;
    const int64_t grain = 1 + kWorthAThreadElements / (count + 1);
    const auto copy_rows = [&](const float* from, int64_t stride, float* to, int64_t to_stride) {
      parallel_for(threads_, tile, grain, [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i)
          std::copy_n(from + i * stride, count, to + i * to_stride);
      });
    };
    if (copies_a) copy_rows(a + first, p.rows, copy, count);
    if (copies_y && p.has_bias) copy_rows(y + first, p.rows, copy, count);
    const size_t panels = p.rows % p.panel == 0 ? 1 : 2;
    const Part& part = parts_[(tile == p.tile ? 0 : panels) + (count == p.panel ? 0 : 1)];
    part.product.set(part.a, copies_a ? copy : a);
    part.product.set(part.b, launch.scratch);
    part.product.set(part.y, copies_y ? copy : y);
    part.product.set(part.scratchpad, behind_panel + p.tile_bytes());
    const ErrorCode code = part.product.execute();
    if (copies_y && code == ErrorCode::ok) copy_rows(copy, count, y + first, p.rows);
    return code;
  }

  Product product_;
  int threads_;
  std::vector<Part> parts_;
};

std::string onednn_accepts(const NodeSpec& spec, const CpuContext& context) {
  if (products(product_of(spec), *context.onednn).empty())
    return "oneDNN has no blocked implementation for it";
  return {};
}
int64_t onednn_scratch(const NodeSpec& spec, const CpuContext& context) {
  const Product p = product_of(spec);
  size_t scratchpad = 0;
  for (const auto& product : products(p, *context.onednn))
    scratchpad = std::max(scratchpad, product.scratchpad_desc().get_size());
  return p.panel_bytes() + p.tile_bytes() +
         round_up(static_cast<int64_t>(scratchpad), kScratchAlignment);
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
